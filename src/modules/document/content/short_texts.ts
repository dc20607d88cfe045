// Decodes short texts of Yjs updates, of which an update may have tens of thousands, without the engine's decoder: it takes longer to
// call than such a text to read. Without this, reading a document takes two to five times as long.
import * as Y from "yjs";

const SHORT_BYTES = 64;
const ASCII_MAX = 0x7f;

/** The decoder of the updates that are stored and sent. */
type Decoder = {
  restDecoder: { arr: Uint8Array; pos: number };
  readString(): string;
  readKey(): string;
  readJSON(): unknown;
};

/** Makes Yjs read short texts of ASCII by itself, in every document. */
export function installShortTexts(): void {
  const decoder: Decoder = Y.UpdateDecoderV1.prototype;
  const { readString } = decoder;
  decoder.readString = decoder.readKey = function (): string {
    return readShort(this.restDecoder) ?? readString.call(this);
  };
  decoder.readJSON = function (): unknown {
    return JSON.parse(this.readString());
  };
}

/** A text of few bytes, all of them ASCII, with its length in the byte before it; `undefined`, and nothing read, for others. */
function readShort(decoder: Decoder["restDecoder"]): string | undefined {
  const { arr: bytes, pos } = decoder;
  const end = pos + 1 + (bytes[pos] ?? Infinity);
  if (end > bytes.length || end - pos > SHORT_BYTES) return undefined;
  let text = "";
  for (let at = pos + 1; at < end; at++) {
    const code = bytes[at] ?? Infinity;
    if (code > ASCII_MAX) return undefined;
    text += String.fromCharCode(code);
  }
  decoder.pos = end;
  return text;
}
