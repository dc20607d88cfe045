// A team in a room, for tests of what people do with each other.
import assert from "node:assert/strict";
import type { CpuAccount, CpuBudget } from "@/core/limit/cpu_budget.ts";
import type { Module } from "@/core/module.ts";
import type { Platform } from "@/ports/platform.ts";
import { type ApiResponse, type Caller, type Harness, openGateway } from "../harness.ts";
import { until } from "../wait.ts";

/** A gateway with its rate limits on, and the accounts that its work is charged to. */
export async function openWithLimits(): Promise<{ gateway: Harness; accountOf: (principalId: string) => CpuAccount }> {
  let cpu: CpuBudget | undefined;
  const probe = (platform: Platform): Module => {
    cpu = platform.cpu;
    return { name: "probe", operations: [] };
  };
  const gateway = await openGateway({ SVC_RATE_LIMIT: "on" }, { modules: [probe] });
  return { gateway, accountOf: (id) => cpu?.accountOfKey(`default/${id}`) ?? assert.fail("No budget") };
}

/** Callers by name; each has called once, so that it exists. */
export async function createCallers<Name extends string>(
  gateway: Harness,
  ...names: Name[]
): Promise<Record<Name, Caller>> {
  const entries = await Promise.all(names.map(async (name) => [name, await createCaller(gateway, name)] as const));
  return Object.fromEntries(entries) as Record<Name, Caller>; // exactly these names, as just made
}

/** A caller whose principal exists. */
export async function createCaller(gateway: Harness, ...of: Parameters<Harness["as"]>): Promise<Caller> {
  const caller = await gateway.as(...of);
  ok(await caller.get("/v1/collaboration/me"));
  return caller;
}

/** The body of a response that must be a success. */
// deno-lint-ignore no-explicit-any -- as in the harness: bodies of every shape
export function ok(answer: ApiResponse): any {
  assert.ok(answer.status < 300, `${answer.status} ${JSON.stringify(answer.body)}`);
  return answer.body;
}

/** Asserts a problem by status and code. */
export function assertProblem(answer: ApiResponse, status: number, code: string): void {
  assert.equal(answer.status, status, JSON.stringify(answer.body));
  assert.equal(answer.body.code, code, JSON.stringify(answer.body));
}

/** A room that `owner` makes with members by id. */
export async function createRoom(
  owner: Caller,
  memberIds: string[],
  more: Record<string, unknown> = {},
): Promise<string> {
  return ok(await owner.post("/v1/rooms", { name: "Team", memberIds, ...more })).id;
}

/** Sends a text; resolves to the message. */
export async function sendMessage(
  who: Caller,
  roomId: string,
  text: string,
  more: Record<string, unknown> = {},
  // deno-lint-ignore no-explicit-any -- as above
): Promise<any> {
  return ok(await who.post("/v1/messages", { roomId, text, ...more }));
}

/** The texts of a room's messages, in their order. */
export async function readTexts(who: Caller, roomId: string): Promise<string[]> {
  const { items } = ok(await who.get(`/v1/messages?roomId=${roomId}`));
  return items.map(({ text }: { text: string }) => text);
}

/** The last search that is asked again. */
let repeating: Promise<unknown> = Promise.resolve();

/** The body of a search's complete response. */
export async function completeSearch(
  search: () => Promise<ApiResponse>,
  transientReasons?: readonly string[],
  // deno-lint-ignore no-explicit-any -- as above
): Promise<any> {
  return ok(await completeAnswer(search, transientReasons));
}

/**
 * A search's response, also one that refuses it. A busy machine may cut a search short, for which its response has one of these
 * reasons, or none if it names no reasons: it is then asked again, one after the other, since many at the same time make each
 * other late.
 */
export async function completeAnswer(
  search: () => Promise<ApiResponse>,
  transientReasons: readonly string[] = ["index_incomplete"],
): Promise<ApiResponse> {
  const isComplete = ({ status, body: { degraded, degradedReason = "index_incomplete" } }: ApiResponse): boolean =>
    status !== 503 && !(degraded === true && transientReasons.includes(degradedReason));
  let answer = await search();
  if (isComplete(answer)) return answer;
  const repeated = repeating.then(() =>
    until(async () => {
      answer = await search();
      return isComplete(answer);
    }, "a complete search")
  );
  repeating = repeated.catch(() => {});
  await repeated;
  return answer;
}

/** Searches until the search is complete, see `completeSearch`. */
export function search(
  who: Caller,
  body: Record<string, unknown>,
  transientReasons?: readonly string[],
  // deno-lint-ignore no-explicit-any -- as above
): Promise<any> {
  return completeSearch(() => who.post("/v1/search", body), transientReasons);
}

/** Types and data of a room's events after a position. */
export async function readRoomEvents(
  who: Caller,
  roomId: string,
  after = 0,
  // deno-lint-ignore no-explicit-any -- as above
): Promise<{ seq: number; type: string; data: any }[]> {
  return ok(await who.get(`/v1/rooms/${roomId}/events?after=${after}&limit=300`)).events;
}
