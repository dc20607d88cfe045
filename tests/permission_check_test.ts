// What `permission.check` says of a room, compared with what each operation does there.
import assert from "node:assert/strict";
import type { Operation } from "@/core/operation.ts";
import type { ApiResponse, Caller } from "./harness.ts";
import { ok } from "./modules/fixtures.ts";
import { callOperation, exampleOf } from "./operation_request.ts";
import { BASE, createResources, findIds, openResourceGateway, withOwnIds } from "./resource_fixture.ts";

type Input = Record<string, unknown>;
/** Who asks, and about which room. Without a role: a stranger to it, who may browse it if it is public. */
type Case = {
  room?: "archived" | "public" | "mutes agents";
  caller?: { role?: "guest" | "member" | "admin"; kind?: "agent"; owner?: string };
  role: "observer" | "member" | "moderator" | "owner" | undefined;
};

const CASES: readonly Case[] = [
  { role: undefined },
  { role: "observer" },
  { role: "member", caller: { role: "guest" } },
  { role: "moderator" },
  { role: "owner" },
  { role: "observer", caller: { role: "admin" } },
  { room: "public", role: undefined },
  { room: "archived", role: "observer" },
  { room: "archived", role: "owner" },
  { room: "mutes agents", role: "moderator", caller: { kind: "agent", owner: "olga" } },
];
/** What a call responds for a reason; or `not_found`, where the resource belongs to others. */
const CODES: Record<string, string> = {
  tenant_role: "forbidden",
  room_role: "forbidden",
  agent_muted: "agent_muted",
  room_archived: "room_archived",
};
/** Refusals that are about the role, as opposed to more that an action requires. */
const OF_ROLE = /requires (the room role|membership)|is not available in a direct room/;
/** These respond with what is visible, or for each of several resources; or who is named decides. */
const OTHERS: ReadonlySet<string> = new Set([
  "memory.list",
  "presence.list",
  "task.bulk",
  "member.put",
  "member.remove",
]);
/** The last ones: what they end is needed by others. */
const ENDING = /delete|remove|cancel|end$|detach|forget|revoke/;
const rank = ({ name }: Operation): number => name === "room.delete" ? 2 : ENDING.test(name) ? 1 : 0;

for (const one of CASES) {
  Deno.test(`permission.check agrees with every operation of a room: ${nameOf(one)}`, async () => {
    await using gateway = await openResourceGateway();
    const owner = await gateway.as("olga");
    ok(await owner.get(`${BASE}/me`));
    const caller = await gateway.as("carl", one.caller ?? {});
    ok(await caller.get(`${BASE}/me`));
    const resources = await createResources(owner, "mine");
    const room = `/v1/rooms/${resources["room"]}`;
    if (one.role !== undefined) ok(await owner.put(`${room}/members/carl`, { role: one.role }));
    if (one.room === "public") ok(await owner.patch(room, { visibility: "public" }));
    if (one.room === "mutes agents") ok(await owner.patch(room, { agentPolicy: { mode: "off" } }));
    if (one.room === "archived") ok(await owner.patch(room, { state: "archived" }));
    for (const operation of [...gateway.app.operations.values()].toSorted((a, b) => rank(a) - rank(b))) {
      const example = exampleOf(operation);
      const isOfRoom = operation.access.room !== undefined || findIds(example).some(({ kind }) => kind === "room");
      // Of an archived room, only the state may change.
      const isOther = OTHERS.has(operation.name) || one.room === "archived" && operation.name === "room.update";
      if (!isOfRoom || isOther) continue;
      await assertAgrees(caller, operation, withOwnIds(example, resources) as Input, resources["room"]);
    }
  });
}

async function assertAgrees(caller: Caller, operation: Operation, input: Input, id: string | undefined): Promise<void> {
  const checks = [{ action: operation.name, resource: { type: "room", id } }];
  const { allowed, reason } = ok(await caller.post(`${BASE}/permissions/check`, { checks })).results[0];
  const { status, body }: ApiResponse = await callOperation(caller, operation, input);
  const label = `${operation.name}: ${reason}, but ${status} ${JSON.stringify(body)}`;
  if (!allowed) return assert.ok([CODES[reason], "not_found"].includes(body?.code), label);
  const isRefused = ["agent_muted", "room_archived", "scope_missing"].includes(body?.code) ||
    body?.code === "forbidden" && OF_ROLE.test(body.detail);
  assert.ok(!isRefused, label);
}

function nameOf({ room, caller, role }: Case): string {
  const who = [caller?.role ?? "", role ?? "stranger", caller?.kind ?? ""].filter((word) => word !== "").join(" ");
  return room === undefined ? who : `${who}, ${room}`;
}
