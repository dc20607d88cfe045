// Lists that are longer than one statement takes.

/** Of ids, or rows of few columns. */
const CHUNK = 1000;

/** Asks with some of the items at a time; resolves to all answers. */
export async function byChunks<Item, Row>(
  items: readonly Item[],
  ask: (some: readonly Item[]) => Promise<readonly Row[]>,
  size = CHUNK,
): Promise<Row[]> {
  const rows: Row[] = [];
  for (let at = 0; at < items.length; at += size) rows.push(...await ask(items.slice(at, at + size)));
  return rows;
}
