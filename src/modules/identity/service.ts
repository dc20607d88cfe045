// Principals of a tenant, and the tokens that the gateway issues.
import {
  type Actor,
  isAdmin,
  isAtLeast,
  isGuest,
  lowerOf,
  outranks,
  TENANT_ROLES,
  type TenantRole,
} from "@/core/actor.ts";
import { type Clock, DAY_MS, DAY_SECONDS, iso } from "@/core/time/clock.ts";
import { hashText } from "@/core/crypto.ts";
import { principalStream } from "@/core/event/event.ts";
import { Fault, invalidField, notFound } from "@/core/fault.ts";
import { newId, newSecret } from "@/core/id.ts";
import type { JobDraft } from "@/core/job.ts";
import type { PrincipalChange } from "@/core/module.ts";
import type { Cursors, Page } from "@/core/page.ts";
import { assertVersion } from "@/core/patch.ts";
import { type AnyDatabase, type AnyTransaction, type Store, type Transaction, whenTaken } from "@/ports/store.ts";
import type { PrincipalVisibility } from "./principal_visibility.ts";
import { API_TOKEN_PREFIX } from "./authenticator.ts";
import type { RefreshTokenService, Rotation } from "./refresh_tokens/service.ts";
import { isStoredTokenId } from "./refresh_tokens/signer.ts";
import { presentPrincipal, presentToken } from "./presenter.ts";
import { addNew, assertHandleFree, handleTaken } from "./handle.ts";
import type {
  MeUpdate,
  NewToken,
  Preferences,
  Principal,
  PrincipalCreate,
  PrincipalList,
  PrincipalUpdate,
  Token,
  TokenCreate,
} from "./schema.ts";
import { changesOf, isUnchanged, ownColumns, publishChange, roleSetAt, updatedColumns } from "./principal_change.ts";
import { nameSetByApi, preferencesOf } from "./principal_settings.ts";
import {
  assertCanChange,
  assertCanManage,
  assertMayOwnAgent,
  canManage,
  coversScope,
  principalNotFound,
  resolvePrincipalId,
  TOKENS_MAX,
} from "./principal_rules.ts";
import { lockCredential, principalLock, publishTokenRevoked, tokenLock } from "./credential_guard.ts";
import { IdentityStore, type IdentityTables, newPrincipal, type PrincipalRow } from "./store.ts";

type Deps = {
  store: Store<IdentityTables>;
  clock: Clock;
  cursors: Cursors;
  refreshTokens: RefreshTokenService;
  visibility: PrincipalVisibility;
  agentsPerOwner: number;
  /** Locks an image of the actor that becomes its picture; throws `validation_failed` for any other file. */
  lockPicture: (tx: AnyTransaction, actor: Actor, fileId: string) => Promise<void>;
  /** Jobs of other modules, enqueued with the change. */
  jobsOf: (change: PrincipalChange, tenantId: string, id: string) => readonly JobDraft[];
};
type Tx = Transaction<IdentityTables>;
type Subject = Pick<Actor, "tenantId" | "principalId" | "role" | "ownerId" | "kind">;

const YEAR_SECONDS = 31_536_000;
/** Lifetime of access tokens of a family. */
const ACCESS_SECONDS = { default: 900, max: DAY_SECONDS };

export class IdentityService {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  async read(actor: Actor, ref: string): Promise<Principal> {
    return this.#present(await this.#requireVisible(actor, resolvePrincipalId(actor, ref)));
  }

