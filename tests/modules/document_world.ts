// What the tests of documents say often.
import type { Answer } from "../harness.ts";
import { ok, RoomWorld } from "./room_world.ts";

export const PATH = "/v1/collaboration/documents";

export class DocumentWorld extends RoomWorld {
  /** Makes a document as the member; throws unless it is made. */
  async make(text: string, input: Record<string, unknown> = {}): Promise<Answer["body"]> {
    return ok(await this.as("member").post(PATH, { roomId: this.roomId, title: "Notes", text, ...input }), 201);
  }

  async text(id: string): Promise<string> {
    return ok(await this.as("member").get(`${PATH}/${id}/content`)).text;
  }

  /** Edits on the newest revision; throws unless they are made. */
  async edit(id: string, ...edits: unknown[]): Promise<Answer["body"]> {
    const { body: { revision } } = await this.as("member").get(`${PATH}/${id}`);
    return ok(await this.as("member").patch(`${PATH}/${id}/content`, { baseRevision: revision, edits }));
  }

  /** Takes part with the CRDT itself: merges a Yjs update. */
  merge(id: string, update: Uint8Array, who = "member"): Promise<Answer> {
    return this.gateway.send(
      new Request(`http://gateway.test${PATH}/${id}/yjs`, {
        method: "POST",
        headers: { authorization: `Bearer ${this.as(who).token}`, "content-type": "application/octet-stream" },
        // Of bytes that are not shared, which no test's are.
        body: update as Uint8Array<ArrayBuffer>,
      }),
    );
  }

  /** The document events of the room so far. */
  events(): Promise<Answer["body"][]> {
    return this.eventsOf("document");
  }
}
