// What the tests of documents start from: a gateway, a room with one of each role, and short ways to say the usual things.
import assert from "node:assert/strict";
import { type Answer, type Caller, type Harness, openGateway } from "../harness.ts";

export const PATH = "/v1/collaboration/documents";

export class DocumentWorld {
  readonly gateway: Harness;
  readonly roomId: string;
  readonly callers: ReadonlyMap<string, Caller>;

  constructor(gateway: Harness, roomId: string, callers: ReadonlyMap<string, Caller>) {
    this.gateway = gateway;
    this.roomId = roomId;
    this.callers = callers;
  }

  /** `owner`, `moderator`, `member`, `observer`, or `outsider`, who is in the tenant but not in the room. */
  as(name: string): Caller {
    const caller = this.callers.get(name);
    assert.ok(caller, name);
    return caller;
  }

  /** Makes a document as the member; throws unless it is made. */
  async make(text: string, input: Record<string, unknown> = {}): Promise<Answer["body"]> {
    const answer = await this.as("member").post(PATH, { roomId: this.roomId, title: "Notes", text, ...input });
    assert.equal(answer.status, 201, JSON.stringify(answer.body));
    return answer.body;
  }

  async text(id: string): Promise<string> {
    const { status, body } = await this.as("member").get(`${PATH}/${id}/content`);
    assert.equal(status, 200, JSON.stringify(body));
    return body.text;
  }

  /** Edits on the newest revision; throws unless they are made. */
  async edit(id: string, ...edits: unknown[]): Promise<Answer["body"]> {
    const { body: { revision } } = await this.as("member").get(`${PATH}/${id}`);
    const answer = await this.as("member").patch(`${PATH}/${id}/content`, { baseRevision: revision, edits });
    assert.equal(answer.status, 200, JSON.stringify(answer.body));
    return answer.body;
  }

  /** The document events of the room so far. */
  async events(): Promise<Answer["body"][]> {
    const { body } = await this.as("owner").get(`/v1/rooms/${this.roomId}/events?after=0&limit=300`);
    return body.events.filter((event: { type: string }) => event.type.startsWith("document."));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.gateway[Symbol.asyncDispose]();
  }
}

export async function openDocumentWorld(environment: Record<string, string> = {}): Promise<DocumentWorld> {
  const gateway = await openGateway(environment);
  const callers = new Map<string, Caller>();
  for (const name of ["owner", "moderator", "member", "observer", "outsider"]) {
    callers.set(name, await gateway.as(name));
    // A principal exists from its first call on.
    await callers.get(name)?.get("/v1/collaboration/me");
  }
  const { body } = await callers.get("owner")?.post("/v1/rooms", { name: "Operations" }) ?? { body: undefined };
  for (const role of ["moderator", "member", "observer"]) {
    const put = await callers.get("owner")?.put(`/v1/rooms/${body.id}/members/${role}`, { role });
    assert.equal(put?.status, 201, JSON.stringify(put?.body));
  }
  return new DocumentWorld(gateway, body.id, callers);
}

/** Asserts a failure by status and code, which are what clients go by. */
export function assertFault(answer: Answer, status: number, code: string): void {
  assert.deepEqual([answer.status, answer.body.code], [status, code], JSON.stringify(answer.body));
}
