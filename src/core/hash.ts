// A quick hash for spreading things out, the same on every node; whoever may choose texts can make it clash.

const OFFSET_BASIS = 0x811c9dc5;
const PRIME = 0x01000193;

/** FNV-1a over the text's UTF-16 units, as a signed 32-bit number; `from` carries on with the hash of what stands before. */
export function fnv1a(text: string, from = OFFSET_BASIS): number {
  let hash = from;
  for (let at = 0; at < text.length; at++) hash = fnv1aUnit(text.charCodeAt(at), hash);
  return hash;
}

/** The same for one UTF-16 unit. */
export function fnv1aUnit(unit: number, from: number): number {
  return Math.imul(from ^ unit, PRIME);
}
