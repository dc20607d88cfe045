// Names in place of the ids that logs and arguments of tools have.
import { nameOf } from "../core/people.ts";
import { roomName, rooms } from "./rooms.ts";

/** The name instead of the id of a person, or of a room of the caller; any other text as it is. */
export function readableId(value: string): string {
  const room = rooms.value.get(value);
  return room !== undefined ? roomName(room) : value.startsWith("prn_") ? nameOf(value) : value;
}
