// Pages: keyset cursors that are opaque, signed, and bound to the question they answer; and whole lists, read page by page.
import { Buffer } from "node:buffer";
import { createHmac, timingSafeEqual } from "node:crypto";
import { z } from "@zod/zod";
import { Fault } from "./fault.ts";

/** Query fields of every paged list: 50 rows unless told, 200 at most (more is refused, never cut). */
export const pageInput = {
  limit: z.int().min(1).max(200).default(50).describe("Rows wanted, 1 to 200"),
  cursor: z.string().min(1).max(2048).optional().describe("`nextCursor` of the page before"),
};

/** The envelope of every list. */
export function pageOf<Item extends z.ZodType>(
  item: Item,
): z.ZodObject<{ items: z.ZodArray<Item>; nextCursor: z.ZodNullable<z.ZodString>; hasMore: z.ZodBoolean }> {
  return z.object({
    items: z.array(item),
    nextCursor: z.string().nullable().describe("Pass as `cursor` for the next page; null on the last"),
    hasMore: z.boolean(),
  });
}

/**
 * All rows of a list, page by page: `read` is asked for the `size` rows after the last of the page before, and is at the end
 * with a page that is shorter. No page is empty.
 */
export async function* byPages<Row>(
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

export type Page<Item> = { items: Item[]; nextCursor: string | null; hasMore: boolean };

/** The sort key of the last row of a page. */
export type CursorKey = readonly (string | number)[];

/** Signs and opens cursors. A cursor is good only for the same question by the same principal. */
export class Cursors {
  readonly #secret: Uint8Array;

  constructor(secret: Uint8Array) {
    this.#secret = secret;
  }

  /** Cuts `rows` (fetched with `limit + 1`) to a page, with a cursor made from the last row's sort key. */
  page<Row, Item>(
    rows: readonly Row[],
    limit: number,
    bind: unknown,
    key: (row: Row) => CursorKey,
    item: (row: Row) => Item,
  ): Page<Item> {
    const hasMore = rows.length > limit;
    const kept = hasMore ? rows.slice(0, limit) : rows;
    const last = kept.at(-1);
    return {
      items: kept.map(item),
      hasMore,
      nextCursor: hasMore && last !== undefined ? this.seal(key(last), bind) : null,
    };
  }

  /** The sort key inside `cursor`; `undefined` for the first page. */
  open(cursor: string | undefined, bind: unknown): CursorKey | undefined {
    if (cursor === undefined) return undefined;
    const dot = cursor.indexOf(".");
    const body = cursor.slice(0, dot);
    const given = Buffer.from(cursor.slice(dot + 1));
    const expected = Buffer.from(this.#mac(body, bind));
    if (given.length !== expected.length || !timingSafeEqual(given, expected)) {
      throw new Fault("invalid_cursor", "The cursor does not belong to this list and these filters");
    }
    return JSON.parse(new TextDecoder().decode(Uint8Array.fromBase64(body, { alphabet: "base64url" })));
  }

  /** A cursor that holds `key`, for the same `bind`. */
  seal(key: CursorKey, bind: unknown): string {
    const body = new TextEncoder().encode(JSON.stringify(key)).toBase64({ alphabet: "base64url", omitPadding: true });
    return `${body}.${this.#mac(body, bind)}`;
  }

  #mac(body: string, bind: unknown): string {
    return createHmac("sha256", this.#secret).update(body).update("\n").update(JSON.stringify(bind)).digest("base64url")
      .slice(0, 22);
  }
}
