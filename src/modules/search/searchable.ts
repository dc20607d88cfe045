// What other modules do to be found: keep their rows in the index, and show them when the index says they may fit.
import type { z } from "@zod/zod";
import type { Actor } from "@/core/actor.ts";
import type { Fields } from "./matcher.ts";

/** One thing as the index knows it. `put` again after every change of its text, room or owner. */
export type SearchEntry = {
  tenantId: string;
  /** `message`, `document` …: the word in `types`. */
  kind: string;
  id: string;
  /** Whoever may read this room now may find it. */
  roomId: string | null;
  /** Who may find it when it is in no room; with none of these, nobody does. */
  principalId?: string | null;
  /** Others who may find it then, as far as `load` shows it to them. `put` again when they change. */
  readerIds?: readonly string[];
  /** What the sender filters look at. */
  authorId?: string | null;
  /** Its position in the room, when history that is hidden from later members hides it too. */
  seq?: number | null;
  /** RFC 3339 UTC with milliseconds; "recent" sorts by it, and it never changes. */
  at: string;
  /** Grows with every change; an older version never replaces a newer one. */
  version: number;
  /** Everything that can be found in it: title, text …; of more than 100 000 different pieces the first so many. */
  texts: readonly string[];
  /** Properties for the filter `has`, such as `link` and `file`. */
  marks?: readonly string[];
};

/** A row as it is now. `fields` are compared with the question, so they decide, not the index; `item` is what is answered. */
export type Found = { fields: Fields; item: unknown };

/** A kind of thing that can be searched for. */
export type Searchable = {
  kind: string;
  /** Scope that reading such things takes, and so finding them. */
  scope: string;
  /** Schema of the item; an answer carries it under the name of the kind. */
  item: z.ZodType;
  /** Live rows by id. What is deleted, or what this actor may not see although it sees the room, is left out. */
  load(actor: Actor, ids: readonly string[]): Promise<ReadonlyMap<string, Found>>;
  /** Entries of all rows with an id after `after`, by id; reindexing reads them page by page inside a `store.write`. */
  entries(tenantId: string, after: string, limit: number): Promise<readonly SearchEntry[]>;
  /** What stands right before and after it in its room, positions up to `hiddenUpTo` left out. */
  around?(
    actor: Actor,
    item: unknown,
    size: number,
    hiddenUpTo: number,
  ): Promise<{ before: unknown[]; after: unknown[] }>;
};
