// Groups of people: administrators manage them, members of the tenant read them, and guests those that they are in.
import { type Actor, isGuest } from "@/core/actor.ts";
import { type Clock, iso } from "@/core/time/clock.ts";
import { type EventDraft, principalEvent } from "@/core/event/event.ts";
import { assertAllFound, Fault, notFound } from "@/core/fault.ts";
import { newId } from "@/core/id.ts";
import type { Cursors, Page } from "@/core/page.ts";
import { assertVersion, withoutUndefined } from "@/core/patch.ts";
import {
  assertHandleFree,
  freeHandle,
  type IdentityTables,
  type PrincipalVisibility,
  resolvePrincipalId,
} from "@/modules/identity/mod.ts";
import type { Store, Transaction } from "@/ports/store.ts";
import {
  type Group,
  GROUP_MEMBERS_MAX,
  type GroupCreate,
  type GroupList,
  type GroupMember,
  type GroupMemberList,
  type GroupMembersChange,
  GROUPS_LOCK,
  GROUPS_MAX,
  GROUPS_OF_PERSON_MAX,
  type GroupUpdate,
  nameKeyOf,
} from "./schema.ts";
import { type CountedGroup, type GroupRow, GroupStore, type GroupTables, type ListedMember } from "./store.ts";

type Tx = Transaction<GroupTables & IdentityTables>;
type Deps = {
  store: Store<GroupTables & IdentityTables>;
  clock: Clock;
  cursors: Cursors;
  visibility: PrincipalVisibility;
};

export class GroupService {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  async list(actor: Actor, { limit, cursor, q, principalId }: GroupList): Promise<Page<Group>> {
    const { store, cursors } = this.#deps;
    const { tenantId } = actor;
    const wanted = principalId === undefined ? undefined : resolvePrincipalId(actor, principalId);
    if (isGuest(actor) && wanted !== undefined && wanted !== actor.principalId) {
      throw new Fault("forbidden", "/principalId: guests of the tenant see only their own groups");
    }
    const memberIds = [wanted, ...viewerOf(actor)].filter((id) => id !== undefined);
    const bind = ["group.list", tenantId, actor.principalId, { q, memberIds }];
    const after = cursors.decode(cursor, bind)?.[0]?.toString() ?? "";
    const rows = await new GroupStore(store.db).list(tenantId, { q, memberIds }, after, limit + 1);
    return cursors.page(rows, limit, bind, (row) => [row.name_key], (row) => present(actor, row));
  }

  async read(actor: Actor, id: string): Promise<Group> {
    return present(actor, await this.#requireVisible(actor, id));
  }

  create(actor: Actor, { name, handle, description, externalId }: GroupCreate): Promise<Group> {
    const { tenantId } = actor;
    return this.#write(actor, async (tx, groups) => {
      if (await groups.count(tenantId) >= GROUPS_MAX) {
        throw new Fault("limit_reached", `A tenant has at most ${GROUPS_MAX} groups`);
      }
      const at = iso(this.#deps.clock.now());
      const id = newId("grp");
      await assertNameFree(groups, tenantId, id, name);
      if (handle !== undefined) await assertHandleFree(tx, { tenant_id: tenantId, id }, handle);
      const row: GroupRow = {
        tenant_id: tenantId,
        id,
        handle: handle ?? await freeHandle(tx, { tenant_id: tenantId, id }, name),
        name,
        name_key: nameKeyOf(name),
        description,
        external_id: externalId ?? null,
        version: 1,
        created_at: at,
        updated_at: at,
      };
      await groups.add(row);
      return present(actor, { ...row, member_count: 0 });
    });
  }

