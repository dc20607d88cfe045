// A room with a calendar, and what calendar tests say often.
import assert from "node:assert/strict";
import { type Answer, type Caller, type Harness, openGateway } from "../harness.ts";
import { eventually } from "../wait.ts";
import { people, roomOf } from "./team.ts";

export const CALENDAR = "/v1/collaboration/calendar";

export type World = {
  gateway: Harness;
  roomId: string;
  alice: Caller;
  bob: Caller;
  /** Member of the tenant, not of the room. */
  carol: Caller;
  [Symbol.asyncDispose](): Promise<void>;
};

/** Alice owns a private room, Bob is a member of it, Carol is not. */
export async function openWorld(environment: Record<string, string> = {}): Promise<World> {
  const gateway = await openGateway(environment);
  const callers = await people(gateway, "alice", "bob", "carol");
  const roomId = await roomOf(callers.alice, ["bob"]);
  return { gateway, roomId, ...callers, [Symbol.asyncDispose]: () => gateway[Symbol.asyncDispose]() };
}

/** The answer, when it has the status expected. */
export function ok(answer: Answer, status = 200): Answer {
  assert.equal(answer.status, status, JSON.stringify(answer.body).slice(0, 500));
  return answer;
}

/** Entries of a range, all of them: on a machine that is very busy an answer may be cut short, and is asked for again. */
export async function list(caller: Caller, from: string, to: string, more = ""): Promise<Answer["body"][]> {
  const { items } = await eventually(async () => {
    const { body } = ok(await caller.get(`${CALENDAR}/events?from=${from}&to=${to}${more}`));
    assert.equal(body.truncated, false);
    return body;
  });
  return items;
}

/** Starts of what is in a range, as instants. */
export async function startsIn(caller: Caller, from: string, to: string): Promise<string[]> {
  return (await list(caller, from, to)).map((item) => item.startAt);
}

/** Durable events of a stream, oldest first. */
export async function eventsOf(gateway: Harness, stream: string, type: string): Promise<Answer["body"][]> {
  const events = await gateway.app.store.log.read("default", stream, 0, 1000);
  return events.filter((event) => event.type === type).map((event) => JSON.parse(event.json));
}
