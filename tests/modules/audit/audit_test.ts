// The audit log: what is recorded, that it commits with the change, who reads it, and what it does not contain.
import assert from "node:assert/strict";
import { isAudited } from "@/core/operation.ts";
import { DAY_MS } from "@/core/time/clock.ts";
import { testOnEngines } from "../../engines.ts";
import { type ApiResponse, type Caller, openGateway } from "../../harness.ts";
import { okTool } from "../../transport/mcp_fixture.ts";
import { FakeSocket, sendCommand } from "../../transport/ws_harness.ts";
import { assertProblem, createRoom, ok } from "../fixtures.ts";
import { recordQueries } from "../query_log.ts";

const AUDIT = "/v1/collaboration/audit";
const CONFIDENTIAL = "a text that only its readers may see";

type Entry = {
  id: string;
  actorId: string;
  onBehalfOf: string | null;
  tokenId: string | null;
  operation: string;
  via: string;
  ip: string | null;
  userAgent: string | null;
  requestId: string;
  resourceId: string | null;
  changes: Record<string, unknown>;
};

async function entriesOf(caller: Caller, query = ""): Promise<Entry[]> {
  return withoutReads(ok(await caller.get(`${AUDIT}${query}`)).items);
}

/** Each reading of the log has an entry, too. */
function withoutReads(entries: readonly Entry[]): Entry[] {
  return entries.filter(({ operation }) => operation !== "audit.list");
}

testOnEngines(
  "each change of people, rights and credentials has an entry, and nothing else has",
  async (environment) => {
    await using gateway = await openGateway(environment);
    const [owner, bob, stranger] = [
      await gateway.as("olga", { role: "owner" }),
      await gateway.as("bob"),
      await gateway.as("eve", { role: "owner", tenant: "other" }),
    ];
    ok(await bob.get("/v1/collaboration/me"));
    const roomId = await createRoom(owner, ["bob"]);
    ok(await owner.post("/v1/messages", { roomId, text: CONFIDENTIAL }));
    assert.deepEqual(await entriesOf(owner), [], "what people say to each other administers nothing");
    const promoted = await owner.patch("/v1/collaboration/principals/bob", { role: "admin" });
    ok(promoted);
    const token = ok(await bob.post("/v1/collaboration/tokens", { name: CONFIDENTIAL, scopes: ["room.read"] }));
    ok(await owner.patch(`/v1/rooms/${roomId}`, { topic: CONFIDENTIAL }));
    ok(await owner.delete(`/v1/rooms/${roomId}/members/bob`));
    const { id: documentId } = ok(await owner.post("/v1/collaboration/documents", { title: CONFIDENTIAL }));
    const path = `/v1/collaboration/documents/${documentId}`;
    ok(await owner.put(`${path}/access/bob`, { role: "reader" }));
    ok(await owner.delete(`${path}/access/bob`));
    ok(await owner.delete(path));
    const all = await entriesOf(owner);
    const [deleted, unshared, shared, ...entries] = all;
    assert.deepEqual([deleted?.operation, deleted?.resourceId], ["document.delete", documentId]);
    assert.deepEqual([unshared?.operation, unshared?.resourceId], ["document.unshare", "bob"]);
    assert.deepEqual([shared?.operation, shared?.changes["id"]], ["document.share", documentId]);
    assert.deepEqual(entries.map(({ operation, actorId, resourceId }) => [operation, actorId, resourceId]), [
      ["member.remove", "olga", "bob"],
      ["room.update", "olga", roomId],
      ["token.create", "bob", token.id],
      ["principal.update", "olga", "bob"],
    ]);
    const [removed, updated, created, changed] = entries;
    assert.deepEqual(removed?.changes, { id: roomId, principalId: "bob", ban: "false" });
    assert.deepEqual(updated?.changes, { id: roomId, topic: null });
    assert.equal(created?.changes.scopes, "room.read");
    assert.deepEqual(changed?.changes, { id: "bob", role: "admin" });
    assert.equal(changed?.requestId, promoted.headers.get("x-request-id"));
    assert.equal(changed?.via, "http");
    assert.ok(!JSON.stringify(entries).includes(CONFIDENTIAL));
    assert.ok(!JSON.stringify(entries).includes(token.token));
    assert.deepEqual(await entriesOf(stranger), [], "another tenant has its own");

    const named = async (query: string) => (await entriesOf(owner, query)).map(({ operation }) => operation);
    assert.deepEqual(await named("?actorId=bob"), ["token.create"]);
    const ofBob = ["document.unshare", "document.share", "member.remove", "principal.update"];
    assert.deepEqual(await named("?resourceId=bob"), ofBob);
    assert.deepEqual(await named("?operation=token"), ["token.create"]);
    assert.deepEqual(await named("?operation=room.update"), ["room.update"]);
    assert.deepEqual(await named("?operation=roo"), []);
    assert.deepEqual(await named("?to=2026-03-01T13:00:00%2B01:00"), [], "that is the time of all of them");
    const paged: Entry[] = [];
    for (let cursor = ""; paged.length < all.length;) {
      const page = ok(await owner.get(`${AUDIT}?limit=3${cursor}`));
      paged.push(...withoutReads(page.items));
      cursor = `&cursor=${page.nextCursor}`;
    }
    assert.deepEqual(paged, all);
  },
);

