// What may be shown of a notification now: its words are of something that may be gone, or hidden from its reader, since.
import { type Actor, hasScope } from "@/core/actor.ts";
import { startOf } from "@/core/text.ts";
import { PREVIEW_MAX } from "./schema.ts";
import type { NotificationRow } from "./store.ts";

type Seen = (actor: Actor, ids: readonly string[]) => Promise<ReadonlySet<string>>;

/** Asks the modules that come after this one which of these are there, and may be known by the actor. */
export type Sight = {
  rooms: Seen;
  /** Of tasks in rooms that the actor sees. */
  tasks: Seen;
  events: Seen;
  /** The texts of messages that the actor may read now. */
  texts(actor: Actor, messageIds: readonly string[]): Promise<ReadonlyMap<string, string>>;
};

/** The rows without the words of what their reader may not know any more. */
export async function shown(sight: Sight, actor: Actor, rows: readonly NotificationRow[]): Promise<NotificationRow[]> {
  const titled = rows.filter(({ title }) => title !== null);
  const of = (type: string): string[] =>
    idsOf(titled.map((row) => row.resource_type === type ? row.resource_id : null));
  const [rooms, tasks, events] = await Promise.all([
    sight.rooms(actor, idsOf(titled.map((row) => row.room_id))),
    sight.tasks(actor, of("task")),
    sight.events(actor, of("event")),
  ]);
  const isKnown = ({ room_id, resource_type, resource_id }: NotificationRow): boolean => {
    const id = resource_id ?? "";
    // Who is invited knows an event without its room.
    if (resource_type === "event") return events.has(id);
    return (room_id === null || rooms.has(room_id)) && (resource_type !== "task" || tasks.has(id));
  };
  return rows.map((row) => row.title === null || isKnown(row) ? row : { ...row, title: null, data_json: "{}" });
}

/** How the messages that these are about begin now, by message id. */
export async function previews(
  sight: Sight,
  actor: Actor,
  rows: readonly NotificationRow[],
): Promise<ReadonlyMap<string, string>> {
  const ids = idsOf(rows.map((row) => row.message_id));
  const texts = hasScope(actor, "message.read") && ids.length > 0 ? await sight.texts(actor, ids) : new Map();
  return new Map([...texts].map(([id, text]) => [id, startOf(text, PREVIEW_MAX)]));
}

function idsOf(ids: readonly (string | null)[]): string[] {
  return [...new Set(ids.flatMap((id) => id ?? []))];
}
