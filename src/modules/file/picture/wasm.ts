// A limit on the memory of a WebAssembly module that was compiled without one; the engine offers no other way to set it.
import { Buffer } from "node:buffer";

const HEAD_BYTES = 8;
const MEMORY_SECTION = 5;
const PAGE_BYTES = 65_536;

/** The module with its own memory never growing beyond `maxBytes`: asked for more, it gets none, and traps. */
export function withMemoryCap(code: Uint8Array, maxBytes: number): Uint8Array<ArrayBuffer> {
  for (let at = HEAD_BYTES; at < code.length;) {
    const [length, start] = numberAt(code, at + 1);
    const end = start + length;
    if (code[at] !== MEMORY_SECTION) {
      at = end;
      continue;
    }
    // One memory: how many there are, whether there is a maximum, and the minimum.
    const [minimum] = numberAt(code, start + 2);
    const section = [1, 1, ...encoded(minimum), ...encoded(Math.floor(maxBytes / PAGE_BYTES))];
    return Uint8Array.from(Buffer.concat([
      code.subarray(0, at + 1),
      Uint8Array.from([...encoded(section.length), ...section]),
      code.subarray(end),
    ]));
  }
  throw new TypeError("Expected a module with a memory of its own");
}

/** An unsigned LEB128 number, and where it ends. */
function numberAt(code: Uint8Array, at: number): [number, number] {
  let value = 0;
  for (let shift = 0;; shift += 7) {
    const byte = code[at++] ?? 0;
    value |= (byte & 0x7f) << shift;
    if (byte < 0x80) return [value, at];
  }
}

function encoded(value: number): number[] {
  return value < 0x80 ? [value] : [value & 0x7f | 0x80, ...encoded(value >> 7)];
}
