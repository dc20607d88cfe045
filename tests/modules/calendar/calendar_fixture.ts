// A room with a calendar, and helpers of calendar tests.
import assert from "node:assert/strict";
import { type ApiResponse, type Caller, type Harness, openGateway } from "../../harness.ts";
import { eventually } from "../../wait.ts";
import { createCallers, createRoom } from "../fixtures.ts";

export const CALENDAR = "/v1/collaboration/calendar";

export type CalendarFixture = {
  gateway: Harness;
  roomId: string;
  alice: Caller;
  bob: Caller;
  /** Member of the tenant, not of the room. */
  carol: Caller;
  [Symbol.asyncDispose](): Promise<void>;
};

/** Alice owns a private room, Bob is a member of it, Carol is not. */
export async function openCalendarFixture(environment: Record<string, string> = {}): Promise<CalendarFixture> {
  const gateway = await openGateway(environment);
  const callers = await createCallers(gateway, "alice", "bob", "carol");
  const roomId = await createRoom(callers.alice, ["bob"]);
  return { gateway, roomId, ...callers, [Symbol.asyncDispose]: () => gateway[Symbol.asyncDispose]() };
}

/** The response; throws unless it has this status. */
export function expectStatus(response: ApiResponse, status = 200): ApiResponse {
  assert.equal(response.status, status, JSON.stringify(response.body).slice(0, 500));
  return response;
}

/** All entries of a range; repeated while a busy machine truncates the response. */
export async function listEvents(caller: Caller, from: string, to: string, more = ""): Promise<ApiResponse["body"][]> {
  const { items } = await eventually(async () => {
    const { body } = expectStatus(await caller.get(`${CALENDAR}/events?from=${from}&to=${to}${more}`));
    assert.equal(body.truncated, false);
    return body;
  });
  return items;
}

/** Starts of the entries in a range, as instants. */
export async function listStarts(caller: Caller, from: string, to: string): Promise<string[]> {
  return (await listEvents(caller, from, to)).map((item) => item.startAt);
}

/** Durable events of a stream, oldest first. */
export async function readStreamEvents(gateway: Harness, stream: string, type: string): Promise<ApiResponse["body"][]> {
  const events = await gateway.app.store.log.read("default", stream, 0, 1000);
  return events.filter((event) => event.type === type).map((event) => JSON.parse(event.json));
}
