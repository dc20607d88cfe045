// Notifies of comments: those whom the text mentions, and those who wrote in the same thread or, of a new one, created the document.
import type { Actor } from "@/core/actor.ts";
import type { Clock } from "@/core/time/clock.ts";
import { notVisible } from "@/core/fault.ts";
import { GROUPS_MENTIONED_MAX, GroupStore, viewerOf } from "@/modules/group/mod.ts";
import type { IdentityService } from "@/modules/identity/mod.ts";
import { lookedUp, MentionedNames, MENTIONS_MAX, namesIn } from "@/modules/message/mod.ts";
import type { NotificationDraft, Notify } from "@/modules/notification/mod.ts";
import {
  findMentioned,
  type Mentioned,
  type MentionedGroup,
  type RoomAccess,
  wantsNotification,
} from "@/modules/room/mod.ts";
import type { AnyDatabase } from "@/ports/store.ts";
import type { LockedDocument } from "../access.ts";
import { DocumentStore } from "../store.ts";
import type { CommentRow, DocumentRow } from "../tables.ts";
import type { CommentMentions } from "../schema.ts";
import { CommentStore } from "./store.ts";

type Deps = { clock: Clock; roomAccess: RoomAccess; identity: Pick<IdentityService, "findEnabled">; notify: Notify };

/** Who can read a document. */
type Readers = {
  /** Principals by those of these names that are handles or ids. */
  byName(names: readonly string[]): Promise<ReadonlyMap<string, Mentioned>>;
  /** Those of these principals that can read it and want to be notified. */
  willing(ids: readonly string[], isMention: boolean): Promise<string[]>;
};

export class CommentNotifier {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /**
   * Of a new comment; or with its earlier text those whom the new one mentions in addition. Resolves to what became of groups and
   * of names that it could not mention.
   */
  async notify(
    actor: Actor,
    { tx, row }: LockedDocument,
    comment: CommentRow,
    textBefore?: string,
  ): Promise<{ mentions?: CommentMentions }> {
    const known = new Set(namesIn(textBefore ?? "", "markdown").flat());
    const names = namesIn(comment.text, "markdown").filter((readings) => !readings.some((name) => known.has(name)));
    const involved = textBefore === undefined ? await involvedIn(tx.db, row, comment) : [];
    if (names.length === 0 && involved.every((id) => id === actor.principalId)) return {};
    const readers = row.room_id === null
      ? await this.#readersOf(actor, row, tx.db)
      : await this.#viewersOf(actor, row.room_id, tx.db);
    const byName = names.length === 0 ? new Map<string, Mentioned>() : await readers.byName(lookedUp(names).flat());
    const found = new MentionedNames();
    found.addAll(names, (reading) => byName.has(reading), byName);
    const { principalIds: mentioned, ...mentions } = found.result;
    const others = involved.filter((id) => !mentioned.includes(id));
    const draftOf = (kind: string, principalIds: readonly string[]): NotificationDraft => ({
      tenantId: row.tenant_id,
      principalIds,
      kind,
      actor,
      roomId: row.room_id ?? undefined,
      resource: { type: "document", id: row.id },
      title: row.title,
      data: { commentId: comment.id },
      source: `${kind}:${comment.id}`,
    });
    await this.#deps.notify(
      draftOf("comment_mention", await readers.willing(mentioned, true)),
      draftOf("comment", await readers.willing(others, false)),
    );
    return Object.keys(mentions).length === 0 ? {} : { mentions };
  }

  async #viewersOf(actor: Actor, roomId: string, db: AnyDatabase): Promise<Readers> {
    const { roomAccess, clock } = this.#deps;
    const room = (await roomAccess.find(actor, roomId, db))?.room;
    if (room === undefined) throw notVisible("document");
    return {
      byName: (names) => findMentioned(roomAccess, actor, room, names, { max: MENTIONS_MAX, db }),
      willing: async (ids, isMention) => {
        const viewers = [...(await roomAccess.filterViewers(room, ids, db)).values()];
        return viewers.filter((viewer) => wantsNotification(viewer, isMention, clock.now())).map(({ id }) => id);
      },
    };
  }

  async #readersOf(actor: Actor, { tenant_id: tenantId, id }: DocumentRow, db: AnyDatabase): Promise<Readers> {
    const readerIds = await new DocumentStore(db).audience(tenantId, id);
    const readers = await this.#deps.identity.findEnabled(tenantId, readerIds, db);
    const others = [...readers.keys()].filter((one) => one !== actor.principalId);
    return {
      byName: async (names) =>
        new Map<string, Mentioned>([
          ...[...readers.values()].flatMap(({ id, handle }) =>
            [id, handle ?? id].map((name) => [name, { principalIds: [id] }] as const)
          ),
          ...(await groupsAmong(db, actor, names, others)).map((one) => [one.group.handle, one] as const),
        ]),
      willing: (ids) => Promise.resolve(ids.filter((id) => readers.has(id))),
    };
  }
}

/** Groups with these handles that the actor sees, with their members among some readers. */
async function groupsAmong(
  db: AnyDatabase,
  actor: Actor,
  names: readonly string[],
  readerIds: readonly string[],
): Promise<MentionedGroup[]> {
  if (readerIds.length === 0) return [];
  const { tenantId } = actor;
  const groups = new GroupStore(db);
  const named = await groups.mentionable(tenantId, "handle", names, viewerOf(actor));
  return await Promise.all(
    named.map(async (group, index) =>
      index >= GROUPS_MENTIONED_MAX
        ? { group, principalIds: [], isBeyondLimit: true }
        : { group, principalIds: [...await groups.filterMembers(tenantId, group.id, readerIds)] }
    ),
  );
}

/** Who wrote in its thread; of a new thread, who created the document. */
async function involvedIn(db: AnyDatabase, document: DocumentRow, comment: CommentRow): Promise<string[]> {
  if (comment.parent_id === null) return [document.created_by];
  return await new CommentStore(db).threadAuthors(document.tenant_id, comment.parent_id);
}
