// Validates a frame of the Hocuspocus protocol before the engine reads it: complete, of a known type, and not too large.
import {
  createDecoder,
  type Decoder,
  hasContent,
  peekVarUint,
  readVarString,
  readVarUint,
  readVarUint8Array,
} from "lib0/decoding";
import type { Fault } from "@/core/fault.ts";
import { isDeeperThan } from "@/core/text/text.ts";
import { updateTooLarge } from "../content/service.ts";
import type { DocumentKind } from "../content/update_scan.ts";
import { INVALID_UPDATE, isStateVector, refusalOf, updateFault } from "../content/crdt.ts";
import { BODY_MAX_BYTES, FRAME_MAX_BYTES, UPDATE_MAX_BYTES_OF } from "../schema.ts";

/** Types that clients may send; the others are for servers. */
const MESSAGE_TYPE = {
  sync: 0,
  awareness: 1,
  auth: 2,
  queryAwareness: 3,
  syncReply: 4,
  stateless: 5,
  close: 7,
  ping: 9,
  pong: 10,
};
const STEP1 = 0;
const STEP2 = 1;
const SYNC_MAX = 2;
const TOKEN = 0;
/** Enough for cursor, selection, name and color; awareness is not a data store. */
const AWARENESS_MAX_BYTES = 16 * 1024;
const AWARENESS_MAX_DEPTH = 32;
/** So many bytes of awareness count as one state. */
const STATE_BYTES = 64;
/** More than any name below has. */
const NAME_MAX_BYTES = 256;
/** Id of the document; after a NUL, which of several editors on the socket sends the frame. */
const NAME = /^[A-Za-z0-9_-]{1,64}(?:\0[\w.:-]{1,100})?$/;

export type EditorFrame = {
  /** Address of the editor: id of the document, and suffix of the editor. */
  name: string;
  /** `ignored`: it has no effect, and needs none. */
  kind: "auth" | "close" | "ignored" | "first_sync" | "update" | "other";
  /** Why its update is rejected. */
  rejection?: Fault;
};
type FrameFault = "malformed" | "too_large";
type SocketState = {
  /** Editors that requested their documents. */
  requested: ReadonlySet<string>;
  /** The kind of an editor's document, once it is known. */
  kindOf: (name: string) => DocumentKind | undefined;
  /** Whether so many more states of awareness are within the socket's rate. */
  allowStates: (count: number) => boolean;
};

/**
 * Parses a frame. Of editors not in `requested`, and of updates of documents whose kind is not known before authentication,
 * only the head is read.
 */
export function parseFrame(data: Uint8Array, socket: SocketState): EditorFrame | FrameFault {
  // The only type without a document.
  if (data.length === 1 && (data[0] === MESSAGE_TYPE.ping || data[0] === MESSAGE_TYPE.pong)) {
    return { name: "", kind: "ignored" };
  }
  const frame = readFrame(data, socket);
  if (data.length <= BODY_MAX_BYTES) return frame;
  // An update that is too large is rejected by itself, visibly, or the client would send it again after each reconnect.
  return typeof frame === "object" && frame.rejection !== undefined ? frame : "too_large";
}

/** Whether the client loses what is in a frame, which has been parsed, unless it is stored. */
export function isUpdateFrame(frame: Uint8Array): boolean {
  const decoder = createDecoder(frame);
  readVarString(decoder);
  const type = readVarUint(decoder);
  return (type === MESSAGE_TYPE.sync || type === MESSAGE_TYPE.syncReply) && readVarUint(decoder) !== STEP1;
}

function readFrame(data: Uint8Array, { requested, kindOf, allowStates }: SocketState): EditorFrame | FrameFault {
  try {
    const decoder = createDecoder(data);
    if (peekVarUint(decoder) > NAME_MAX_BYTES) return "malformed";
    const name = readVarString(decoder);
    // The engine stores documents by name in plain objects, which have inherited names.
    if (!NAME.test(name) || name in Object.prototype) return "malformed";
    const type = readVarUint(decoder);
    if (type === MESSAGE_TYPE.sync || type === MESSAGE_TYPE.syncReply) {
      return readSync(decoder, name, requested.has(name), kindOf);
    }
    if (data.length > FRAME_MAX_BYTES) return "too_large";
    switch (type) {
      case MESSAGE_TYPE.awareness:
        return readAwareness(name, readVarUint8Array(decoder), allowStates);
      case MESSAGE_TYPE.auth:
        if (readVarUint(decoder) !== TOKEN) return "malformed";
        readVarString(decoder);
        if (hasContent(decoder)) readVarString(decoder);
        return { name, kind: "auth" };
      case MESSAGE_TYPE.stateless:
        readVarString(decoder);
        return { name, kind: "other" };
      case MESSAGE_TYPE.queryAwareness:
        return { name, kind: "other" };
      case MESSAGE_TYPE.close:
        return { name, kind: "close" };
      case MESSAGE_TYPE.ping:
      case MESSAGE_TYPE.pong:
        return { name, kind: "ignored" };
      default:
        return "malformed";
    }
  } catch {
    return "malformed"; // Whatever the decoder threw: the frame is not what it says.
  }
}

function readSync(
  decoder: Decoder,
  name: string,
  isRequested: boolean,
  kindOf: (name: string) => DocumentKind | undefined,
): EditorFrame | FrameFault {
  const step = readVarUint(decoder);
  if (step > SYNC_MAX) return "malformed";
  const payload = readVarUint8Array(decoder);
  const kind = step === STEP1 ? "other" : step === STEP2 ? "first_sync" : "update";
  if (step === STEP1) {
    if (payload.length > FRAME_MAX_BYTES) return "too_large";
    return !isRequested || isStateVector(payload) ? { name, kind } : "malformed";
  }
  const documentKind = isRequested ? kindOf(name) : undefined;
  return documentKind === undefined ? { name, kind } : readUpdate({ name, kind }, payload, documentKind);
}

function readUpdate(frame: EditorFrame, update: Uint8Array, kind: DocumentKind): EditorFrame | FrameFault {
  if (update.length > UPDATE_MAX_BYTES_OF[kind]) return { ...frame, rejection: updateTooLarge(kind) };
  const fault = updateFault(update, kind);
  if (fault === undefined) return frame;
  return fault === INVALID_UPDATE ? "malformed" : { ...frame, rejection: refusalOf(fault) };
}

/** Awareness beyond the rate is ignored: it is repeated, and each state of it is decoded several times. */
function readAwareness(
  name: string,
  update: Uint8Array,
  allowStates: SocketState["allowStates"],
): EditorFrame | FrameFault {
  if (update.length > AWARENESS_MAX_BYTES) return "too_large";
  const decoder = createDecoder(update);
  const states = readVarUint(decoder);
  if (!allowStates(Math.max(states, Math.ceil(update.length / STATE_BYTES)))) return { name, kind: "ignored" };
  for (let left = states; left > 0; left--) {
    readVarUint(decoder);
    readVarUint(decoder);
    const raw = readVarString(decoder);
    if (isDeeperThan(raw, AWARENESS_MAX_DEPTH) || typeof JSON.parse(raw) !== "object") return "malformed";
  }
  return { name, kind: "other" };
}
