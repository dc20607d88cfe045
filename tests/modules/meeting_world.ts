// What the tests of meetings start from: a gateway, a room with one of each role, and short ways to say the usual things.
import assert from "node:assert/strict";
import { type Answer, type Caller, type Harness, openGateway } from "../harness.ts";

export const PATH = "/v1/collaboration/meetings";
const ROLES = ["moderator", "member", "observer"] as const;

export class MeetingWorld {
  readonly gateway: Harness;
  readonly roomId: string;
  /** By name: owner, moderator, member, other (a second member), observer, outsider. */
  readonly callers: ReadonlyMap<string, Caller>;

  constructor(gateway: Harness, roomId: string, callers: ReadonlyMap<string, Caller>) {
    this.gateway = gateway;
    this.roomId = roomId;
    this.callers = callers;
  }

  who(name: string): Caller {
    const caller = this.callers.get(name);
    assert.ok(caller, name);
    return caller;
  }

  /** Starts a meeting in the room; throws unless it starts. */
  async start(input: Record<string, unknown> = {}, name = "member"): Promise<Answer["body"]> {
    return ok(await this.who(name).post(PATH, { roomId: this.roomId, ...input }), 201);
  }

  tryJoin(meeting: { id: string }, name: string, input: Record<string, unknown> = {}): Promise<Answer> {
    return this.who(name).post(`${PATH}/${meeting.id}/join`, input);
  }

  /** Joins; resolves to the answer of join. */
  async join(meeting: { id: string }, name: string, input: Record<string, unknown> = {}): Promise<Answer["body"]> {
    return ok(await this.tryJoin(meeting, name, input));
  }

  call(meeting: { id: string }, name: string, verb: string, participantId?: string): Promise<Answer> {
    return this.who(name).post(`${PATH}/${meeting.id}/${verb}`, participantId === undefined ? {} : { participantId });
  }

  async read(meeting: { id: string }, name = "owner"): Promise<Answer["body"]> {
    return ok(await this.who(name).get(`${PATH}/${meeting.id}`));
  }

  /** Meeting events of the room so far. */
  async events(): Promise<Answer["body"][]> {
    const found: Answer["body"][] = [];
    for (let after = 0, isMore = true; isMore;) {
      const { body } = await this.who("owner").get(`/v1/rooms/${this.roomId}/events?after=${after}&limit=300`);
      found.push(...body.events);
      after = body.events.at(-1)?.seq ?? after;
      isMore = !body.complete;
    }
    return found.filter((event) => event.type.startsWith("meeting."));
  }

  /** The same as words: type, count after it, and the reason when there is one. */
  async story(): Promise<string[]> {
    return (await this.events()).map(({ type, data }) =>
      `${type.slice("meeting.".length)} ${data.meeting.participantCount} ${data.reason ?? ""}`.trim()
    );
  }

  /** Moves time on and lets what is due happen. */
  async pass(seconds: number): Promise<void> {
    this.gateway.clock.advance(seconds * 1000);
    await this.gateway.runJobs();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.gateway[Symbol.asyncDispose]();
  }
}

/** The body of an answer with this status; throws with the body when it has another. */
export function ok(answer: Answer, status = 200): Answer["body"] {
  assert.equal(answer.status, status, JSON.stringify(answer.body));
  return answer.body;
}

export async function openWorld(environment: Record<string, string> = {}): Promise<MeetingWorld> {
  const gateway = await openGateway(environment);
  const callers = new Map<string, Caller>();
  for (const name of ["owner", ...ROLES, "other", "outsider"]) {
    const caller = await gateway.as(name);
    ok(await caller.get("/v1/collaboration/me"));
    callers.set(name, caller);
  }
  const owner = callers.get("owner");
  assert.ok(owner);
  const room = ok(await owner.post("/v1/rooms", { name: "Operations", memberIds: ["member", "other"] }), 201);
  for (const role of ["moderator", "observer"]) {
    ok(await owner.put(`/v1/rooms/${room.id}/members/${role}`, { role }), 201);
  }
  return new MeetingWorld(gateway, room.id, callers);
}

/** Resolves once `isTrue` is; throws after two seconds. */
export async function until(isTrue: () => Promise<boolean>, what: string): Promise<void> {
  const end = Date.now() + 2000;
  while (!await isTrue()) {
    if (Date.now() > end) throw new Error(`did not happen: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
