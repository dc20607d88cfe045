// Doors that a node knows already, on PostgreSQL, where other nodes change them too.
//
// Why it is right: what is kept counts only for the number that came with the lock on the room's stream (`Reserved.rights`). Any
// change of members, bans or the room gives the stream another number in its own transaction (migration 0028), which needs that
// lock; so what holds for the number that was just read holds until the commit. What is new is read while the lock is held.
import { roomStream } from "@/core/event.ts";
import { RecentMap } from "@/core/recent_map.ts";
import type { Reserved } from "@/ports/store.ts";
import type { DoorRoom, DoorStore, Question } from "./store.ts";

const KEPT_MAX = 20_000;

type Kept = { rights: number; door: DoorRoom | undefined };

export class KeptDoors {
  readonly #kept: Map<string, Kept>;

  constructor(max = KEPT_MAX) {
    this.#kept = new RecentMap(max);
  }

  /** The doors asked for, in the same order; of streams that `holding` will hold, on the connection of `doors`. */
  async all(
    doors: Pick<DoorStore, "many">,
    asked: readonly Question[],
    holding: Promise<ReadonlyMap<string, Reserved>>,
  ): Promise<(DoorRoom | undefined)[]> {
    const kept = asked.map((question) => this.#kept.get(keyOf(question)));
    // What nothing is known of is asked right behind the lock, so that it needs no way of its own.
    const [held, answers] = await Promise.all([
      holding,
      ask(doors, asked.map((question, at) => kept[at] === undefined ? question : undefined)),
    ]);
    const rights = asked.map(({ id }) => held.get(roomStream(id))?.rights);
    const isOld = (at: number): boolean => kept[at] !== undefined && kept[at].rights !== rights[at];
    const anew = await ask(doors, asked.map((question, at) => isOld(at) ? question : undefined));
    return asked.map((question, at) => {
      const known = isOld(at) ? undefined : kept[at];
      if (known !== undefined) return known.door;
      const door = isOld(at) ? anew[at] : answers[at];
      // A room without a stream is no room: there would be no end of such.
      if (rights[at] !== undefined) this.#kept.set(keyOf(question), { rights: rights[at], door });
      return door;
    });
  }
}

/** By a query for each tenant; places without a question get no answer. */
async function ask(
  doors: Pick<DoorStore, "many">,
  asked: readonly (Question | undefined)[],
): Promise<(DoorRoom | undefined)[]> {
  const answers: (DoorRoom | undefined)[] = new Array(asked.length);
  const places = asked.flatMap((question, at) => question === undefined ? [] : [{ question, at }]);
  const byTenant = Map.groupBy(places, ({ question }) => question.tenantId);
  await Promise.all([...byTenant].map(async ([tenantId, own]) => {
    const found = await doors.many(tenantId, own.map(({ question }) => question));
    for (const [n, { at }] of own.entries()) answers[at] = found[n];
  }));
  return answers;
}

function keyOf({ tenantId, id, principalId, ownerId }: Question): string {
  return `${tenantId} ${id} ${principalId} ${ownerId}`;
}
