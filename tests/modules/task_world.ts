// What the tests of tasks say often.
import type { Answer, Caller } from "../harness.ts";
import { ok, RoomWorld } from "./room_world.ts";

export const PATH = "/v1/collaboration/tasks";

export class TaskWorld extends RoomWorld {
  readonly owner = this.as("owner");
  readonly moderator = this.as("moderator");
  readonly member = this.as("member");
  readonly observer = this.as("observer");
  readonly outsider = this.as("outsider");

  /** Makes a task as the member; throws unless it is made. */
  async make(title: string, input: Record<string, unknown> = {}): Promise<Answer["body"]> {
    return ok(await this.member.post(PATH, { roomId: this.roomId, title, ...input }), 201);
  }

  async patch(id: string, input: Record<string, unknown>): Promise<Answer["body"]> {
    return ok(await this.member.patch(`${PATH}/${id}`, input));
  }

  async read(id: string): Promise<Answer["body"]> {
    return ok(await this.member.get(`${PATH}/${id}`));
  }

  /** Titles in the order of a list. */
  async titles(query: string, caller: Caller = this.member): Promise<string[]> {
    return ok(await caller.get(`${PATH}?${query}`)).items.map((task: { title: string }) => task.title);
  }

  /** The task events of the room so far. */
  events(): Promise<Answer["body"][]> {
    return this.eventsOf("task");
  }
}

export function openTaskWorld(
  room: Record<string, unknown> = {},
  environment: Record<string, string> = {},
): Promise<TaskWorld> {
  return TaskWorld.open({ environment, room: { slug: "ops", visibility: "private", ...room } });
}
