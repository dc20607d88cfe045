// A frame of the Hocuspocus protocol, looked through before the engine sees it: whole, of a known kind, and not too large.
import { createDecoder, hasContent, readVarString, readVarUint, readVarUint8Array } from "lib0/decoding";
import { Fault } from "@/core/fault.ts";
import { isDeeperThan } from "@/core/text.ts";
import { tooLarge } from "../content/service.ts";
import { BROKEN, isVector, updateFault } from "../crdt.ts";
import { BODY_MAX_BYTES, FRAME_MAX_BYTES, UPDATE_MAX_BYTES } from "../schema.ts";

/** Kinds a client may send; the rest is for servers among themselves. */
const KIND = {
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
/** Cursor, selection, name and colour; not a place to keep things. */
const AWARENESS_MAX_BYTES = 16 * 1024;
const AWARENESS_MAX_DEPTH = 32;
/** The document's id; behind a NUL, which of several editors on the socket speaks. */
const NAME = /^[A-Za-z0-9_-]{1,64}(?:\0[\w.:-]{1,100})?$/;

export type Frame = {
  /** Of the document, and of the editor. */
  name: string;
  kind: "auth" | "close" | "ping" | "first_sync" | "update" | "other";
  /** Why the update in it is not taken. */
  refusal?: Fault;
};
type FrameFault = "malformed" | "too_large";

/**
 * Reads what the frame is about, or says what is wrong with it. Of what was not `asked` for, and of updates of a stranger, no
 * more than the head is read.
 */
export function readFrame(data: Uint8Array, asked: ReadonlySet<string>, isStranger: boolean): Frame | FrameFault {
  if (data.length > BODY_MAX_BYTES) return "too_large";
  // The one kind that is about no document.
  if (data.length === 1 && (data[0] === KIND.ping || data[0] === KIND.pong)) return { name: "", kind: "ping" };
  try {
    const decoder = createDecoder(data);
    const name = readVarString(decoder);
    // The engine keeps documents by name in plain objects, which have names of their own.
    if (!NAME.test(name) || name in Object.prototype) return "malformed";
    switch (readVarUint(decoder)) {
      case KIND.sync:
      case KIND.syncReply: {
        const step = readVarUint(decoder);
        if (step > SYNC_MAX) return "malformed";
        const payload = readVarUint8Array(decoder);
        // Updates that are too much are refused by name: what was typed offline comes at once, and so does what is pasted.
        if (step === STEP1 && payload.length > FRAME_MAX_BYTES) return "too_large";
        const kind = step === STEP1 ? "other" : step === STEP2 ? "first_sync" : "update";
        if (!asked.has(name) || (isStranger && step !== STEP1)) return { name, kind };
        if (step === STEP1) return isVector(payload) ? { name, kind } : "malformed";
        return readUpdate({ name, kind }, payload);
      }
      case KIND.awareness:
        return checkAwareness(readVarUint8Array(decoder)) ?? { name, kind: "other" };
      case KIND.auth:
        if (readVarUint(decoder) !== TOKEN) return "malformed";
        readVarString(decoder);
        if (hasContent(decoder)) readVarString(decoder);
        return data.length > FRAME_MAX_BYTES ? "too_large" : { name, kind: "auth" };
      case KIND.stateless:
        readVarString(decoder);
        return data.length > FRAME_MAX_BYTES ? "too_large" : { name, kind: "other" };
      case KIND.queryAwareness:
        return { name, kind: "other" };
      case KIND.close:
        return { name, kind: "close" };
      case KIND.ping:
      case KIND.pong:
        return { name, kind: "ping" };
      default:
        return "malformed";
    }
  } catch {
    return "malformed";
  }
}

function readUpdate(frame: Frame, update: Uint8Array): Frame | FrameFault {
  if (update.length > UPDATE_MAX_BYTES) return { ...frame, refusal: tooLarge() };
  const fault = updateFault(update);
  if (fault === undefined) return frame;
  return fault === BROKEN ? "malformed" : { ...frame, refusal: new Fault("validation_failed", `Refused: ${fault}`) };
}

function checkAwareness(update: Uint8Array): FrameFault | undefined {
  if (update.length > AWARENESS_MAX_BYTES) return "too_large";
  const decoder = createDecoder(update);
  for (let left = readVarUint(decoder); left > 0; left--) {
    readVarUint(decoder);
    readVarUint(decoder);
    const raw = readVarString(decoder);
    if (isDeeperThan(raw, AWARENESS_MAX_DEPTH) || typeof JSON.parse(raw) !== "object") return "malformed";
  }
  return undefined;
}
