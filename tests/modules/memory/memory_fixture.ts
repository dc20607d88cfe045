// Facts over HTTP, for tests.
import type { Caller } from "../../harness.ts";
import { completeSearch, ok } from "../fixtures.ts";

export const ITEMS = "/v1/collaboration/memory/items";
const MINE = "/v1/collaboration/me/memories";

type Scope = { type: "room" | "principal" | "agent" | "tenant"; id?: string };

/** Records a fact; resolves to it. */
export async function remember(
  who: Caller,
  scope: Scope,
  text: string,
  more: Record<string, unknown> = {},
  // deno-lint-ignore no-explicit-any -- as in the harness
): Promise<any> {
  return ok(await who.post(ITEMS, { scope, text, ...more }));
}

export function inRoom(id: string): Scope {
  return { type: "room", id };
}

/** Texts of a list, sorted. */
export async function listedTexts(who: Caller, query = ""): Promise<string[]> {
  return textsOf(ok(await who.get(`${ITEMS}?limit=200&${query}`)).items);
}

export async function myTexts(who: Caller): Promise<string[]> {
  return textsOf(ok(await who.get(`${MINE}?limit=200`)).items);
}

/** Texts found by the search of facts and by that of everything, which must be the same; sorted, each once. */
export async function foundTexts(who: Caller, query: string): Promise<string[]> {
  const { items: own } = await completeSearch(() => who.post("/v1/collaboration/memory/search", { query, limit: 50 }));
  const { items: all } = await completeSearch(() =>
    who.get(`/v1/search?types=memory&limit=100&q=${encodeURIComponent(query)}`)
  );
  const [texts, others] = [textsOf(own.map(memoryOf)), [...new Set(textsOf(all.map(memoryOf)))]];
  if (JSON.stringify(texts) !== JSON.stringify(others)) throw new Error(`Found ${texts}, and ${others} by search`);
  return texts;
}

type Item = { text: string };

function memoryOf({ memory }: { memory: Item }): Item {
  return memory;
}

function textsOf(items: Item[]): string[] {
  return items.map(({ text }) => text).sort();
}
