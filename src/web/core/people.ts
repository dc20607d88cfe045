// Names and pictures of principals by id, read in batches, and who is online.
import { signal } from "@preact/signals";
import { get, listAll } from "./api.ts";
import type { Member, Page, Person, Principal } from "./resources.ts";

const BATCH_MAX = 100;

/** Everybody who has been read so far. */
const people = signal<ReadonlyMap<string, Person>>(new Map());
export const online = signal<ReadonlySet<string>>(new Set());
const requested = new Set<string>();
let timer: ReturnType<typeof setTimeout> | undefined;

export function addPeople(list: readonly Person[]): void {
  const changed = list.filter((person) =>
    people.value.get(person.id)?.displayName !== person.displayName ||
    people.value.get(person.id)?.handle !== person.handle ||
    people.value.get(person.id)?.avatarFileId !== person.avatarFileId ||
    people.value.get(person.id)?.status?.text !== person.status?.text ||
    people.value.get(person.id)?.status?.emoji !== person.status?.emoji
  );
  if (changed.length > 0) people.value = new Map([...people.value, ...changed.map((one) => [one.id, one] as const)]);
}

/** Removes the name and picture of a person who was erased. */
export function forgetPerson(id: string): void {
  const person = people.value.get(id);
  if (person !== undefined) {
    addPeople([{ ...person, displayName: "Deleted user", handle: null, avatarFileId: null, status: null }]);
  }
}

/** A principal's name; its id until that is read. */
export function nameOf(id: string): string {
  return personOf(id)?.displayName ?? id;
}

/** A principal; unknown ones are read soon, and then the caller is rendered again. */
export function personOf(id: string): Person | undefined {
  const person = people.value.get(id);
  if (person === undefined && id !== "" && !requested.has(id)) {
    requested.add(id);
    timer ??= setTimeout(readRequested, 20);
  }
  return person;
}

export function setOnline(id: string, isOnline: boolean): void {
  if (online.value.has(id) === isOnline) return;
  const next = new Set(online.value);
  if (isOnline) next.add(id);
  else next.delete(id);
  online.value = next;
}

/** Those with these ids that the caller can see. */
export async function readPeople(ids: readonly string[]): Promise<Principal[]> {
  const found: Principal[] = [];
  for (let at = 0; at < ids.length; at += BATCH_MAX) {
    const batch = ids.slice(at, at + BATCH_MAX);
    const { items } = await get<Page<Principal>>("v1/collaboration/principals", { ids: batch, limit: BATCH_MAX });
    addPeople(items);
    found.push(...items);
  }
  return found;
}

/** All members of a room, which has a limit of its own. */
export function readMembers(roomId: string): Promise<Member[]> {
  return listAll<Member>(`v1/rooms/${roomId}/members`, {}, Infinity);
}

async function readRequested(): Promise<void> {
  timer = undefined;
  const ids = [...requested].filter((id) => !people.value.has(id));
  try {
    await readPeople(ids);
  } catch {
    // Ids are shown instead of names until the next time they are rendered.
    for (const id of ids) requested.delete(id);
  }
}
