// Redacts notifications: their resource may have been deleted, or be no longer visible to the recipient.
import { type Actor, hasScope } from "@/core/actor.ts";
import type { CanRead } from "@/core/module.ts";
import { truncateText } from "@/core/text/text.ts";
import type { AnyDatabase } from "@/ports/store.ts";
import { PREVIEW_MAX } from "./schema.ts";
import type { NotificationRow } from "./store.ts";

/** Checks of other modules. */
export type ResourceVisibility = {
  /** The check of the module that has resources of this type; `undefined` where there is none. */
  readCheckFor(type: string): CanRead | undefined;
  /** The scope that reads a resource of this type; `undefined` if none is needed. */
  scopeOf(type: string): string | undefined;
  /** The texts of messages that the actor may read now. */
  readTexts(actor: Actor, messageIds: readonly string[]): Promise<ReadonlyMap<string, string>>;
};

/** The resource that decides whether title and data of a notification are visible. */
type Subject = { type: string; id: string };

/** The rows, without title and data where the actor can no longer see the subject. */
export async function redactInvisible(
  visibility: ResourceVisibility,
  actor: Actor,
  rows: readonly NotificationRow[],
  db?: AnyDatabase,
): Promise<NotificationRow[]> {
  const subjects = rows.flatMap((row) => row.title === null ? [] : subjectOf(visibility, row) ?? []);
  const readable = new Map(
    await Promise.all(
      [...Map.groupBy(subjects, ({ type }) => type)].map(async ([type, group]) =>
        [type, await visibility.readCheckFor(type)?.(actor, distinctIds(group.map(({ id }) => id)), db)] as const
      ),
    ),
  );
  return rows.map((row) => {
    const subject = row.title === null ? undefined : subjectOf(visibility, row);
    const isVisible = subject === undefined || readable.get(subject.type)?.has(subject.id) === true;
    return isVisible ? row : redacted(row);
  });
}

/** The row as the actor's token may read it: without title and data, if it lacks the scope that reads the resource. */
export function redactForToken(visibility: ResourceVisibility, actor: Actor, row: NotificationRow): NotificationRow {
  const scope = row.resource_type === null ? undefined : visibility.scopeOf(row.resource_type);
  return scope === undefined || hasScope(actor, scope) ? row : redacted(row);
}

function redacted(row: NotificationRow): NotificationRow {
  return { ...row, title: null, data_json: "{}" };
}

/** The resource, if a module checks its type, else the room: attendees can see an event without access to its room. */
function subjectOf(
  visibility: ResourceVisibility,
  { room_id, resource_type, resource_id }: NotificationRow,
): Subject | undefined {
  if (resource_type !== null && resource_id !== null && visibility.readCheckFor(resource_type) !== undefined) {
    return { type: resource_type, id: resource_id };
  }
  return room_id === null ? undefined : { type: "room", id: room_id };
}

/** The current start of the messages that these notifications are about, by message id. */
export async function loadPreviews(
  visibility: ResourceVisibility,
  actor: Actor,
  rows: readonly NotificationRow[],
): Promise<ReadonlyMap<string, string>> {
  const ids = distinctIds(rows.map((row) => row.message_id));
  const texts = hasScope(actor, "message.read") && ids.length > 0 ? await visibility.readTexts(actor, ids) : new Map();
  return new Map([...texts].map(([id, text]) => [id, truncateText(text, PREVIEW_MAX)]));
}

function distinctIds(ids: readonly (string | null)[]): string[] {
  return [...new Set(ids.flatMap((id) => id ?? []))];
}
