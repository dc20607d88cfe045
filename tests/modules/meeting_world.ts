// What the tests of meetings say often.
import type { Answer } from "../harness.ts";
import { ok, RoomWorld } from "./room_world.ts";

export const PATH = "/v1/collaboration/meetings";

export class MeetingWorld extends RoomWorld {
  /** Starts a meeting in the room; throws unless it starts. */
  async start(input: Record<string, unknown> = {}, name = "member"): Promise<Answer["body"]> {
    return ok(await this.as(name).post(PATH, { roomId: this.roomId, ...input }), 201);
  }

  tryJoin(meeting: { id: string }, name: string, input: Record<string, unknown> = {}): Promise<Answer> {
    return this.as(name).post(`${PATH}/${meeting.id}/join`, input);
  }

  /** Joins; resolves to the answer of join. */
  async join(meeting: { id: string }, name: string, input: Record<string, unknown> = {}): Promise<Answer["body"]> {
    return ok(await this.tryJoin(meeting, name, input));
  }

  call(meeting: { id: string }, name: string, verb: string, participantId?: string): Promise<Answer> {
    return this.as(name).post(`${PATH}/${meeting.id}/${verb}`, participantId === undefined ? {} : { participantId });
  }

  async read(meeting: { id: string }, name = "owner"): Promise<Answer["body"]> {
    return ok(await this.as(name).get(`${PATH}/${meeting.id}`));
  }

  /** Meeting events of the room so far. */
  events(): Promise<Answer["body"][]> {
    return this.eventsOf("meeting");
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
}

/** With `other`, a second member. */
export function openWorld(environment: Record<string, string> = {}): Promise<MeetingWorld> {
  return MeetingWorld.open({ environment, names: ["other"] });
}
