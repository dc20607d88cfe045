// The cursor of a sync: the position of each stream, packed so that several hundred rooms fit into a URL.
import { hashText } from "@/core/crypto.ts";

const KEY_BYTES = 6;

/** Positions by a short hash of the room and its epoch, so that a stream after a reset has another key. */
export type StreamPositions = ReadonlyMap<string, number>;

/** The key of a room's stream in a cursor. */
export function positionKey(roomId: string, epoch: string): string {
  return hashText(`${roomId}\n${epoch}`).slice(0, 2 * KEY_BYTES);
}

/** Packs positions: per room its key and the position as a varint. */
export function packPositions(positions: StreamPositions): string {
  const bytes: number[] = [];
  for (const [key, seq] of positions) {
    bytes.push(...Uint8Array.fromHex(key));
    let rest = seq;
    for (; rest > 0x7f; rest = Math.floor(rest / 0x80)) bytes.push(0x80 | (rest % 0x80));
    bytes.push(rest);
  }
  return new Uint8Array(bytes).toBase64({ alphabet: "base64url", omitPadding: true });
}

/** Unpacks what `packPositions` packed. */
export function unpackPositions(packed: string): StreamPositions {
  const bytes = Uint8Array.fromBase64(packed, { alphabet: "base64url" });
  const positions = new Map<string, number>();
  for (let at = 0; at < bytes.length;) {
    const key = bytes.subarray(at, at + KEY_BYTES).toHex();
    at += KEY_BYTES;
    let seq = 0;
    let scale = 1;
    for (let isMore = true; isMore && at < bytes.length; at++, scale *= 0x80) {
      const byte = bytes[at] ?? 0;
      seq += (byte & 0x7f) * scale;
      isMore = byte > 0x7f;
    }
    positions.set(key, seq);
  }
  return positions;
}
