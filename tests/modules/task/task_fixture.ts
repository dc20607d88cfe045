// The fixture of task tests.
import type { ApiResponse, Caller } from "../../harness.ts";
import { ok, RoomFixture } from "../room/room_fixture.ts";

export const PATH = "/v1/collaboration/tasks";

export class TaskFixture extends RoomFixture {
  readonly owner = this.as("owner");
  readonly moderator = this.as("moderator");
  readonly member = this.as("member");
  readonly observer = this.as("observer");
  readonly outsider = this.as("outsider");

  /** Creates a task as the member. */
  async create(title: string, input: Record<string, unknown> = {}): Promise<ApiResponse["body"]> {
    return ok(await this.member.post(PATH, { roomId: this.roomId, title, ...input }), 201);
  }

  async update(id: string, input: Record<string, unknown>): Promise<ApiResponse["body"]> {
    return ok(await this.member.patch(`${PATH}/${id}`, input));
  }

  async read(id: string): Promise<ApiResponse["body"]> {
    return ok(await this.member.get(`${PATH}/${id}`));
  }

  /** Titles in the order of a list. */
  async listTitles(query: string, caller: Caller = this.member): Promise<string[]> {
    return ok(await caller.get(`${PATH}?${query}`)).items.map((task: { title: string }) => task.title);
  }

  /** The task events of the room so far. */
  readEvents(): Promise<ApiResponse["body"][]> {
    return this.readModuleEvents("task");
  }
}

export function openTaskFixture(
  room: Record<string, unknown> = {},
  environment: Record<string, string> = {},
): Promise<TaskFixture> {
  return TaskFixture.open({ environment, room: { slug: "ops", visibility: "private", ...room } });
}
