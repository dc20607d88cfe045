// People as an identity provider provisions them. Principals are changed by the operations on principals, so that their rules,
// limits and audit entries apply to the provider as to every caller.
import type { Actor } from "@/core/actor.ts";
import { type Clock, iso } from "@/core/time/clock.ts";
import { Fault, notFound } from "@/core/fault.ts";
import { type Store, type Transaction, whenTaken } from "@/ports/store.ts";
import { assertIfMatch, type DispatchOperation, type ScimCall } from "./call.ts";
import type { Condition, UserField } from "./filter.ts";
import { applyPatch } from "./patch.ts";
import {
  displayNameOf,
  groupPath,
  type Json,
  type PatchOperation,
  readUser,
  subjectOf,
  type User,
  USER_SCHEMA,
  userPath,
  type WantedUser,
} from "./schema.ts";
import { type ScimTables, type ScimUserEntry, type ScimUserRow, ScimUserStore } from "./store.ts";

type Deps = { store: Store<ScimTables>; clock: Clock; dispatch: DispatchOperation };
/** A person for whom the provider names no role, as for one who signs in without. */
const DEFAULT_ROLE = "member";
/** A stream without events: its lock serializes changes, each of which is based on what it reads. */
const LOCK = "scim:users";

export class ScimUsers {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  async list(
    actor: Actor,
    condition: Condition<UserField>,
    { offset, limit, withGroups }: { offset: number; limit: number; withGroups: boolean },
  ): Promise<{ total: number; page: User[] }> {
    const users = new ScimUserStore(this.#deps.store.db);
    const entries = limit === 0 ? [] : await users.list(actor.tenantId, condition, offset, limit);
    const groups = withGroups ? await users.groupsOf(actor.tenantId, entries.map(({ id }) => id)) : [];
    const byPerson = Map.groupBy(groups, (group) => group.principal_id);
    const page = entries.map((one) => present(one, byPerson.get(one.id) ?? []));
    return { total: await users.count(actor.tenantId, condition), page };
  }

  async read(actor: Actor, id: string): Promise<User> {
    return await presentCurrent(new ScimUserStore(this.#deps.store.db), actor.tenantId, id);
  }

  /** Provisions a person, who may have been here before. */
  create(call: ScimCall, json: unknown): Promise<User> {
    const wanted = readUser(json);
    const [id, { tenantId }] = [subjectOf(wanted), call.actor];
    return this.#write(call, async (tx) => {
      const users = new ScimUserStore(tx.db);
      const kind = await users.kindOf(tenantId, id);
      if (kind !== undefined && kind !== "human") throw new Fault("conflict", `The principal ${id} is not a person`);
      const { role, externalId, isActive } = wanted;
      const displayName = displayNameOf(wanted.userName, wanted.profile);
      if (kind === undefined) {
        const more = externalId === "" ? {} : { externalId };
        await this.#deps.dispatch(call, "principal.create", { id, kind: "human", displayName, role, ...more });
      }
      if (kind !== undefined || !isActive) {
        await this.#deps.dispatch(call, "principal.update", { id, displayName, role, disabled: !isActive });
      }
      const at = iso(this.#deps.clock.now());
      await users.add({ tenant_id: tenantId, id, ...columnsOf(wanted), version: 1, created_at: at, updated_at: at });
      return await presentCurrent(users, tenantId, id);
    });
  }

  /** Replaces what the provider says of a person. A role and an external id that it does not mention stay. */
  replace(call: ScimCall, id: string, json: unknown): Promise<User> {
    return this.#update(call, id, ({ roles, externalId }) => ({ roles, externalId, ...json as Json })); // an object, or nothing that can be read
  }

  patch(call: ScimCall, id: string, operations: readonly PatchOperation[]): Promise<User> {
    return this.#update(call, id, (user) => applyPatch(user, operations));
  }

  /** Disables the person, whom the provider no longer knows. What it has done stays. */
  remove(call: ScimCall, id: string): Promise<void> {
    return this.#write(call, async (tx) => {
      const users = new ScimUserStore(tx.db);
      assertIfMatch(call, versionOf(await require(users, call.actor.tenantId, id)), "user");
      await this.#deps.dispatch(call, "principal.disable", { id });
      await users.remove(call.actor.tenantId, id);
    });
  }

