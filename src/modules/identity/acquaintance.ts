// Whom a caller may know of: members of the tenant everybody, its guests only those they have to do with.
import { type Actor, isGuest } from "@/core/actor.ts";
import type { Store } from "@/ports/store.ts";
import { IdentityStore, type IdentityTables, type PrincipalRow } from "./store.ts";

type Who = Pick<Actor, "tenantId" | "principalId" | "role" | "ownerId">;

type Deps = {
  store: Store<IdentityTables>;
  /** Those of the principals whom somebody meets in a room; asked for guests only. */
  met: (who: Who, ids: readonly string[]) => Promise<ReadonlySet<string>>;
};

export class Acquaintances {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** A principal; `undefined` also for one whom the caller may not know of. */
  async find(who: Who, id: string): Promise<PrincipalRow | undefined> {
    const row = await new IdentityStore(this.#deps.store.db).principal(who.tenantId, id);
    return row === undefined ? undefined : (await this.among(who, [row]))[0];
  }

  /** Whether the caller may know of a principal that is there. */
  async isKnown(who: Who, id: string): Promise<boolean> {
    return !isGuest(who) || await this.find(who, id) !== undefined;
  }

  /** Those of the principals whom the caller may know of: a guest itself, its owner, its agents, and whom it meets. */
  async among(who: Who, rows: readonly PrincipalRow[]): Promise<readonly PrincipalRow[]> {
    if (!isGuest(who)) return rows;
    const { principalId, ownerId } = who;
    const isNear = ({ id, owner_id }: PrincipalRow): boolean =>
      id === principalId || id === ownerId || owner_id === principalId;
    const far = rows.filter((row) => !isNear(row)).map(({ id }) => id);
    if (far.length === 0) return rows;
    const met = await this.#deps.met(who, far);
    return rows.filter((row) => isNear(row) || met.has(row.id));
  }
}
