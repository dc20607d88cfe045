// Checks where the items of an update lie in a rich document. Yjs accepts anything anywhere, but editors read a tree: elements and
// texts in the fragment, characters in texts, JSON in attributes. Names are the editors' own.
import * as Y from "yjs";
import { Fault } from "@/core/fault.ts";
import { decodeUpdate } from "../content/decoded_update.ts";
import { NAME_MAX_CHARS, RICH_DEPTH_MAX } from "../limits.ts";

/** Top-level types of a document besides its fragment, in which editors keep settings or threads. */
const ROOTS_MAX = 32;

type Struct = Y.Item | Y.GC;
/** What a type contains. */
type Holder = "nodes" | "characters" | "data" | "deleted";
/** Where an item lies: `parent` identifies its type, `key` its entry of that. */
type Place = { parent: unknown; holder: Holder; key: string | null; depth: number };
const DELETED: Place = { parent: null, holder: "deleted", key: null, depth: 0 };

/**
 * Throws `validation_failed` if an update would add anything but nodes to a rich document. Returns the name of the fragment that
 * it has or gets; `undefined` if it gets none yet.
 */
export function checkShape(doc: Y.Doc, update: Uint8Array, fragment: string | null): string | undefined {
  const { structs } = decodeUpdate(update);
  return new ShapeCheck(doc, structs, fragment).run();
}

class ShapeCheck {
  readonly #doc: Y.Doc;
  readonly #structs: readonly (Struct | Y.Skip)[];
  readonly #byClient: ReadonlyMap<number, Struct[]>;
  readonly #places = new Map<Struct, Place>();
  readonly #roots: Set<string>;
  #fragment: string | undefined;

  constructor(doc: Y.Doc, structs: readonly (Struct | Y.Skip)[], fragment: string | null) {
    this.#doc = doc;
    this.#structs = structs;
    this.#fragment = fragment ?? undefined;
    this.#roots = new Set(doc.share.keys());
    this.#byClient = Map.groupBy(structs as Struct[], ({ id }) => id.client); // skipped ranges were refused before
  }

  run(): string | undefined {
    for (const struct of this.#structs) {
      if (struct instanceof Y.Item) this.#assertContent(struct, this.#placeOf(struct));
    }
    if (this.#roots.size > ROOTS_MAX) throw refused(`more than ${ROOTS_MAX} top-level types`);
    return this.#fragment;
  }

  #assertContent({ content }: Y.Item, { holder, key, depth }: Place): void {
    if (holder === "deleted" || content instanceof Y.ContentDeleted) return;
    if (key !== null) {
      assertName(key);
      const isData = content instanceof Y.ContentAny || (holder === "data" && content instanceof Y.ContentType);
      if (!isData) throw refused("an attribute that is not JSON");
      return;
    }
    if (holder === "characters") {
      if (content instanceof Y.ContentString) return;
      if (content instanceof Y.ContentFormat) return assertName(content.key);
      throw refused("something in a text that is neither characters nor marks");
    }
    if (holder === "data") {
      if (content instanceof Y.ContentAny || content instanceof Y.ContentType) return this.#assertDepth(depth);
      throw refused("data that is not JSON");
    }
    const type = content instanceof Y.ContentType ? content.type : undefined;
    if (type instanceof Y.XmlElement) assertName(type.nodeName);
    else if (!(type instanceof Y.XmlText)) {
      throw refused("something in the XML fragment that is neither an element nor a text");
    }
    this.#assertDepth(depth);
  }