testOnEngines("what was refused or failed has no entry, and a repeated call has one", async (environment) => {
  await using gateway = await openGateway(environment);
  const [owner, member] = [await gateway.as("olga", { role: "owner" }), await gateway.as("bob")];
  ok(await member.get("/v1/collaboration/me"));
  assertProblem(await member.patch("/v1/collaboration/principals/bob", { role: "owner" }), 403, "forbidden");
  assertProblem(await owner.patch("/v1/collaboration/principals/nobody", { role: "admin" }), 404, "not_found");
  assert.deepEqual(await entriesOf(owner), []);
  const call = (): Promise<ApiResponse> =>
    owner.post("/v1/collaboration/invitations", { name: "Team" }, { "idempotency-key": "once" });
  const [one, other] = [ok(await call()), ok(await call())];
  assert.equal(one.id, other.id);
  assert.deepEqual((await entriesOf(owner)).map(({ resourceId }) => resourceId), [one.id]);
});

testOnEngines("an entry that cannot be stored undoes what it is about", async (environment) => {
  await using gateway = await openGateway(environment);
  const [owner, member] = [await gateway.as("olga", { role: "owner" }), await gateway.as("bob")];
  ok(await member.get("/v1/collaboration/me"));
  await gateway.app.store.write(({ db }) => db.schema.alterTable("audit_entry").renameTo("lost").execute());
  assert.equal((await owner.patch("/v1/collaboration/principals/bob", { role: "admin" })).status, 500);
  const bob = ok(await owner.get("/v1/collaboration/principals/bob"));
  assert.equal(bob.role, "member");
  await gateway.app.store.write(({ db }) => db.schema.alterTable("lost").renameTo("audit_entry").execute());
});

Deno.test("sessions have entries, agents those of their owners, and old entries are deleted", async () => {
  await using gateway = await openGateway({ SVC_LIMIT_AUDIT_DAYS: "10" });
  const owner = await gateway.as("olga", { role: "owner" });
  ok(await owner.get("/v1/collaboration/me"));
  const bot = await gateway.as("bot", { kind: "agent", owner: "olga", role: "admin" });
  const { code } = ok(await bot.post("/v1/collaboration/invitations", {}));
  const joined = ok(
    await gateway.withToken(undefined).post("/v1/collaboration/auth/join", { code, displayName: "Carol" }),
  );
  const [session, invitation] = await entriesOf(owner);
  assert.deepEqual([session?.operation, session?.actorId, session?.tokenId], [
    "sign_in",
    joined.principalId,
    joined.id,
  ]);
  assert.deepEqual([invitation?.actorId, invitation?.onBehalfOf], ["bot", "olga"]);
  gateway.clock.advance(9 * DAY_MS);
  const later = await gateway.as("olga", { role: "owner" });
  await gateway.app.runMaintenance();
  assert.equal((await entriesOf(later)).length, 2);
  gateway.clock.advance(2 * DAY_MS);
  await gateway.app.runMaintenance();
  assert.deepEqual(await entriesOf(await gateway.as("olga", { role: "owner" })), []);
});

