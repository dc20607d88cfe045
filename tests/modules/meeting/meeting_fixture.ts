// Helpers of meeting tests.
import type { ApiResponse } from "../../harness.ts";
import { ok, RoomFixture } from "../room/room_fixture.ts";

export const PATH = "/v1/collaboration/meetings";

export class MeetingFixture extends RoomFixture {
  /** Starts a meeting in the room. */
  async start(input: Record<string, unknown> = {}, name = "member"): Promise<ApiResponse["body"]> {
    return ok(await this.as(name).post(PATH, { roomId: this.roomId, ...input }), 201);
  }

  tryJoin(meeting: { id: string }, name: string, input: Record<string, unknown> = {}): Promise<ApiResponse> {
    return this.as(name).post(`${PATH}/${meeting.id}/join`, input);
  }

  /** Joins; resolves to the response. */
  async join(meeting: { id: string }, name: string, input: Record<string, unknown> = {}): Promise<ApiResponse["body"]> {
    return ok(await this.tryJoin(meeting, name, input));
  }

  call(meeting: { id: string }, name: string, verb: string, participantId?: string): Promise<ApiResponse> {
    return this.as(name).post(`${PATH}/${meeting.id}/${verb}`, participantId === undefined ? {} : { participantId });
  }

  async read(meeting: { id: string }, name = "owner"): Promise<ApiResponse["body"]> {
    return ok(await this.as(name).get(`${PATH}/${meeting.id}`));
  }

  /** Meeting events of the room so far. */
  readEvents(): Promise<ApiResponse["body"][]> {
    return this.readModuleEvents("meeting");
  }

  /** The same as text: type, count after it, and the reason if there is one. */
  async summarizeEvents(): Promise<string[]> {
    return (await this.readEvents()).map(({ type, data }) =>
      `${type.slice("meeting.".length)} ${data.meeting.participantCount} ${data.reason ?? ""}`.trim()
    );
  }

  /** Advances the clock and runs due jobs. */
  async advance(seconds: number): Promise<void> {
    this.gateway.clock.advance(seconds * 1000);
    await this.gateway.runJobs();
  }
}

/** With `other`, a second member. */
export function openMeetingFixture(environment: Record<string, string> = {}): Promise<MeetingFixture> {
  return MeetingFixture.open({ environment, names: ["other"] });
}
