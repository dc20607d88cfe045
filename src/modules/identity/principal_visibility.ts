// Which principals a caller can see: members of the tenant all but hooks, guests only those they are related to. A hook belongs to
// a room, and its name may say what the room is about, so only principals that share the room see it.
import { type Actor, isGuest } from "@/core/actor.ts";
import { assertAllFound } from "@/core/fault.ts";
import type { AnyDatabase, Store } from "@/ports/store.ts";
import { HOOK_PREFIX, IdentityStore, type IdentityTables, type PrincipalRow } from "./store.ts";

type Viewer = Pick<Actor, "tenantId" | "principalId" | "role" | "ownerId">;

export type PrincipalVisibilityDeps = {
  store: Store<IdentityTables>;
  /** Those of the principals that share a room with the viewer; called for guests and hooks only. */
  filterSharingRoom: (viewer: Viewer, ids: readonly string[], db: AnyDatabase) => Promise<ReadonlySet<string>>;
  /** Those of the viewers that share a room with the principal. */
  filterViewersSharingRoom: (
    tenantId: string,
    principalId: string,
    viewerIds: readonly string[],
  ) => Promise<ReadonlySet<string>>;
};

export class PrincipalVisibility {
  readonly #deps: PrincipalVisibilityDeps;

  constructor(deps: PrincipalVisibilityDeps) {
    this.#deps = deps;
  }

  /** The principal; `undefined` if it does not exist or the viewer cannot see it. */
  async find(viewer: Viewer, id: string, db: AnyDatabase = this.#deps.store.db): Promise<PrincipalRow | undefined> {
    const row = await new IdentityStore(db).principal(viewer.tenantId, id);
    return (await this.filterNamed(viewer, [id], row === undefined ? [] : [row], db))[0];
  }

  /** Throws `validation_failed` unless the viewer can see all of these principals, a list at `pointer` of its input. */
  async assertAllVisible(viewer: Viewer, ids: readonly string[], pointer: string, db: AnyDatabase): Promise<void> {
    if (ids.length === 0) return;
    const found = await new IdentityStore(db).principals(viewer.tenantId, ids);
    const rows = await this.filterNamed(viewer, ids, found, db);
    const visible = new Set(rows.map(({ id }) => id));
    assertAllFound(ids, visible, pointer, (id) => `no principal ${id}`);
  }

  /**
   * Those of the rows found for ids that the viewer named. The same is asked for ids without a row, so that how long it takes does not
   * say who exists.
   */
  async filterNamed<Row extends Pick<PrincipalRow, "id" | "owner_id">>(
    viewer: Viewer,
    ids: readonly string[],
    found: readonly Row[],
    db: AnyDatabase = this.#deps.store.db,
  ): Promise<readonly Row[]> {
    const missing = new Set(ids).difference(new Set(found.map(({ id }) => id)));
    const named = [...found, ...[...missing].map((id) => ({ id, owner_id: null }))];
    const visible = new Set(await this.filterVisible(viewer, named, db));
    return found.filter((row) => visible.has(row));
  }

  /** Those of the principals that the viewer can see: all; of hooks, and for a guest, only those that are related to it. */
  async filterVisible<Row extends Pick<PrincipalRow, "id" | "owner_id">>(
    viewer: Viewer,
    rows: readonly Row[],
    db: AnyDatabase = this.#deps.store.db,
  ): Promise<readonly Row[]> {
    const { principalId, ownerId } = viewer;
    const seesAll = !isGuest(viewer);
    const isRelated = (row: Row): boolean =>
      seesAll && !isHook(row) || row.id === principalId || row.id === ownerId || row.owner_id === principalId;
    const unrelated = rows.filter((row) => !isRelated(row)).map(({ id }) => id);
    if (unrelated.length === 0) return rows;
    const sharing = await this.#deps.filterSharingRoom(viewer, unrelated, db);
    return rows.filter((row) => isRelated(row) || sharing.has(row.id));
  }

  /** Those of people and agents that the viewer can see; reads nothing for members of the tenant. */
  async filterVisibleIds(viewer: Viewer, ids: readonly string[]): Promise<ReadonlySet<string>> {
    if (!isGuest(viewer) || ids.length === 0) return new Set(ids);
    const rows = await new IdentityStore(this.#deps.store.db).ownersOf(viewer.tenantId, ids);
    return new Set((await this.filterVisible(viewer, rows)).map(({ id }) => id));
  }

  /** The ids of those guests of one tenant that can see the principal: `filterVisible` for many viewers, by two queries. */
  async filterViewers(guests: readonly Viewer[], principalId: string): Promise<ReadonlySet<string>> {
    const [first] = guests;
    if (first === undefined) return new Set();
    const row = await new IdentityStore(this.#deps.store.db).principal(first.tenantId, principalId);
    if (row === undefined) return new Set();
    const isRelated = (guest: Viewer): boolean =>
      [guest.principalId, guest.ownerId].includes(row.id) || guest.principalId === row.owner_id;
    const [related, others] = [guests.filter(isRelated), guests.filter((guest) => !isRelated(guest))]
      .map((some) => [...new Set(some.map((guest) => guest.principalId))]);
    if (others === undefined || others.length === 0) return new Set(related);
    const sharing = await this.#deps.filterViewersSharingRoom(first.tenantId, principalId, others);
    return new Set(related).union(sharing);
  }
}

function isHook({ id }: { id: string }): boolean {
  return id.startsWith(HOOK_PREFIX);
}
