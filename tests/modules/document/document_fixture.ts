// The fixture of document tests.
import type { ApiResponse } from "../../harness.ts";
import { ok, RoomFixture } from "../room/room_fixture.ts";

export const PATH = "/v1/collaboration/documents";

export class DocumentFixture extends RoomFixture {
  /** Creates a document as the member. */
  async create(text: string, input: Record<string, unknown> = {}): Promise<ApiResponse["body"]> {
    return ok(await this.as("member").post(PATH, { roomId: this.roomId, title: "Notes", text, ...input }), 201);
  }

  async readText(id: string): Promise<string> {
    return ok(await this.as("member").get(`${PATH}/${id}/content`)).text;
  }

  /** Applies edits to the current revision. */
  async edit(id: string, ...edits: unknown[]): Promise<ApiResponse["body"]> {
    const { body: { revision } } = await this.as("member").get(`${PATH}/${id}`);
    return ok(await this.as("member").patch(`${PATH}/${id}/content`, { baseRevision: revision, edits }));
  }

  /** Merges a Yjs update. */
  mergeUpdate(id: string, update: Uint8Array, who = "member"): Promise<ApiResponse> {
    return this.as(who).post(`${PATH}/${id}/yjs`, update);
  }

  /** The document events of the room so far. */
  readEvents(): Promise<ApiResponse["body"][]> {
    return this.readModuleEvents("document");
  }
}
