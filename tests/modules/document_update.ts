// Updates of Yjs as no editor makes them, part by part.
import * as enc from "npm:lib0@0.2.120/encoding";

type Id = readonly [client: number, clock: number];
/** A piece of text and the neighbours it names. */
export type Crafted = { left?: Id; right?: Id; text: string };

/** An update of one client from `clock` on. */
export function craft(client: number, clock: number, parts: readonly Crafted[]): Uint8Array {
  const update = enc.createEncoder();
  for (const number of [1, parts.length, client, clock]) enc.writeVarUint(update, number);
  for (const { left, right, text } of parts) {
    enc.writeUint8(update, 4 | (left === undefined ? 0 : 0x80) | (right === undefined ? 0 : 0x40));
    for (const number of [...left ?? [], ...right ?? []]) enc.writeVarUint(update, number);
    if (left === undefined && right === undefined) {
      enc.writeVarUint(update, 1);
      enc.writeVarString(update, "content");
    }
    enc.writeVarString(update, text);
  }
  enc.writeVarUint(update, 0);
  return enc.toUint8Array(update);
}
