// Notifies of comments: those whom the text mentions, and those who wrote in the same thread or, of a new one, created the document.
import type { Actor } from "@/core/actor.ts";
import type { Clock } from "@/core/time/clock.ts";
import { notVisible } from "@/core/fault.ts";
import type { IdentityService } from "@/modules/identity/mod.ts";
import { MENTIONS_MAX, namesIn } from "@/modules/message/mod.ts";
import type { NotificationDraft, Notify } from "@/modules/notification/mod.ts";
import { type RoomAccess, wantsNotification } from "@/modules/room/mod.ts";
import type { AnyDatabase } from "@/ports/store.ts";
import type { LockedDocument } from "../access.ts";
import { DocumentStore } from "../store.ts";
import type { CommentRow, DocumentRow } from "../tables.ts";
import { CommentStore } from "./store.ts";

type Deps = {
  clock: Clock;
  roomAccess: RoomAccess;
  identity: Pick<IdentityService, "findEnabled">;
  notify: Notify;
};

/** Who can read a document. */
type Readers = {
  /** Ids by those of these names that are handles or ids. */
  byName(names: readonly string[]): Promise<ReadonlyMap<string, readonly string[]>>;
  /** Those of these principals that can read it and want to be notified. */
  willing(ids: readonly string[], isMention: boolean): Promise<string[]>;
};

export class CommentNotifier {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Of a new comment; or with its earlier text those whom the new one mentions in addition. */
  async notify(actor: Actor, { tx, row }: LockedDocument, comment: CommentRow, textBefore?: string): Promise<void> {
    const known = new Set(namesIn(textBefore ?? "", "markdown").flat());
    const names = namesIn(comment.text, "markdown").filter((readings) => !readings.some((name) => known.has(name)));
    const involved = textBefore === undefined ? await involvedIn(tx.db, row, comment) : [];
    if (names.length === 0 && involved.every((id) => id === actor.principalId)) return;
    const readers = row.room_id === null
      ? await this.#readersOf(row, tx.db)
      : await this.#viewersOf(actor, row.room_id, tx.db);
    const byName = names.length === 0 ? new Map<string, readonly string[]>() : await readers.byName(names.flat());
    const mentioned = [
      ...new Set(names.flatMap((readings) => byName.get(readings.find((name) => byName.has(name)) ?? "") ?? [])),
    ];
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
  }

  async #viewersOf(actor: Actor, roomId: string, db: AnyDatabase): Promise<Readers> {
    const { roomAccess, clock } = this.#deps;
    const room = (await roomAccess.find(actor, roomId, db))?.room;
    if (room === undefined) throw notVisible("document");
    return {
      byName: (names) => roomAccess.findMentioned(actor, room, names, { max: MENTIONS_MAX, db }),
      willing: async (ids, isMention) => {
        const viewers = [...(await roomAccess.filterViewers(room, ids, db)).values()];
        return viewers.filter((viewer) => wantsNotification(viewer, isMention, clock.now())).map(({ id }) => id);
      },
    };
  }

  async #readersOf({ tenant_id: tenantId, id }: DocumentRow, db: AnyDatabase): Promise<Readers> {
    const readerIds = await new DocumentStore(db).audience(tenantId, id);
    const readers = await this.#deps.identity.findEnabled(tenantId, readerIds, db);
    return {
      byName: () =>
        Promise.resolve(
          new Map([...readers.values()].flatMap(({ id, handle }) => [
            [id, [id]] as const,
            ...handle === null ? [] : [[handle, [id]] as const],
          ])),
        ),
      willing: (ids) => Promise.resolve(ids.filter((id) => readers.has(id))),
    };
  }
}

/** Who wrote in its thread; of a new thread, who created the document. */
async function involvedIn(db: AnyDatabase, document: DocumentRow, comment: CommentRow): Promise<string[]> {
  if (comment.parent_id === null) return [document.created_by];
  return await new CommentStore(db).threadAuthors(document.tenant_id, comment.parent_id);
}
