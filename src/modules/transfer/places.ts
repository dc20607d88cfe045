// Which ids the things of an archive have here, and which are free for those that are not here yet.
import type { OwnRef, Ref } from "./draft.ts";

/** The ids a ref may stand for here, the own one first. */
export function idsOf({ own, derived }: Ref): string[] {
  return own === null ? [derived] : [own, derived];
}

/** The ids that things have here, by those in the archive; who is not there is missing. */
export function hereOf(refs: readonly OwnRef[], isThere: (id: string) => boolean): Map<string, string> {
  return new Map(refs.flatMap((ref) => {
    const here = idsOf(ref).find(isThere);
    return here === undefined ? [] : [[ref.own, here]];
  }));
}

/** Takes the id that is free for a thing; `undefined` when it is `there`. Another tenant may have what is `elsewhere`. */
export function takeId(ref: OwnRef, there: Set<string>, elsewhere: ReadonlySet<string>): string | undefined {
  if (idsOf(ref).some((id) => there.has(id))) return undefined;
  const id = elsewhere.has(ref.own) ? ref.derived : ref.own;
  there.add(id);
  return id;
}

/**
 * Takes the id that is free for a part of `wholeId`, where `places` says which part is of what; `undefined` when it is there,
 * or no id is left for it.
 */
export function takePartId(
  ref: OwnRef,
  wholeId: string,
  places: Map<string, string>,
  elsewhere: ReadonlySet<string>,
): string | undefined {
  // Its own id may be free by now where it was not when it came in.
  if (idsOf(ref).some((id) => places.get(id) === wholeId)) return undefined;
  const id = places.has(ref.own) || elsewhere.has(ref.own) ? ref.derived : ref.own;
  if (places.has(id) || elsewhere.has(id)) return undefined;
  places.set(id, wholeId);
  return id;
}
