// Limits the memory of a WebAssembly module that was compiled without a limit; the engine has no option for it.
import { Buffer } from "node:buffer";

const HEAD_BYTES = 8;
const MEMORY_SECTION = 5;
const PAGE_BYTES = 65_536;

/** The module with a memory limit of `maxBytes`; further allocations fail and the module traps. */
export function withMemoryCap(code: Uint8Array, maxBytes: number): Uint8Array<ArrayBuffer> {
  for (let at = HEAD_BYTES; at < code.length;) {
    const [length, start] = numberAt(code, at + 1);
    const end = start + length;
    if (code[at] !== MEMORY_SECTION) {
      at = end;
      continue;
    }
    // The section has the number of memories, a flag for a maximum, and the minimum.
    const [minimum] = numberAt(code, start + 2);
    const section = [1, 1, ...encodeNumber(minimum), ...encodeNumber(Math.floor(maxBytes / PAGE_BYTES))];
    return Uint8Array.from(Buffer.concat([
      code.subarray(0, at + 1),
      Uint8Array.from([...encodeNumber(section.length), ...section]),
      code.subarray(end),
    ]));
  }
  throw new TypeError("Expected a WebAssembly module with a memory");
}

/** An unsigned LEB128 number and its end. */
function numberAt(code: Uint8Array, at: number): [number, number] {
  let value = 0;
  for (let shift = 0;; shift += 7) {
    const byte = code[at++] ?? 0;
    value |= (byte & 0x7f) << shift;
    if (byte < 0x80) return [value, at];
  }
}

function encodeNumber(value: number): number[] {
  return value < 0x80 ? [value] : [value & 0x7f | 0x80, ...encodeNumber(value >> 7)];
}