  update(actor: Actor, { id, version, externalId, ...input }: GroupUpdate): Promise<Group> {
    const { tenantId } = actor;
    const { name, handle } = input;
    return this.#write(actor, async (tx, groups) => {
      const before = await requireGroup(groups, tenantId, id);
      assertVersion("group", before.version, version);
      const columns = withoutUndefined({
        ...input,
        name_key: name === undefined ? undefined : nameKeyOf(name),
        external_id: externalId,
      });
      const keys = Object.keys(columns) as (keyof typeof columns)[]; // of a value of that type
      if (keys.every((key) => before[key] === columns[key])) return present(actor, before);
      if (name !== undefined) await assertNameFree(groups, tenantId, id, name);
      const set = { ...columns, ...this.#changed(before) };
      const after = { ...before, ...set };
      // The streams of principals are locked before their handles, as by who changes a handle of its own.
      const data = { group: ofMember(after) };
      await tx.emit(...eventsOf(actor, "group.updated", await groups.memberIds(tenantId, id), data));
      if (typeof handle === "string" && handle !== before.handle) await assertHandleFree(tx, before, handle);
      await groups.update(tenantId, id, set);
      return present(actor, after);
    });
  }

  delete(actor: Actor, id: string): Promise<void> {
    const { tenantId } = actor;
    return this.#write(actor, async (tx, groups) => {
      await requireGroup(groups, tenantId, id);
      const memberIds = await groups.memberIds(tenantId, id);
      await groups.remove(tenantId, id);
      await tx.emit(...eventsOf(actor, "group.left", memberIds, { groupId: id }));
    });
  }

  async members(actor: Actor, { id, limit, cursor }: GroupMemberList): Promise<Page<GroupMember>> {
    const { store, cursors, visibility } = this.#deps;
    await this.#requireVisible(actor, id);
    const bind = ["group_member.list", actor.tenantId, actor.principalId, id];
    const after = cursors.decode(cursor, bind)?.[0]?.toString() ?? "";
    const rows = await new GroupStore(store.db).members(actor.tenantId, id, after, limit + 1);
    const visible = new Set((await visibility.filterVisible(actor, rows)).map((row) => row.id));
    const page = cursors.page(rows, limit, bind, (row) => [row.principal_id], (row) => row);
    return { ...page, items: page.items.filter((row) => visible.has(row.id)).map(presentMember) };
  }

  /** Adds people; those who are members stay so. */
  addMembers(actor: Actor, { id, principalIds }: GroupMembersChange): Promise<Group> {
    const { tenantId } = actor;
    return this.#write(actor, async (tx, groups) => {
      const before = await requireGroup(groups, tenantId, id);
      const present = await groups.filterMembers(tenantId, id, principalIds);
      const fresh = [...new Set(principalIds)].filter((one) => !present.has(one));
      await assertPeople(groups, tenantId, principalIds);
      if (before.member_count + fresh.length > GROUP_MEMBERS_MAX) {
        throw new Fault("limit_reached", `A group has at most ${GROUP_MEMBERS_MAX} members`);
      }
      const [full] = fresh.length === 0 ? [] : await groups.membersOfMany(tenantId, fresh, GROUPS_OF_PERSON_MAX);
      if (full !== undefined) {
        throw new Fault("limit_reached", `${full} is in ${GROUPS_OF_PERSON_MAX} groups, and can be in no others`);
      }
      const added_at = iso(this.#deps.clock.now());
      const rows = fresh.map((one) => ({ tenant_id: tenantId, group_id: id, principal_id: one, added_at }));
      if (rows.length > 0) await tx.insertMany("user_group_member", rows);
      return await this.#membersChanged(tx, actor, before, "group.joined", fresh);
    });
  }

  /** Removes people; those who are no members stay so. */
  removeMembers(actor: Actor, { id, principalIds }: GroupMembersChange): Promise<Group> {
    const { tenantId } = actor;
    return this.#write(actor, async (tx, groups) => {
      const before = await requireGroup(groups, tenantId, id);
      const leaving = [...await groups.filterMembers(tenantId, id, principalIds)];
      await groups.removeMembers(tenantId, id, leaving);
      return await this.#membersChanged(tx, actor, before, "group.left", leaving);
    });
  }

  /** The person is erased: nobody is notified, but each group is another one then. */
  endMemberships(tenantId: string, principalId: string, groupIds: readonly string[]): Promise<number> {
    return this.#write({ tenantId }, async (_tx, groups) => {
      const ids: string[] = [];
      for (const id of groupIds) {
        const row = await groups.find(tenantId, id);
        if (row === undefined || !(await groups.filterMembers(tenantId, id, [principalId])).has(principalId)) continue;
        await groups.removeMembers(tenantId, id, [principalId]);
        await groups.update(tenantId, id, this.#changed(row));
        ids.push(id);
      }
      return ids.length;
    });
  }

  async #membersChanged(
    tx: Tx,
    actor: Actor,
    before: CountedGroup,
    type: "group.joined" | "group.left",
    ids: readonly string[],
  ): Promise<Group> {
    if (ids.length === 0) return present(actor, before);
    const { tenant_id, id, member_count } = before;
    const set = this.#changed(before);
    await new GroupStore(tx.db).update(tenant_id, id, set);
    const isJoining = type === "group.joined";
    const after = { ...before, ...set, member_count: member_count + (isJoining ? ids.length : -ids.length) };
    await tx.emit(...eventsOf(actor, type, ids, isJoining ? { group: ofMember(after) } : { groupId: id }));
    return present(actor, after);
  }

  #changed({ version }: GroupRow): Pick<GroupRow, "version" | "updated_at"> {
    return { version: version + 1, updated_at: iso(this.#deps.clock.now()) };
  }

  /** A group that the caller may read. */
  async #requireVisible(actor: Actor, id: string): Promise<CountedGroup> {
    const groups = new GroupStore(this.#deps.store.db);
    const row = await requireGroup(groups, actor.tenantId, id);
    const [viewer] = viewerOf(actor);
    if (viewer !== undefined && !(await groups.filterMembers(actor.tenantId, id, [viewer])).has(viewer)) {
      throw notFound("group");
    }
    return row;
  }

  #write<Result>(
    { tenantId }: Pick<Actor, "tenantId">,
    work: (tx: Tx, groups: GroupStore) => Promise<Result>,
  ): Promise<Result> {
    return this.#deps.store.write(async (tx) => {
      await tx.lock(tenantId, GROUPS_LOCK);
      return await work(tx, new GroupStore(tx.db));
    });
  }
}