Deno.test("an entry has the address and the program of its caller, whatever the transport", async () => {
  await using gateway = await openGateway();
  const owner = await gateway.as("olga", { role: "owner" });
  const id = await createRoom(owner, []);
  await okTool(owner, "operation_call", { name: "room.update", input: { id, topic: "by MCP" } });
  const socket = new FakeSocket();
  const peer = { socket, connection: gateway.app.hub.open(socket, { ip: "192.0.2.7", userAgent: "tool/1" }) };
  assert.ok((await sendCommand(peer, 1, { connect: { token: owner.token } })).connect);
  assert.ok((await sendCommand(peer, 2, { rpc: { method: "room.update", data: { id, topic: "by ws" } } })).rpc);
  assert.deepEqual((await entriesOf(owner)).map(({ via, ip, userAgent }) => [via, ip, userAgent]), [
    ["ws", "192.0.2.7", "tool/1"],
    ["mcp", "127.0.0.1", null],
  ]);
});

Deno.test("auditors and administrators read the audit log, and what administers is recorded without being named", async () => {
  await using gateway = await openGateway();
  assertProblem(await (await gateway.as("bob")).get(AUDIT), 403, "forbidden");
  const auditor = await gateway.as("ada", { role: "auditor" });
  for (const path of ["", "/verification"]) ok(await auditor.get(`${AUDIT}${path}`));
  const download = await auditor.open(`${AUDIT}/export`);
  assert.equal((await download.text()).trim().split("\n").length, 3);
  assertProblem(await auditor.get("/v1/collaboration/invitations"), 403, "forbidden");
  assertProblem(await auditor.patch("/v1/collaboration/principals/ada", { role: "admin" }), 403, "forbidden");
  const limited = await gateway.as("olga", { role: "owner", scope: "room.read" });
  assertProblem(await limited.get(AUDIT), 403, "scope_missing");
  const operations = [...gateway.app.operations.values()];
  const unrecorded = operations.filter((operation) =>
    ["admin", "owner"].includes(operation.access.tenant ?? "") && operation.http.method !== "GET" &&
    !isAudited(operation)
  );
  assert.deepEqual(unrecorded.map(({ name }) => name), []);
});

testOnEngines("what is rare in a long log is found, page by page", async (environment) => {
  await using gateway = await openGateway(environment);
  const owner = await gateway.as("olga", { role: "owner" });
  const rare = new Set([1, 5000, 5001, 10_001, 12_000]);
  const rows = Array.from({ length: 12_000 }, (_, n) => ({
    tenant_id: "default",
    id: `aud_${String(n + 1).padStart(6, "0")}`,
    seq: n + 1,
    at: new Date(Date.UTC(2020, 0, 1) + n * 60_000).toISOString(),
    actor_id: "olga",
    operation: rare.has(n + 1) ? "rare.thing" : "room.update",
    via: "http",
    changes_json: "{}",
  }));
  await gateway.app.store.write(async (tx) => {
    for (let at = 0; at < rows.length; at += 1000) await tx.insertMany("audit_entry", rows.slice(at, at + 1000));
  });
  for (const operation of ["rare", "rare.thing"]) {
    const found: number[] = [];
    for (let cursor = ""; cursor !== "end";) {
      const { items, nextCursor } = ok(await owner.get(`${AUDIT}?operation=${operation}&limit=2${cursor}`));
      found.push(...items.map(({ seq }: { seq: number }) => seq));
      cursor = nextCursor === null ? "end" : `&cursor=${nextCursor}`;
    }
    assert.deepEqual(found, [...rare].toReversed());
  }
  const first = ok(await owner.get(`${AUDIT}?to=2020-01-01T00:00:30Z`));
  assert.deepEqual(first.items.map(({ seq }: { seq: number }) => seq), [1]);
  const slices = gateway.app.store.dialect === "sqlite" ? Math.ceil((rows.length + 1) / 2000) : 1;
  for (
    const [filter, pieces] of [
      ["operation=nothing", 0],
      ["operation=rare.thing", 1],
      ["operation=rare.thing&actorId=bob", slices],
      ["to=2019-01-01T00:00:00Z", slices],
    ] as const
  ) {
    const statements = await recordQueries(async () => void ok(await owner.get(`${AUDIT}?${filter}`)));
    assert.equal(statements.filter(({ sql }) => sql.includes('select * from "audit_entry"')).length, pieces, filter);
  }
});
