// Groups as an identity provider provisions them. They are changed by the operations on groups, so that their rules, limits and
// audit entries apply to the provider as to every caller.
import type { Actor } from "@/core/actor.ts";
import { Fault, notFound } from "@/core/fault.ts";
import { withoutUndefined } from "@/core/patch.ts";
import { CHANGED_MEMBERS_MAX, Group, GROUP_MEMBERS_MAX, GroupStore } from "@/modules/group/mod.ts";
import type { Store, Transaction } from "@/ports/store.ts";
import { assertIfMatch, type DispatchOperation, type ScimCall } from "./call.ts";
import type { Condition, GroupField } from "./filter.ts";
import { type GroupChange, readGroupPatch } from "./group_patch.ts";
import { readGroup, type ScimGroup } from "./group_schema.ts";
import { type ListedGroup, ScimGroupStore } from "./group_store.ts";
import { GROUP_SCHEMA, groupPath, type PatchOperation, userPath } from "./schema.ts";
import type { ScimTables } from "./store.ts";

type Deps = { store: Store<ScimTables>; dispatch: DispatchOperation };
type Tx = Transaction<ScimTables>;
type Members = Awaited<ReturnType<ScimGroupStore["members"]>>;

/** A page has no more members than this, unless one group has. */
const PAGE_MEMBERS_MAX = 5000;
/** A stream without events: its lock serializes changes, each of which is based on what it reads. */
const LOCK = "scim:groups";
const LISTED_MEMBER = /^\/principalIds\/(\d+)$/;

export class ScimGroups {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  async list(
    { tenantId }: Actor,
    condition: Condition<GroupField>,
    { withMembers, ...range }: { offset: number; limit: number; withMembers: boolean },
  ): Promise<{ total: number; page: ScimGroup[] }> {
    const groups = new ScimGroupStore(this.#deps.store.db);
    const total = await groups.count(tenantId, condition);
    const found = range.limit === 0 ? [] : await groups.list(tenantId, condition, range);
    if (!withMembers) return { total, page: found.map((row) => present(row, [])) };
    let shown = 0;
    const rows = found.filter(({ member_count }, at) => (shown += member_count) <= PAGE_MEMBERS_MAX || at === 0);
    const members = await groups.members(tenantId, rows.map(({ id }) => id));
    const byGroup = Map.groupBy(members, (member) => member.group_id);
    return { total, page: rows.map((row) => present(row, byGroup.get(row.id) ?? [])) };
  }

  read({ tenantId }: Actor, id: string, withMembers: boolean): Promise<ScimGroup> {
    return read(new ScimGroupStore(this.#deps.store.db), tenantId, id, withMembers);
  }

  create(call: ScimCall, json: unknown): Promise<ScimGroup> {
    const { displayName: name, externalId, memberIds = [] } = readGroup(json);
    return this.#write(call, async (tx) => {
      const more = typeof externalId === "string" ? { externalId } : {};
      const { id } = Group.parse(await this.#deps.dispatch(call, "group.create", { name, ...more }));
      await this.#changeMembers(tx, call, id, {
        replacesMembers: false,
        added: new Set(memberIds),
        removed: new Set(),
      });
      return await read(new ScimGroupStore(tx.db), call.actor.tenantId, id, true);
    });
  }

  /** Replaces name and members; an external id that is not mentioned stays. */
  replace(call: ScimCall, id: string, json: unknown): Promise<ScimGroup> {
    const { memberIds = [], ...wanted } = readGroup(json);
    const change = { ...wanted, replacesMembers: true, added: new Set(memberIds), removed: new Set<string>() };
    return this.#update(call, id, change, true);
  }

  patch(call: ScimCall, id: string, operations: readonly PatchOperation[], withMembers: boolean): Promise<ScimGroup> {
    return this.#update(call, id, readGroupPatch(operations), withMembers);
  }

