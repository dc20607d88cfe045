// What the tests of tasks start from: a gateway, a room with one of each role, and short ways to say the usual things.
import assert from "node:assert/strict";
import { type Answer, type Caller, type Harness, openGateway } from "../harness.ts";

export const PATH = "/v1/collaboration/tasks";

export class TaskWorld {
  readonly gateway: Harness;
  readonly roomId: string;
  readonly owner: Caller;
  readonly moderator: Caller;
  readonly member: Caller;
  readonly observer: Caller;
  /** In the tenant, not in the room. */
  readonly outsider: Caller;

  constructor(gateway: Harness, roomId: string, callers: readonly Caller[]) {
    this.gateway = gateway;
    this.roomId = roomId;
    const [owner, moderator, member, observer, outsider] = callers;
    assert.ok(owner && moderator && member && observer && outsider);
    [this.owner, this.moderator, this.member, this.observer, this.outsider] = [
      owner,
      moderator,
      member,
      observer,
      outsider,
    ];
  }

  /** Makes a task as the member; throws unless it is made. */
  async make(title: string, input: Record<string, unknown> = {}): Promise<Answer["body"]> {
    const answer = await this.member.post(PATH, { roomId: this.roomId, title, ...input });
    assert.equal(answer.status, 201, JSON.stringify(answer.body));
    return answer.body;
  }

  async patch(id: string, input: Record<string, unknown>): Promise<Answer["body"]> {
    const answer = await this.member.patch(`${PATH}/${id}`, input);
    assert.equal(answer.status, 200, JSON.stringify(answer.body));
    return answer.body;
  }

  async read(id: string): Promise<Answer["body"]> {
    const answer = await this.member.get(`${PATH}/${id}`);
    assert.equal(answer.status, 200, JSON.stringify(answer.body));
    return answer.body;
  }

  /** Titles in the order of a list. */
  async titles(query: string, caller: Caller = this.member): Promise<string[]> {
    const answer = await caller.get(`${PATH}?${query}`);
    assert.equal(answer.status, 200, JSON.stringify(answer.body));
    return answer.body.items.map((task: { title: string }) => task.title);
  }

  /** Types and data of the task events of the room so far. */
  async events(): Promise<Answer["body"][]> {
    const { body } = await this.owner.get(`/v1/rooms/${this.roomId}/events?after=0&limit=200`);
    return body.events.filter((event: { type: string }) => event.type.startsWith("task."));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.gateway[Symbol.asyncDispose]();
  }
}

export async function openTaskWorld(room: Record<string, unknown> = {}): Promise<TaskWorld> {
  const gateway = await openGateway();
  const names = ["owner", "moderator", "member", "observer", "outsider"];
  const callers = await Promise.all(names.map((name) => gateway.as(name)));
  // A principal exists from its first call on.
  for (const caller of callers) await caller.get("/v1/collaboration/me");
  const [owner] = callers;
  assert.ok(owner);
  const { body } = await owner.post("/v1/rooms", { name: "Operations", slug: "ops", visibility: "private", ...room });
  for (const role of ["moderator", "member", "observer"]) {
    const put = await owner.put(`/v1/rooms/${body.id}/members/${role}`, { role });
    assert.equal(put.status, 201, JSON.stringify(put.body));
  }
  return new TaskWorld(gateway, body.id, callers);
}

/** Asserts a failure by status and code, which are what clients go by. */
export function assertFault(answer: Answer, status: number, code: string): void {
  assert.deepEqual([answer.status, answer.body.code], [status, code], JSON.stringify(answer.body));
}
