// Pages: keyset cursors that are opaque, signed, and bound to their query; and long lists, read or queried in parts.
import { z } from "@zod/zod";
import type { Signer } from "./crypto.ts";
import { Fault } from "./fault.ts";

/** Rows of a tenant: those with some ids, or a page of all rows by id. */
export type RowSelection = { ids: readonly string[] } | { after: string; limit: number };

/** Query fields of every paged list: 50 rows by default, 200 at most (more is rejected, not clamped). */
export const pageInput = {
  limit: z.int().min(1).max(200).default(50).describe(
    "Maximum number of items on the page; long ones make it shorter, so `hasMore` says whether there are more",
  ),
  cursor: z.string().min(1).max(2048).optional().describe("`nextCursor` of the previous page"),
};

/** The envelope of every list that has pages: `RoomPage` if the items are named `Room`. */
export function pageSchema<Item extends z.ZodType>(
  item: Item,
): z.ZodObject<{ items: z.ZodArray<Item>; nextCursor: z.ZodNullable<z.ZodString>; hasMore: z.ZodBoolean }> {
  const page = z.object({
    items: z.array(item),
    nextCursor: z.string().nullable().describe("`cursor` of the next page; null on the last page"),
    hasMore: z.boolean(),
  });
  const id = item.meta()?.id;
  return id === undefined ? page : page.meta({ id: `${id}Page` });
}

/**
 * All rows of a list, page by page: `read` returns the `size` rows after the last row of the page before; a shorter page is the
 * last one. No page is empty.
 */
export async function* paginate<Row>(
  size: number,
  read: (last: Row | undefined) => Promise<readonly Row[]>,
): AsyncGenerator<readonly Row[]> {
  let last: Row | undefined;
  while (true) {
    const rows = await read(last);
    if (rows.length > 0) yield rows;
    if (rows.length < size) return;
    last = rows.at(-1);
  }
}

/** Items of one statement: ids, or rows of few columns. */
const CHUNK_SIZE = 1000;

/** The items, `size` at a time. */
export function* inChunks<Item>(items: readonly Item[], size: number): Generator<Item[], undefined> {
  for (let at = 0; at < items.length; at += size) yield items.slice(at, at + size);
}

/** Runs `query` with `size` of the items at a time; resolves to the rows of all. */
export async function queryInChunks<Item, Row>(
  items: readonly Item[],
  query: (chunk: readonly Item[]) => Promise<readonly Row[]>,
  size = CHUNK_SIZE,
): Promise<Row[]> {
  const rows: Row[] = [];
  for (const chunk of inChunks(items, size)) rows.push(...await query(chunk));
  return rows;
}

export type Page<Item> = { items: Item[]; nextCursor: string | null; hasMore: boolean };

/** Characters of the items of a page: the longer a response is, the longer all others wait until it is written. */
export const PAGE_CHARACTERS_MAX = 256 * 1024;

/** Items that are no longer than this never make a page shorter, however many may be asked for. */
const SHORT_CHARACTERS = 512;

/** Text that is nested deeper is not counted. */
const COUNTED_DEPTH = 6;

/** How many items a page has, of those in their order: as many as have no more characters together, but at least one. */
class PageSpace {
  #characters: number;
  #isEmpty = true;

  constructor(characters: number = PAGE_CHARACTERS_MAX) {
    this.#characters = characters;
  }

  /** Whether the page has space for this item too. */
  take(item: unknown): boolean {
    this.#characters -= charactersOf(item, COUNTED_DEPTH);
    const isFirst = this.#isEmpty;
    this.#isEmpty = false;
    return isFirst || this.#characters >= 0;
  }
}

/** The first of the rows that fit on a page together. */
export function fitToPage<Row>(rows: readonly Row[], limit: number, characters?: number): Row[] {
  const space = new PageSpace(characters);
  const end = rows.findIndex((row, at) => at === limit || !space.take(row));
  return end < 0 ? rows.slice() : rows.slice(0, end);
}

/** Characters of all texts in a value. */
function charactersOf(value: unknown, depth: number): number {
  if (typeof value === "string") return value.length;
  if (typeof value !== "object" || value === null || depth === 0) return 0;
  let sum = 0;
  for (const name in value) sum += charactersOf((value as Record<string, unknown>)[name], depth - 1);
  return sum;
}

/** The sort key of the last row of a page. */
export type CursorKey = readonly (string | number)[];

/** Encodes and decodes signed cursors. A cursor is valid only for the same query by the same principal. */
export class Cursors {
  readonly #signer: Signer;

  constructor(signer: Signer) {
    this.#signer = signer;
  }

  /** Cuts `rows` (read with `limit + 1`) to a page, with a cursor of the last row's sort key. Long items make it shorter. */
  page<Row, Item>(
    rows: readonly Row[],
    limit: number,
    bind: unknown,
    key: (row: Row) => CursorKey,
    item: (row: Row) => Item,
  ): Page<Item> {
    const space = new PageSpace(Math.max(PAGE_CHARACTERS_MAX, limit * SHORT_CHARACTERS));
    const items: Item[] = [];
    for (const row of rows.slice(0, limit)) {
      const one = item(row);
      if (!space.take(one)) break;
      items.push(one);
    }
    const hasMore = rows.length > items.length;
    const last = rows[items.length - 1];
    return {
      items,
      hasMore,
      nextCursor: hasMore && last !== undefined ? this.encode(key(last), bind) : null,
    };
  }

  /** The sort key inside `cursor`; `undefined` for the first page. */
  decode(cursor: string | undefined, bind: unknown): CursorKey | undefined {
    if (cursor === undefined) return undefined;
    const dot = cursor.indexOf(".");
    const body = cursor.slice(0, dot);
    if (!this.#signer.verify(cursor.slice(dot + 1), signedText(body, bind))) {
      throw new Fault("invalid_cursor", "The cursor belongs to a different list or different filters");
    }
    return JSON.parse(new TextDecoder().decode(Uint8Array.fromBase64(body, { alphabet: "base64url" })));
  }

  /** The same where the sort key is an id. */
  decodeId(cursor: string | undefined, bind: unknown): string | undefined {
    return this.decode(cursor, bind)?.[0]?.toString();
  }

  /** A cursor of `key`, valid with the same `bind`. */
  encode(key: CursorKey, bind: unknown): string {
    const body = new TextEncoder().encode(JSON.stringify(key)).toBase64({ alphabet: "base64url", omitPadding: true });
    return `${body}.${this.#signer.sign(signedText(body, bind))}`;
  }
}

function signedText(body: string, bind: unknown): string {
  return `${body}\n${JSON.stringify(bind)}`;
}
