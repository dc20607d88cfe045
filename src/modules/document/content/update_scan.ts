// Scans an update before Yjs decodes it: some contents expand to hundreds of times their size, and others are items or values of
// a byte or two by the million, so that one frame would block the thread for seconds.
import {
  type Decoder,
  readUint8,
  readVarInt,
  readVarString,
  readVarUint,
  readVarUint8Array,
  skip8,
} from "lib0/decoding";
import { isDeeperThan } from "@/core/text/text.ts";
import { ITEMS_MAX } from "../limits.ts";
import { RICH_JSON_VALUES_MAX } from "../rich/node.ts";

export type DocumentKind = "text" | "rich";

/** Bits of the info byte of an item: the kind of its content, and which fields follow. */
const [CONTENT, HAS_SUB, HAS_RIGHT, HAS_LEFT] = [0x1f, 0x20, 0x40, 0x80];
/** Kinds of content. */
const [COLLECTED, DELETED, STRING, FORMAT, TYPE, ANY] = [0, 1, 4, 6, 7, 8];
const ALLOWED: Readonly<Record<DocumentKind, ReadonlySet<number>>> = {
  text: new Set([DELETED, STRING, FORMAT]),
  rich: new Set([COLLECTED, DELETED, STRING, FORMAT, TYPE, ANY]),
};
/** Types that begin with a name; a hook is one that no editor uses. */
const [XML_ELEMENT, XML_HOOK, TYPES] = [3, 5, 7];
const VALUE_DEPTH_MAX = 32;
/** What an update may still contain. */
type Budget = { items: number; values: number };

/** Whether an update in the v1 encoding contains only what documents of this kind have, and no more than they can have. */
export function scanContents(kind: DocumentKind, decoder: Decoder): "allowed" | "other" | "too_many" {
  const allowed = ALLOWED[kind];
  const budget: Budget = { items: ITEMS_MAX, values: RICH_JSON_VALUES_MAX };
  for (let clients = readVarUint(decoder); clients > 0; clients--) {
    let items = readVarUint(decoder);
    skipId(decoder);
    for (; items > 0; items--) {
      const info = readUint8(decoder);
      const content = info & CONTENT;
      if (!allowed.has(content)) return "other";
      if (--budget.items < 0) return "too_many";
      if (content === COLLECTED) {
        readVarUint(decoder);
        continue;
      }
      if ((info & HAS_LEFT) !== 0) skipId(decoder);
      if ((info & HAS_RIGHT) !== 0) skipId(decoder);
      if ((info & (HAS_LEFT | HAS_RIGHT)) === 0) {
        if (readVarUint(decoder) === 1) readVarUint8Array(decoder);
        else skipId(decoder);
        if ((info & HAS_SUB) !== 0) readVarUint8Array(decoder);
      }
      if (!skipContent(content, decoder, budget)) return budget.values < 0 ? "too_many" : "other";
    }
  }
  return "allowed";
}

function skipId(decoder: Decoder): void {
  readVarUint(decoder);
  readVarUint(decoder);
}

/** Whether a content could be skipped; false for one that no document has. */
function skipContent(content: number, decoder: Decoder, budget: Budget): boolean {
  if (content === DELETED) readVarUint(decoder);
  else if (content === STRING) readVarUint8Array(decoder);
  else if (content === FORMAT) {
    readVarUint8Array(decoder);
    return !isDeeperThan(readVarString(decoder), VALUE_DEPTH_MAX);
  } else if (content === TYPE) {
    const type = readVarUint(decoder);
    if (type === XML_ELEMENT) readVarUint8Array(decoder);
    return type !== XML_HOOK && type < TYPES;
  } else {
    for (let values = readVarUint(decoder); values > 0; values--) {
      if (!skipValue(decoder, 1, budget)) return false;
    }
  }
  return true;
}

/** Skips a value of lib0's encoding; false for one that is not JSON, has NUL, or nests too deep, and for one too many. */
function skipValue(decoder: Decoder, depth: number, budget: Budget): boolean {
  if (depth > VALUE_DEPTH_MAX || --budget.values < 0) return false;
  switch (readUint8(decoder)) {
    case 127: // undefined
    case 126: // null
    case 121: // true
    case 120: // false
      return true;
    case 125:
      readVarInt(decoder);
      return true;
    case 124:
      return skipBytes(decoder, 4);
    case 123:
      return skipBytes(decoder, 8);
    case 119:
      return skipSafeText(decoder);
    case 118:
      for (let fields = readVarUint(decoder); fields > 0; fields--) {
        if (!skipSafeText(decoder) || !skipValue(decoder, depth + 1, budget)) return false;
      }
      return true;
    case 117:
      for (let values = readVarUint(decoder); values > 0; values--) {
        if (!skipValue(decoder, depth + 1, budget)) return false;
      }
      return true;
    default:
      return false;
  }
}

function skipBytes(decoder: Decoder, count: number): boolean {
  for (let left = count; left > 0; left--) skip8(decoder);
  return true;
}

/** Skips a text; false for one with NUL. A lone surrogate is not valid UTF-8, so decoding it fails. */
function skipSafeText(decoder: Decoder): boolean {
  return !readVarUint8Array(decoder).includes(0);
}