  /** Those of these principals that exist and are enabled, agents only with an enabled owner; by id. */
  async findEnabled(tenantId: string, ids: readonly string[], db?: AnyDatabase): Promise<Map<string, PrincipalRow>> {
    if (ids.length === 0) return new Map();
    const rows = await new IdentityStore(db ?? this.#deps.store.db).findEnabled(tenantId, ids);
    return new Map(rows.map((row) => [row.id, row]));
  }

  /** The same, without those that the viewer cannot see. */
  async findEnabledFor(viewer: Subject, ids: readonly string[], db?: AnyDatabase): Promise<Map<string, PrincipalRow>> {
    const rows = [...(await this.findEnabled(viewer.tenantId, ids, db)).values()];
    return new Map((await this.#deps.visibility.filterNamed(viewer, ids, rows, db)).map((row) => [row.id, row]));
  }

  /** One of these; throws `not_found` if there is none. */
  async requireEnabledFor(viewer: Subject, id: string, db?: AnyDatabase): Promise<PrincipalRow> {
    const row = (await this.findEnabledFor(viewer, [id], db)).get(id);
    if (row === undefined) throw principalNotFound(id);
    return row;
  }

  /** Throws `validation_failed` unless the viewer can see all of these principals, a list at `pointer` of its input. */
  assertVisible(...of: Parameters<PrincipalVisibility["assertAllVisible"]>): Promise<void> {
    return this.#deps.visibility.assertAllVisible(...of);
  }

  /** A principal as a subject of rights; throws `not_found` for one that may not act. */
  async subject(tenantId: string, id: string, db: AnyDatabase = this.#deps.store.db): Promise<Subject> {
    const row = (await this.findEnabled(tenantId, [id], db)).get(id);
    if (row === undefined) throw principalNotFound(id);
    return {
      tenantId,
      principalId: id,
      kind: row.kind,
      role: await this.#effectiveRole(db, row),
      ownerId: row.owner_id,
    };
  }

  agentsOf(tenantId: string, ownerId: string, db: AnyDatabase = this.#deps.store.db): Promise<string[]> {
    return new IdentityStore(db).agentsOf(tenantId, ownerId);
  }

  async preferences({ tenantId, principalId, ownerId }: Actor): Promise<Preferences> {
    const row = await this.#requireRow(tenantId, principalId);
    return preferencesOf(row, ownerId === null ? row : await this.#requireRow(tenantId, ownerId));
  }

  /** A page of the tenant's principals, or all with the given ids, which guests may request as well. */
  async list(actor: Actor, { limit, cursor, ids, ...filter }: PrincipalList): Promise<Page<Principal>> {
    const { cursors, store, visibility } = this.#deps;
    if (ids !== undefined) {
      const other = Object.entries({ cursor, ...filter }).find(([, value]) => value !== undefined);
      if (other !== undefined) throw Fault.forField(`/${other[0]}`, "one_of", "cannot be combined with ids");
      const found = await new IdentityStore(store.db).principals(actor.tenantId, ids);
      const rows = await visibility.filterNamed(actor, ids, found);
      return { items: rows.map((row) => this.#present(row)), nextCursor: null, hasMore: false };
    }
    if (isGuest(actor)) {
      throw new Fault("forbidden", "Guests of the tenant cannot list principals; they can get them by id");
    }
    const bind = ["principal.list", actor.tenantId, actor.principalId, filter];
    const after = cursors.decodeId(cursor, bind);
    const rows = await new IdentityStore(store.db).list(actor.tenantId, filter, after, limit + 1);
    return cursors.page(rows, limit, bind, (row) => [row.id], (row) => this.#present(row));
  }

  /** Admins create anyone up to their own role; members create agents of their own. */
  create(actor: Actor, input: PrincipalCreate): Promise<Principal> {
    const ownerId = input.kind === "agent" ? resolvePrincipalId(actor, input.ownerId ?? "me") : null;
    if (!isAdmin(actor) && ownerId !== actor.principalId) {
      throw new Fault("forbidden", "Members can only create agents of their own; others require the tenant role admin");
    }
    // A person whose tokens use this id later would become an agent, owned by its creator.
    if (!isAdmin(actor) && input.id !== undefined) {
      throw new Fault("forbidden", "/id: only admins can choose it; ids of agents created by members are generated");
    }
    // The caller's own agent never has more rights than the caller.
    const isOwn = ownerId === actor.principalId;
    if (!(isOwn ? isAtLeast : outranks)(TENANT_ROLES, actor.role, input.role)) {
      throw new Fault("forbidden", `The role ${actor.role} cannot grant the role ${input.role}`);
    }
    if (input.ownerId !== undefined && input.kind !== "agent") {
      throw invalidField("/ownerId", "only agents have an owner");
    }
    const now = iso(this.#deps.clock.now());
    const row = newPrincipal(now, {
      tenant_id: actor.tenantId,
      id: input.id ?? newId("prn"),
      kind: input.kind,
      handle: input.handle ?? null,
      display_name: input.displayName,
      role: input.role,
      role_set_at: roleSetAt(this.#deps.clock),
      owner_id: ownerId,
      external_id: input.externalId ?? null,
      ...nameSetByApi({ prefs_json: "{}" }, input.displayName),
    });
    return this.#write(async (tx) => {
      if (ownerId !== null) await assertMayOwnAgent(tx, actor.tenantId, ownerId, this.#deps.agentsPerOwner);
      return this.#present(await addNew(tx, row));
    });
  }

  updateMe(actor: Actor, { version, ...input }: MeUpdate): Promise<Principal> {
    if (input.handle !== undefined && isGuest(actor)) {
      throw new Fault("forbidden", "/handle: handles of guests of the tenant are set by admins");
    }
    const { tenantId, principalId } = actor;
    const now = this.#deps.clock.now();
    return this.#deps.store.write(async (tx) => {
      if (typeof input.avatarFileId === "string") await this.#deps.lockPicture(tx, actor, input.avatarFileId);
      const change = (before: PrincipalRow) => ownColumns(before, actor, input, now);
      return await this.#updatePrincipal(tenantId, principalId, version, actor, change);
    });
  }

  async update(actor: Actor, { id: ref, version, ...input }: PrincipalUpdate): Promise<Principal> {
    const id = resolvePrincipalId(actor, ref);
    return await this.#updatePrincipal(actor.tenantId, id, version, actor, async (row, tx) => {
      await assertCanChange(tx, actor, row, input);
      if (input.disabled === false && row.is_disabled === 1 && row.owner_id !== null) {
        await assertMayOwnAgent(tx, row.tenant_id, row.owner_id, this.#deps.agentsPerOwner);
      }
      return {
        ...updatedColumns(row, input),
        ...(input.role === undefined ? {} : { role: input.role, role_set_at: roleSetAt(this.#deps.clock) }),
      };
    }, input.disabled === true || input.role !== undefined);
  }

  /** Changes an agent for its owner or an admin. */
  updateAgent(actor: Actor, id: string, set: Parameters<typeof updatedColumns>[1]): Promise<Principal> {
    return this.#updatePrincipal(actor.tenantId, id, undefined, actor, (row) => {
      if (row.kind !== "agent" || !canManage(actor, row)) throw principalNotFound(id);
      return updatedColumns(row, set);
    }, set.disabled === true);
  }

  async createToken(actor: Actor, input: TokenCreate): Promise<NewToken> {
    const principalId = resolvePrincipalId(actor, input.principalId);
    const { refreshable, expiresInSeconds = refreshable ? ACCESS_SECONDS.default : YEAR_SECONDS } = input;
    if (refreshable && expiresInSeconds > ACCESS_SECONDS.max) {
      throw invalidField("/expiresInSeconds", `at most ${ACCESS_SECONDS.max} for a refreshable token`);
    }
    const missing = input.scopes.filter((scope) => !coversScope(actor, scope));
    if (missing.length > 0) {
      throw new Fault("scope_missing", `The caller's token lacks the scope ${missing.join(", ")}`);
    }
    const created = await this.#deps.store.write(async (tx): Promise<NewToken | Rotation> => {
      const identities = new IdentityStore(tx.db);
      // Locks the principal: concurrent creations must not exceed the limit together.
      await tx.lock(actor.tenantId, principalStream(principalId));
      const target = await this.#requireVisible(actor, principalId, tx.db);
      assertCanManage(actor, target);
      const now = this.#deps.clock.now();
      const existing = await identities.tokens(actor.tenantId, principalId, iso(now), undefined, TOKENS_MAX);
      if (existing.length >= TOKENS_MAX) {
        throw new Fault("limit_reached", `A principal has at most ${TOKENS_MAX} tokens`);
      }
      const draft = {
        tenant_id: actor.tenantId,
        id: newId("tok"),
        principal_id: principalId,
        name: input.name,
        scopes: input.scopes.join(" "),
        created_by: actor.principalId,
        created_at: iso(now),
        last_used_at: null,
      };
      if (refreshable) {
        const role = lowerOf(TENANT_ROLES, actor.role, target.role);
        return await this.#deps.refreshTokens.createFamily(tx, draft, { role, accessSeconds: expiresInSeconds });
      }
      const role = await this.#effectiveRole(tx.db, target);
      if (!isAtLeast(TENANT_ROLES, actor.role, role)) {
        throw new Fault(
          "forbidden",
          `The token would have the role ${role}; a refreshable token cannot exceed the caller's role ${actor.role}`,
        );
      }
      const secret = `${API_TOKEN_PREFIX}${newSecret()}`;
      const row = { ...draft, hash: hashText(secret), expires_at: iso(now + expiresInSeconds * 1000) };
      await identities.addToken(row);
      return { ...presentToken({ ...row, access_expires_at: null }), token: secret };
    });
    if (!("family" in created)) return created;
    const { token, family: { access_expires_at }, refreshToken } = created;
    return {
      ...presentToken({ ...token, access_expires_at }),
      token: await this.#deps.refreshTokens.accessToken(created),
      refreshToken,
    };
  }

  async listTokens(
    actor: Actor,
    { principalId: ref, limit, cursor }: { principalId: string; limit: number; cursor?: string | undefined },
  ): Promise<Page<Token>> {
    const principalId = resolvePrincipalId(actor, ref);
    assertCanManage(actor, await this.#requireVisible(actor, principalId));
    const bind = ["token.list", actor.tenantId, principalId];
    const after = this.#deps.cursors.decodeId(cursor, bind);
    const rows = await new IdentityStore(this.#deps.store.db).tokens(
      actor.tenantId,
      principalId,
      iso(this.#deps.clock.now()),
      after,
      limit + 1,
    );
    return this.#deps.cursors.page(rows, limit, bind, (row) => [row.id], presentToken);
  }

  revokeToken(actor: Actor, id: string): Promise<void> {
    return this.#deps.store.write(async (tx) => {
      const identities = new IdentityStore(tx.db);
      const token = await identities.token(actor.tenantId, id);
      if (token === undefined) throw notFound("token");
      const target = await this.#requireRow(actor.tenantId, token.principal_id, tx.db);
      if (!canManage(actor, target)) throw notFound("token");
      await lockCredential(tx, this.#deps.store, tokenLock(actor.tenantId, id));
      await identities.removeToken(actor.tenantId, id);
      await publishTokenRevoked(tx, { tenantId: actor.tenantId, principalId: token.principal_id, tokenId: id }, actor);
      await tx.enqueue(...this.#deps.jobsOf("token_ended", actor.tenantId, id));
    });
  }

  /** Revokes the token of the call: an API token or a family is deleted, the `jti` of another JWT is denied until it expires. */
  endSession(actor: Actor): Promise<void> {
    const { tokenId, tenantId, principalId, expiresAt } = actor;
    if (tokenId === undefined) {
      throw new Fault("conflict", "The token has no jti and cannot be revoked; it is valid until it expires");
    }
    return this.#deps.store.write(async (tx) => {
      const identities = new IdentityStore(tx.db);
      await lockCredential(tx, this.#deps.store, tokenLock(tenantId, tokenId));
      if (isStoredTokenId(tokenId)) await identities.removeToken(tenantId, tokenId);
      else await identities.revoke(tenantId, tokenId, iso(expiresAt ?? this.#deps.clock.now() + 366 * DAY_MS));
      await publishTokenRevoked(tx, { tenantId, principalId, tokenId }, actor);
      await tx.enqueue(...this.#deps.jobsOf("token_ended", tenantId, tokenId));
    });
  }

  /** When the session of the caller's token ends: for a family, the expiry of its refresh token. */
  async sessionExpiresAt({ tenantId, tokenId, expiresAt }: Actor): Promise<number | undefined> {
    if (tokenId === undefined || !isStoredTokenId(tokenId)) return expiresAt;
    const family = await new IdentityStore(this.#deps.store.db).family(tenantId, tokenId);
    return family === undefined ? expiresAt : Date.parse(family.expires_at);
  }

  /** Deletes expired tokens and revocations. */
  async purgeExpired(): Promise<void> {
    const now = iso(this.#deps.clock.now());
    await this.#deps.store.write((tx) => new IdentityStore(tx.db).deleteExpired(now));
  }

  #present(row: PrincipalRow): Principal {
    return presentPrincipal(row, this.#deps.clock.now());
  }

  async #requireRow(tenantId: string, id: string, db: AnyDatabase = this.#deps.store.db): Promise<PrincipalRow> {
    const row = await new IdentityStore(db).principal(tenantId, id);
    if (row === undefined) throw principalNotFound(id);
    return row;
  }

  /** The same, but a principal that the caller cannot see does not exist for it. */
  async #requireVisible(actor: Actor, id: string, db?: AnyDatabase): Promise<PrincipalRow> {
    const row = await this.#deps.visibility.find(actor, id, db);
    if (row === undefined) throw principalNotFound(id);
    return row;
  }

  /** The role of a principal; an agent has at most that of its owner. */
  async #effectiveRole(db: AnyDatabase, { tenant_id, role, owner_id }: PrincipalRow): Promise<TenantRole> {
    return owner_id === null
      ? role
      : lowerOf(TENANT_ROLES, role, (await this.#requireRow(tenant_id, owner_id, db)).role);
  }

  #updatePrincipal(
    tenantId: string,
    id: string,
    version: number | undefined,
    actor: Actor,
    set: (row: PrincipalRow, tx: Tx) => Partial<PrincipalRow> | Promise<Partial<PrincipalRow>>,
    endsRights = false,
  ): Promise<Principal> {
    return this.#write(async (tx) => {
      if (endsRights) await lockCredential(tx, this.#deps.store, principalLock(tenantId, id));
      // Changes of one principal are serialized: what is read next stays the newest version until the commit.
      await tx.lock(tenantId, principalStream(id));
      const before = await this.#requireVisible(actor, id, tx.db);
      assertVersion("principal", before.version, version);
      const values = await set(before, tx);
      // Without a difference nothing is published: disabling is idempotent.
      if (isUnchanged(before, values)) return this.#present(before);
      const { handle = null } = values;
      if (handle !== null && handle !== before.handle) await assertHandleFree(tx, before, handle);
      const changed = { ...values, version: before.version + 1, updated_at: iso(this.#deps.clock.now()) };
      await new IdentityStore(tx.db).updatePrincipal(tenantId, id, changed);
      const after = { ...before, ...changed };
      await publishChange(tx, { before, after }, this.#deps.clock.now(), actor);
      for (const change of changesOf(before, after)) await tx.enqueue(...this.#deps.jobsOf(change, tenantId, id));
      return this.#present(after);
    });
  }

  #write<Result>(work: (tx: Tx) => Promise<Result>): Promise<Result> {
    return this.#deps.store.write(work).catch(whenTaken(handleTaken));
  }
}