  #update(call: ScimCall, id: string, change: (user: User) => unknown): Promise<User> {
    const { tenantId } = call.actor;
    return this.#write(call, async (tx) => {
      const users = new ScimUserStore(tx.db);
      const entry = await require(users, tenantId, id);
      assertIfMatch(call, versionOf(entry), "user");
      const before = present(entry, []);
      const wanted = readUser(change(before));
      if (entry.external_id !== "" && wanted.externalId !== entry.external_id) {
        const detail = "it is the id of the person here, and cannot change: delete the user, and create another";
        throw Fault.forField("/externalId", "mutability", detail, "bad_request");
      }
      const role = wanted.role ?? DEFAULT_ROLE;
      const [displayName, known] = [wanted, readUser(before)].map((user) => displayNameOf(user.userName, user.profile));
      await this.#deps.dispatch(call, "principal.update", {
        id,
        // One that the person has changed here stays, until the provider has another one.
        ...displayName === known ? {} : { displayName },
        ...role === entry.role ? {} : { role },
        disabled: !wanted.isActive,
      });
      const set = { ...columnsOf(wanted), version: entry.version + 1, updated_at: iso(this.#deps.clock.now()) };
      await users.update(tenantId, id, set);
      return await presentCurrent(users, tenantId, id);
    });
  }

  #write<Result>({ actor }: ScimCall, work: (tx: Transaction<ScimTables>) => Promise<Result>): Promise<Result> {
    return this.#deps.store.write(async (tx) => {
      await tx.lock(actor.tenantId, LOCK);
      return await work(tx);
    }).catch(whenTaken((cause) => new Fault("conflict", "Another user has this userName or externalId", { cause })));
  }
}

async function require(users: ScimUserStore, tenantId: string, id: string): Promise<ScimUserEntry> {
  const entry = await users.find(tenantId, id);
  if (entry === undefined) throw notFound("user; the identity provider has provisioned none with this id");
  return entry;
}

function columnsOf({ userName, externalId, profile }: WantedUser): Omit<
  ScimUserRow,
  "tenant_id" | "id" | "version" | "created_at" | "updated_at"
> {
  return {
    user_name: userName,
    user_name_key: userName.toLowerCase(),
    external_id: externalId,
    email_key: profile.email?.toLowerCase() ?? "",
    profile_json: JSON.stringify(profile),
  };
}

/** Also changes with the principal, whose role and state the user has. */
function versionOf({ version, principal_version }: ScimUserEntry): string {
  return `W/"${version}.${principal_version}"`;
}

async function presentCurrent(users: ScimUserStore, tenantId: string, id: string): Promise<User> {
  return present(await require(users, tenantId, id), await users.groupsOf(tenantId, [id]));
}

function present(entry: ScimUserEntry, groups: Awaited<ReturnType<ScimUserStore["groupsOf"]>>): User {
  const { email, ...profile } = JSON.parse(entry.profile_json);
  const { updated_at, principal_updated_at } = entry;
  return {
    schemas: [USER_SCHEMA],
    id: entry.id,
    ...entry.external_id === "" ? {} : { externalId: entry.external_id },
    userName: entry.user_name,
    ...profile,
    ...email === undefined ? {} : { emails: [{ value: email, type: "work", primary: true }] },
    active: entry.is_disabled === 0,
    roles: [{ value: entry.role, primary: true }],
    groups: groups.map(({ id, name }) => ({ value: id, $ref: groupPath(id), display: name })),
    meta: {
      resourceType: "User",
      created: entry.created_at,
      lastModified: principal_updated_at > updated_at ? principal_updated_at : updated_at,
      location: userPath(entry.id),
      version: versionOf(entry),
    },
  };
}