  #assertDepth(depth: number): void {
    if (depth > RICH_DEPTH_MAX) throw refused(`more than ${RICH_DEPTH_MAX} nested nodes`);
  }

  /** Without recursion: an update may contain items that each lie next to another one. */
  #placeOf(item: Y.Item): Place {
    const open: Struct[] = [item];
    const isOpen = new Set<Struct>(open);
    for (let last = open.at(-1); last !== undefined; last = open.at(-1)) {
      const needed = this.#places.has(last) ? undefined : this.#neededFor(last).find((one) => !this.#places.has(one));
      if (needed === undefined) {
        if (!this.#places.has(last)) this.#places.set(last, this.#derivePlace(last));
        isOpen.delete(last);
        open.pop();
      } else {
        if (isOpen.has(needed)) throw refused("circular dependency between items");
        isOpen.add(needed);
        open.push(needed);
      }
    }
    return this.#places.get(item) ?? DELETED;
  }

  /** The items of the update that the place of an item follows from. */
  #neededFor(struct: Struct): Struct[] {
    if (!(struct instanceof Y.Item)) return [];
    const { parent, origin, rightOrigin } = struct;
    const ids = [origin, rightOrigin, parent instanceof Y.ID ? parent : null];
    return ids.flatMap((id) => id === null ? [] : this.#findInUpdate(id) ?? []);
  }

  #derivePlace(struct: Struct): Place {
    if (!(struct instanceof Y.Item)) return DELETED;
    const { parent, parentSub, origin, rightOrigin } = struct;
    if (typeof (parent as unknown) === "string") return this.#rootPlace(String(parent), parentSub);
    if (parent instanceof Y.ID) return this.#placeIn(parent, parentSub);
    const [left, right] = [origin, rightOrigin].map((id) => id === null ? undefined : this.#placeAt(id));
    if (left?.holder === "deleted" || right?.holder === "deleted") return DELETED;
    if (left !== undefined && right !== undefined && (left.parent !== right.parent || left.key !== right.key)) {
      throw refused("an item between neighbors of different types");
    }
    return right ?? left ?? DELETED;
  }

  #rootPlace(name: string, key: string | null): Place {
    assertName(name);
    this.#roots.add(name);
    if (key === null) this.#fragment ??= name;
    if (name === this.#fragment) return { parent: name, holder: "nodes", key, depth: 1 };
    if (key === null) throw refused(`content in the top-level type "${name}"`, this.#fragment);
    return { parent: name, holder: "data", key, depth: 1 };
  }

  /** The place of what lies in the type that an item with this id contains. */
  #placeIn(id: Y.ID, key: string | null): Place {
    const item = this.#find(id);
    if (!(item instanceof Y.Item)) return DELETED;
    if (!(item.content instanceof Y.ContentType)) {
      if (item.content instanceof Y.ContentDeleted) return DELETED;
      throw refused("an item within another one that cannot contain any");
    }
    const place = this.#findInUpdate(id) === undefined ? this.#existingPlace(item) : this.#places.get(item) ?? DELETED;
    if (place.holder === "deleted") return DELETED;
    return { parent: idKey(item.id), holder: holderOf(item.content.type), key, depth: place.depth + 1 };
  }

  #placeAt(id: Y.ID): Place {
    const inUpdate = this.#findInUpdate(id);
    if (inUpdate !== undefined) return this.#places.get(inUpdate) ?? DELETED;
    const item = this.#find(id);
    return item instanceof Y.Item ? this.#existingPlace(item) : DELETED;
  }

  #existingPlace({ parent, parentSub }: Y.Item): Place {
    if (!(parent instanceof Y.AbstractType)) return DELETED;
    let depth = 1;
    for (let above = parent._item; above !== null; depth++) {
      if (!(above.parent instanceof Y.AbstractType)) return DELETED;
      above = above.parent._item;
    }
    if (parent._item !== null) {
      return { parent: idKey(parent._item.id), holder: holderOf(parent), key: parentSub, depth };
    }
    const name = Y.findRootTypeKey(parent);
    return { parent: name, holder: name === this.#fragment ? "nodes" : "data", key: parentSub, depth };
  }

  #find(id: Y.ID): Struct | undefined {
    const inUpdate = this.#findInUpdate(id);
    if (inUpdate !== undefined || id.clock >= Y.getState(this.#doc.store, id.client)) return inUpdate;
    return Y.getItem(this.#doc.store, id);
  }

  /** The struct of the update that contains an id, unless the document has it. */
  #findInUpdate({ client, clock }: Y.ID): Struct | undefined {
    if (clock < Y.getState(this.#doc.store, client)) return undefined;
    const structs = this.#byClient.get(client) ?? [];
    let [from, to] = [0, structs.length - 1];
    while (from <= to) {
      const middle = (from + to) >> 1;
      const struct = structs[middle];
      if (struct === undefined || clock < struct.id.clock) to = middle - 1;
      else if (clock >= struct.id.clock + struct.length) from = middle + 1;
      else return struct;
    }
    return undefined;
  }
}

function holderOf(type: Y.AbstractType<unknown>): Holder {
  // An XML text is a text as well, and an element a fragment.
  if (type instanceof Y.Text) return "characters";
  return type instanceof Y.XmlFragment ? "nodes" : "data";
}

function idKey({ client, clock }: Y.ID): string {
  return `${client}:${clock}`;
}

function assertName(name: string): void {
  if (name === "" || name.length > NAME_MAX_CHARS || name === "__proto__") {
    throw refused(`a name that is empty, longer than ${NAME_MAX_CHARS} characters, or __proto__`);
  }
}

/** The fault of an update whose nodes are in another fragment than those of the document. */
export function wrongFragment(fragment: string): Fault {
  return refused("content in another top-level type", fragment);
}

function refused(what: string, fragment?: string): Fault {
  const where = fragment === undefined ? "an XML fragment" : `the XML fragment "${fragment}"`;
  return new Fault("validation_failed", `Refused: ${what}; a rich document has its content in ${where}`);
}