  remove(call: ScimCall, id: string): Promise<void> {
    return this.#write(call, async (tx) => {
      await this.#require(tx, call, id);
      await this.#deps.dispatch(call, "group.delete", { id });
    });
  }

  #update(
    call: ScimCall,
    id: string,
    { displayName, externalId, ...change }: Omit<GroupChange, "externalId"> & {
      externalId?: string | null | undefined;
    },
    withMembers: boolean,
  ): Promise<ScimGroup> {
    return this.#write(call, async (tx) => {
      await this.#require(tx, call, id);
      const isChanged = await this.#changeMembers(tx, call, id, change);
      // A call that changes nothing counts, too.
      if (!isChanged || displayName !== undefined || externalId !== undefined) {
        const input = withoutUndefined({ name: displayName, externalId });
        await this.#deps.dispatch(call, "group.update", { id, ...input });
      }
      return await read(new ScimGroupStore(tx.db), call.actor.tenantId, id, withMembers);
    });
  }

  /** Adds those who are no members, and removes those who are; returns whether there are any. */
  async #changeMembers(
    tx: Tx,
    call: ScimCall,
    id: string,
    { replacesMembers, added, removed }: GroupChange,
  ): Promise<boolean> {
    const present = new Set(await new GroupStore(tx.db).memberIds(call.actor.tenantId, id));
    const leaving = [...replacesMembers ? present.difference(added) : removed.intersection(present)];
    const joining = [...added.difference(present)];
    if (joining.length > GROUP_MEMBERS_MAX) {
      throw new Fault("limit_reached", `A group has at most ${GROUP_MEMBERS_MAX} members`);
    }
    for (const [name, ids] of [["group_member.remove", leaving], ["group_member.add", joining]] as const) {
      for (let at = 0; at < ids.length; at += CHANGED_MEMBERS_MAX) {
        const principalIds = ids.slice(at, at + CHANGED_MEMBERS_MAX);
        await this.#deps.dispatch(call, name, { id, principalIds }).catch((thrown) => {
          throw namingMember(thrown, principalIds);
        });
      }
    }
    return leaving.length + joining.length > 0;
  }

  async #require(tx: Tx, call: ScimCall, id: string): Promise<void> {
    const { meta } = await read(new ScimGroupStore(tx.db), call.actor.tenantId, id, false);
    assertIfMatch(call, meta.version, "group");
  }

  #write<Result>({ actor }: ScimCall, work: (tx: Tx) => Promise<Result>): Promise<Result> {
    return this.#deps.store.write(async (tx) => {
      await tx.lock(actor.tenantId, LOCK);
      return await work(tx);
    });
  }
}

/** The fault with the id of the member that it is about: the provider does not know the lists that members are changed by. */
function namingMember(thrown: unknown, principalIds: readonly string[]): unknown {
  if (!(thrown instanceof Fault)) return thrown;
  const [{ pointer = "", detail = "" } = {}] = thrown.errors;
  const position = LISTED_MEMBER.exec(pointer)?.[1];
  const member = principalIds[Number(position)];
  return member === undefined ? thrown : new Fault(thrown.code, `/members: ${JSON.stringify(member)}: ${detail}`);
}

async function read(groups: ScimGroupStore, tenantId: string, id: string, withMembers: boolean): Promise<ScimGroup> {
  const [row] = await groups.list(tenantId, { field: "id", operator: "eq", value: id }, { offset: 0, limit: 1 });
  if (row === undefined) throw notFound("group");
  return present(row, withMembers ? await groups.members(tenantId, [id]) : []);
}

function present(row: ListedGroup, members: Members): ScimGroup {
  return {
    schemas: [GROUP_SCHEMA],
    id: row.id,
    ...row.external_id === null ? {} : { externalId: row.external_id },
    displayName: row.name,
    members: members.map(({ principal_id, display_name }) => ({
      value: principal_id,
      $ref: userPath(principal_id),
      display: display_name,
      type: "User",
    })),
    meta: {
      resourceType: "Group",
      created: row.created_at,
      lastModified: row.updated_at,
      location: groupPath(row.id),
      version: `W/"${row.version}"`,
    },
  };
}