/** Whose groups the caller sees: a guest its own, and its agents the same; empty for all others, who see every group. */
export function viewerOf(actor: Pick<Actor, "role" | "ownerId" | "principalId">): string[] {
  return isGuest(actor) ? [actor.ownerId ?? actor.principalId] : [];
}

async function requireGroup(groups: GroupStore, tenantId: string, id: string): Promise<CountedGroup> {
  const row = await groups.find(tenantId, id);
  if (row === undefined) throw notFound("group");
  return row;
}

async function assertNameFree(groups: GroupStore, tenantId: string, id: string, name: string): Promise<void> {
  if (!await groups.hasName(tenantId, nameKeyOf(name), id)) return;
  throw new Fault("conflict", `There is another group with the name ${name}`);
}

/** Throws unless all of these exist and are people: agents and services act for somebody, and are mentioned by themselves. */
async function assertPeople(groups: GroupStore, tenantId: string, ids: readonly string[]): Promise<void> {
  const people = await groups.filterPeople(tenantId, ids);
  assertAllFound(ids, people, "/principalIds", (id) => `no person ${id}`);
}

function eventsOf(actor: Actor, type: string, principalIds: readonly string[], data: unknown): EventDraft[] {
  return principalIds.map((id) => principalEvent(actor, id, type, data));
}

function present(actor: Actor, row: CountedGroup): Group {
  return { ...ofMember(row), memberCount: isGuest(actor) ? null : row.member_count };
}

function ofMember(row: GroupRow): Omit<Group, "memberCount"> {
  return {
    id: row.id,
    handle: row.handle,
    name: row.name,
    description: row.description,
    externalId: row.external_id,
    version: row.version,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  };
}

function presentMember(row: ListedMember): GroupMember {
  return {
    principalId: row.principal_id,
    displayName: row.display_name,
    handle: row.handle,
    disabled: row.is_disabled === 1,
    addedAt: row.added_at,
  };
}
