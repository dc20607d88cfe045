// What a module provides so that search finds its resources: index entries, and the rows as a caller may see them.
import type { z } from "@zod/zod";
import type { Actor } from "./actor.ts";
import type { AnyDatabase, SqlCondition } from "./migration.ts";
import type { RowSelection } from "./page.ts";

/** In `readerIds`: every member of the tenant, guests excluded. No principal has this id. */
export const EVERYONE = "*";

/** Searchable texts of one resource, by field name. */
export type SearchFields = Readonly<Record<string, string>>;

/** One resource in the index. `put` again after every change of its text, room or owner. */
export type SearchEntry = {
  tenantId: string;
  /** `message`, `document` …, as in `types`. */
  kind: string;
  id: string;
  /** Principals that may read this room now may find it. */
  roomId: string | null;
  /** Who may find it when it is in no room. */
  principalId?: string | null;
  /** Others who may find it then, if `load` returns it to them. `put` again when they change. */
  readerIds?: readonly string[];
  /** Used by the sender filters. */
  authorId?: string | null;
  /** Its position in the room, when a hidden history hides it too. */
  seq?: number | null;
  /** RFC 3339 UTC with milliseconds; "recent" sorts by it, and it never changes. */
  at: string;
  /** Grows with every change; an older version never replaces a newer one. */
  version: number;
  /** All its indexed texts: title, text …; of more than 100 000 distinct tokens only the first are indexed. */
  texts: readonly string[];
  /** Properties for the filter `has`, such as `link` and `file`. */
  flags?: readonly string[];
  /** Whether a long text is indexed at once, not in parts by a job. */
  isIndexedWhole?: boolean;
};

/** Conditions of a search on properties that resources of few kinds have; lists are never empty. */
export type PropertyFilter = {
  threadIds?: readonly string[] | undefined;
  messageTypes?: readonly string[] | undefined;
  mentions?: readonly string[] | undefined;
  pinned?: true | undefined;
  isReacted?: boolean | undefined;
};

/** A row in its current state. `fields` are matched against the query, so they decide, not the index; `item` is the result. */
export type LoadedResource = { fields: SearchFields; item: unknown };

/** A resource at a position of a room's stream; `entry` is absent if it is deleted or has no text. */
export type StreamedResource = { id: string; entry: SearchEntry | undefined };

/**
 * Resources that are indexed after their commit, from the events of room streams, because their writes are too frequent to
 * update the index themselves. The event that creates a resource has its position; all others change an existing one. All are
 * in rooms, and indexed whole.
 */
export type StreamSource = {
  kind: string;
  /** Prefix of the types of all events about these resources. */
  eventPrefix: string;
  /** Type of the events that create one. */
  createdType: string;
  /** Ids of the resources that a stored event is about. */
  idsIn(event: { data?: unknown }): string[];
  findMany(db: AnyDatabase, tenantId: string, ids: readonly string[]): Promise<StreamedResource[]>;
  /** Resources of a room with `from < seq <= to`. */
  findBetween(db: AnyDatabase, tenantId: string, roomId: string, from: number, to: number): Promise<StreamedResource[]>;
};

/** A kind of resource that can be searched for. */
export type Searchable = {
  kind: string;
  /** Scope for reading such resources, and so for finding them. */
  scope: string;
  /** Whether entries may have `EVERYONE` as a reader. */
  isTenantWide?: true;
  /** Schema of the item; a result has it under the name of the kind. */
  item: z.ZodType;
  /** Live rows by id, without deleted ones, and without those that this actor may not see although it sees the room. */
  load(actor: Actor, ids: readonly string[]): Promise<ReadonlyMap<string, LoadedResource>>;
  /**
   * Those of the resources that `load` returns to the actor. Present if there may be others among those that the index finds for
   * an actor: they are left out before anything is counted and ranked, since counts and scores would disclose them.
   */
  filterVisible?(actor: Actor, ids: readonly string[]): Promise<ReadonlySet<string>>;
  /** The same resources as they are at another time, if they are true only for a time. */
  at?(time: string): Searchable;
  /** Entries of live rows; reindexing reads all of them by id, page by page through the transaction that indexes them. */
  entries(tenantId: string, selection: RowSelection, db?: AnyDatabase): Promise<readonly SearchEntry[]>;
  /** Conditions on a document `d` of the index, for properties that these resources have; without it, none has them. */
  propertyConditions?(tenantId: string, filter: PropertyFilter): SqlCondition[];
  /** Author and room of an item, for names of senders. */
  authorOf?(item: unknown): { senderId: string; roomId: string };
  /** Present if the resources are indexed from room streams. One module at most has this. */
  stream?: StreamSource;
  /** Its neighbours in the room, without positions up to `hiddenUpTo`. */
  context?(
    actor: Actor,
    item: unknown,
    size: number,
    hiddenUpTo: number,
  ): Promise<{ before: unknown[]; after: unknown[] }>;
};

/** The source, of its resources as they are at a time; default now. */
export function sourceAt(source: Searchable, time: string | undefined): Searchable {
  return time === undefined ? source : source.at?.(time) ?? source;
}
