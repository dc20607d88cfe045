// Principals and their tokens: who there is in a tenant, and the credentials the gateway itself hands out.
import { type Actor, hasScope, isAtLeast, lowerOf, TENANT_ROLES, type TenantRole } from "@/core/actor.ts";
import { type Clock, iso } from "@/core/clock.ts";
import { principalStream } from "@/core/event.ts";
import { Fault } from "@/core/fault.ts";
import { newId, newSecret } from "@/core/id.ts";
import type { JobDraft } from "@/core/job.ts";
import type { Cursors, Page } from "@/core/page.ts";
import { checkVersion } from "@/core/patch.ts";
import { type Store, type Transaction, UniqueViolation } from "@/ports/store.ts";
import type { Acquaintances } from "./acquaintance.ts";
import { API_TOKEN_PREFIX, hashOf } from "./authenticator.ts";
import type { FamilyService, Turn } from "./family/service.ts";
import { isKept } from "./family/signer.ts";
import { presentPrincipal, presentToken } from "./presenter.ts";
import {
  type MeUpdate,
  type NewToken,
  NotificationPrefs,
  type Principal,
  type PrincipalCreate,
  type PrincipalList,
  type PrincipalUpdate,
  type Token,
  type TokenCreate,
} from "./schema.ts";
import { IdentityStore, type IdentityTables, newPrincipal, type PrincipalRow } from "./store.ts";
import { tellTokenEnded } from "./token_end.ts";

type Deps = {
  store: Store<IdentityTables>;
  clock: Clock;
  cursors: Cursors;
  families: FamilyService;
  acquaintances: Acquaintances;
  /** What other modules do once somebody is disabled, or others see another name or picture; promised with the change. */
  jobsOf: (change: "disabled" | "profile", tenantId: string, principalId: string) => readonly JobDraft[];
};
type Tx = Transaction<IdentityTables>;
type Subject = Pick<Actor, "tenantId" | "principalId" | "role" | "ownerId" | "kind">;

/** A stream that never has an event; held, it keeps two owners who go at once from leaving none. */
const OWNERS = "tenant:owners";
const TOKENS_MAX = 50;
const YEAR_SECONDS = 31_536_000;
/** How long access tokens of a family last, unless told otherwise and at most. */
const ACCESS_SECONDS = { usual: 900, most: 86_400 };

export class IdentityService {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  async read(actor: Actor, ref: string): Promise<Principal> {
    return presentPrincipal(await this.#known(actor, idOf(actor, ref)));
  }

  /** The principals of these ids that may act: neither they nor, of agents, their owners are absent or disabled. */
  async enabled(tenantId: string, ids: readonly string[]): Promise<Map<string, PrincipalRow>> {
    if (ids.length === 0) return new Map();
    const rows = await new IdentityStore(this.#deps.store.db).active(tenantId, ids);
    return new Map(rows.map((row) => [row.id, row]));
  }

  /** The same, less those whom the caller may not know of. */
  async enabledFor(who: Subject, ids: readonly string[]): Promise<Map<string, PrincipalRow>> {
    const rows = [...(await this.enabled(who.tenantId, ids)).values()];
    return new Map((await this.#deps.acquaintances.among(who, rows)).map((row) => [row.id, row]));
  }

  /** A principal as a subject of rights; throws `not_found` for one that may not act. */
  async subject(tenantId: string, id: string): Promise<Subject> {
    const row = (await this.enabled(tenantId, [id])).get(id);
    if (row === undefined) throw absent(id);
    return { tenantId, principalId: id, kind: row.kind, role: await this.#roleOf(row), ownerId: row.owner_id };
  }

  agentsOf(tenantId: string, ownerId: string): Promise<string[]> {
    return new IdentityStore(this.#deps.store.db).agentsOf(tenantId, ownerId);
  }

  async notificationPrefs(tenantId: string, id: string): Promise<ReturnType<typeof NotificationPrefs.parse>> {
    return NotificationPrefs.parse(JSON.parse((await this.#row(tenantId, id)).prefs_json));
  }

  async list(actor: Actor, { limit, cursor, ...filter }: PrincipalList): Promise<Page<Principal>> {
    const { cursors, store } = this.#deps;
    const bind = ["principal.list", actor.tenantId, actor.principalId, filter];
    const after = cursors.open(cursor, bind)?.[0]?.toString();
    const rows = await new IdentityStore(store.db).list(actor.tenantId, filter, after, limit + 1);
    return cursors.page(rows, limit, bind, (row) => [row.id], presentPrincipal);
  }

  /** Admins create anyone up to their own role; members create agents of their own. */
  create(actor: Actor, input: PrincipalCreate): Promise<Principal> {
    const isAdmin = isAtLeast(TENANT_ROLES, actor.role, "admin");
    const ownerId = input.kind === "agent" ? idOf(actor, input.ownerId ?? "me") : null;
    if (!isAdmin && ownerId !== actor.principalId) {
      throw new Fault("forbidden", "Members create only agents of their own; the rest needs the tenant role admin");
    }
    // Somebody may come later whose tokens name it: they would be an agent then, and whoever made it their owner.
    if (!isAdmin && input.id !== undefined) {
      throw new Fault("forbidden", "/id: only admins choose it; it is made up for agents of members");
    }
    if (!isAtLeast(TENANT_ROLES, actor.role, input.role)) {
      throw new Fault("forbidden", `A ${actor.role} cannot give the role ${input.role}`);
    }
    if (input.ownerId !== undefined && input.kind !== "agent") {
      throw new Fault("validation_failed", "/ownerId: only agents have an owner");
    }
    const now = iso(this.#deps.clock.now());
    const row = newPrincipal(now, {
      tenant_id: actor.tenantId,
      id: input.id ?? newId("prn"),
      kind: input.kind,
      handle: input.handle ?? null,
      display_name: input.displayName,
      role: input.role,
      role_set_at: setNow(this.#deps.clock),
      owner_id: ownerId,
      external_id: input.externalId ?? null,
    });
    return this.#write(async (tx) => {
      // Whose rights end, ends those of all its agents; through an agent in between they would live on.
      if (ownerId !== null && (await this.#row(actor.tenantId, ownerId)).kind === "agent") {
        throw new Fault("validation_failed", "/ownerId: an agent cannot own agents");
      }
      if (!await new IdentityStore(tx.db).addPrincipal(row)) {
        throw new Fault("conflict", `The principal ${row.id} exists`);
      }
      return presentPrincipal(row);
    });
  }

  updateMe(actor: Actor, { version, notificationPrefs, ...input }: MeUpdate): Promise<Principal> {
    return this.#change(actor.tenantId, actor.principalId, version, actor, (row) => ({
      ...(input.displayName === undefined ? {} : { display_name: input.displayName }),
      ...(input.avatarFileId === undefined ? {} : { avatar_file_id: input.avatarFileId }),
      ...(input.timezone === undefined ? {} : { timezone: input.timezone }),
      ...(input.locale === undefined ? {} : { locale: input.locale }),
      prefs_json: JSON.stringify({ ...JSON.parse(row.prefs_json), ...notificationPrefs }),
    }));
  }

  async update(actor: Actor, { id: ref, version, ...input }: PrincipalUpdate): Promise<Principal> {
    const id = idOf(actor, ref);
    return await this.#change(actor.tenantId, id, version, actor, async (row, tx) => {
      await this.#checkRank(tx, actor, row, input);
      return {
        ...(input.displayName === undefined ? {} : { display_name: input.displayName }),
        ...(input.handle === undefined ? {} : { handle: input.handle }),
        ...(input.role === undefined ? {} : { role: input.role, role_set_at: setNow(this.#deps.clock) }),
        ...(input.disabled === undefined ? {} : { is_disabled: input.disabled ? 1 : 0 }),
      };
    });
  }

  async createToken(actor: Actor, input: TokenCreate): Promise<NewToken> {
    const principalId = idOf(actor, input.principalId);
    const { refreshable, expiresInSeconds = refreshable ? ACCESS_SECONDS.usual : YEAR_SECONDS } = input;
    if (refreshable && expiresInSeconds > ACCESS_SECONDS.most) {
      throw new Fault("validation_failed", `/expiresInSeconds: ${ACCESS_SECONDS.most} at most for a refreshable token`);
    }
    const beyond = input.scopes.filter((scope) => !covers(actor, scope));
    if (beyond.length > 0) {
      throw new Fault("scope_missing", `The caller's own token lacks the scope ${beyond.join(", ")}`);
    }
    const made = await this.#deps.store.write(async (tx): Promise<NewToken | Turn> => {
      const identities = new IdentityStore(tx.db);
      // One after the other for each principal, so that all of them together are no more than there may be.
      await tx.reserve(actor.tenantId, principalStream(principalId), 0);
      const target = await this.#known(actor, principalId);
      this.#checkManages(actor, target);
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
        return await this.#deps.families.begin(tx, draft, { role, accessSeconds: expiresInSeconds });
      }
      const role = await this.#roleOf(target);
      if (!isAtLeast(TENANT_ROLES, actor.role, role)) {
        throw new Fault(
          "forbidden",
          `The token would have the role ${role}, the caller's has ${actor.role}; a refreshable one keeps to that`,
        );
      }
      const secret = `${API_TOKEN_PREFIX}${newSecret()}`;
      const row = { ...draft, hash: hashOf(secret), expires_at: iso(now + expiresInSeconds * 1000) };
      await identities.addToken(row);
      return { ...presentToken({ ...row, access_expires_at: null }), token: secret };
    });
    if (!("family" in made)) return made;
    const { token, family: { access_expires_at }, refreshToken } = made;
    return {
      ...presentToken({ ...token, access_expires_at }),
      token: await this.#deps.families.accessToken(made),
      refreshToken,
    };
  }

  async listTokens(
    actor: Actor,
    { principalId: ref, limit, cursor }: { principalId: string; limit: number; cursor?: string | undefined },
  ): Promise<Page<Token>> {
    const principalId = idOf(actor, ref);
    this.#checkManages(actor, await this.#known(actor, principalId));
    const bind = ["token.list", actor.tenantId, principalId];
    const after = this.#deps.cursors.open(cursor, bind)?.[0]?.toString();
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
      if (token === undefined) throw new Fault("not_found", "No such token");
      const target = await this.#row(actor.tenantId, token.principal_id);
      if (!manages(actor, target)) throw new Fault("not_found", "No such token");
      await identities.removeToken(actor.tenantId, id);
      await tellTokenEnded(tx, { tenantId: actor.tenantId, principalId: token.principal_id, tokenId: id }, actor);
    });
  }

  /** Ends the token of the call itself: an API token or a family is removed, another JWT's `jti` denied until it expires. */
  endSession(actor: Actor): Promise<void> {
    const { tokenId, tenantId, principalId, expiresAt } = actor;
    if (tokenId === undefined) {
      throw new Fault("conflict", "The token has no jti, so it cannot be revoked; it ends when it expires");
    }
    return this.#deps.store.write(async (tx) => {
      const identities = new IdentityStore(tx.db);
      if (isKept(tokenId)) await identities.removeToken(tenantId, tokenId);
      else await identities.revoke(tenantId, tokenId, iso(expiresAt ?? this.#deps.clock.now() + 366 * 86_400_000));
      await tellTokenEnded(tx, { tenantId, principalId, tokenId }, actor);
    });
  }

  /** When what the caller's token came of ends, unless it is ended before: a family lives on by its refresh tokens. */
  async endOf({ tenantId, tokenId, expiresAt }: Actor): Promise<number | undefined> {
    if (tokenId === undefined || !isKept(tokenId)) return expiresAt;
    const family = await new IdentityStore(this.#deps.store.db).family(tenantId, tokenId);
    return family === undefined ? expiresAt : Date.parse(family.expires_at);
  }

  /** Forgets revocations and tokens whose time is over. */
  async housekeep(): Promise<void> {
    const now = iso(this.#deps.clock.now());
    await this.#deps.store.write((tx) => new IdentityStore(tx.db).forgetExpired(now));
  }

  async #row(tenantId: string, id: string): Promise<PrincipalRow> {
    const row = await new IdentityStore(this.#deps.store.db).principal(tenantId, id);
    if (row === undefined) throw absent(id);
    return row;
  }

  /** The same for a caller: whom it may not know of is absent as well. */
  async #known(actor: Actor, id: string): Promise<PrincipalRow> {
    const row = await this.#deps.acquaintances.find(actor, id);
    if (row === undefined) throw absent(id);
    return row;
  }

  /** What a principal may be at most: an agent no more than its owner. */
  async #roleOf({ tenant_id, role, owner_id }: PrincipalRow): Promise<TenantRole> {
    return owner_id === null ? role : lowerOf(TENANT_ROLES, role, (await this.#row(tenant_id, owner_id)).role);
  }

  #change(
    tenantId: string,
    id: string,
    version: number | undefined,
    actor: Actor,
    set: (row: PrincipalRow, tx: Tx) => Partial<PrincipalRow> | Promise<Partial<PrincipalRow>>,
  ): Promise<Principal> {
    return this.#write(async (tx) => {
      // Changes of one principal take turns: what is read next is what this one builds on.
      await tx.reserve(tenantId, principalStream(id), 0);
      const before = await this.#row(tenantId, id);
      checkVersion("principal", before.version, version);
      const wanted = await set(before, tx);
      // What is so already stays so, and nobody is told: to disable somebody twice is to do it once.
      if (isSo(before, wanted)) return presentPrincipal(before);
      const changed = {
        ...wanted,
        version: before.version + 1,
        updated_at: iso(this.#deps.clock.now()),
      };
      await new IdentityStore(tx.db).updatePrincipal(tenantId, id, changed);
      const after = { ...before, ...changed };
      const isEnding = before.is_disabled === 0 && after.is_disabled === 1;
      await tx.emit({
        tenantId,
        stream: principalStream(id),
        type: isEnding ? "principal.disabled" : "principal.updated",
        actor,
        data: isEnding ? {} : { principal: presentPrincipal(after) },
        ...(isEnding ? { effect: { kind: "disconnect", reason: "principal disabled" } as const } : {}),
      });
      if (isEnding) await tx.enqueue(...this.#deps.jobsOf("disabled", tenantId, id));
      if (looksNew(before, after)) await tx.enqueue(...this.#deps.jobsOf("profile", tenantId, id));
      tx.signal({ kind: "principal", tenantId, id });
      return presentPrincipal(after);
    });
  }

  /** Nobody changes those above or beside them (owners may), nobody grants above their own role, one owner stays. */
  async #checkRank(tx: Tx, actor: Actor, target: PrincipalRow, to: Omit<PrincipalUpdate, "id">): Promise<void> {
    const { role, disabled } = to;
    const isOwner = actor.role === "owner";
    if (!isOwner && target.id !== actor.principalId && isAtLeast(TENANT_ROLES, target.role, actor.role)) {
      throw new Fault("forbidden", `A ${actor.role} cannot change a ${target.role}`);
    }
    if (role !== undefined && !isAtLeast(TENANT_ROLES, actor.role, role)) {
      throw new Fault("forbidden", `A ${actor.role} cannot give the role ${role}`);
    }
    const losesOwner = target.role === "owner" && (disabled === true || (role !== undefined && role !== "owner"));
    if (!losesOwner) return;
    await tx.reserve(target.tenant_id, OWNERS, 0);
    if (await new IdentityStore(tx.db).ownersBesides(target.tenant_id, target.id) === 0) {
      throw new Fault("forbidden", "The last owner of the tenant cannot go");
    }
  }

  #checkManages(actor: Actor, target: PrincipalRow): void {
    if (!manages(actor, target)) {
      throw new Fault("forbidden", "Tokens of others need the tenant role admin, and a role not below theirs");
    }
  }

  async #write<Result>(work: (tx: Tx) => Promise<Result>): Promise<Result> {
    try {
      return await this.#deps.store.write(work);
    } catch (error) {
      if (error instanceof UniqueViolation) throw new Fault("handle_taken", "The handle is taken", { cause: error });
      throw error;
    }
  }
}

function absent(id: string): Fault {
  return new Fault("not_found", `No principal ${id}`);
}

/** `me` or an id, as an id. */
export function idOf(actor: Actor, ref: string): string {
  return ref === "me" ? actor.principalId : ref;
}

/** When a role set here counts as set: a token of this very moment does not set it again. */
function setNow(clock: Clock): string {
  return iso(clock.now() + 1);
}

/** Whether a row has these values already. */
function isSo(row: PrincipalRow, set: Partial<PrincipalRow>): boolean {
  return Object.entries(set).every(([column, value]) => row[column as keyof PrincipalRow] === value); // a column of the one is one of the other
}

/** Whether somebody is called or looks different now. */
function looksNew(before: PrincipalRow, after: PrincipalRow): boolean {
  return before.display_name !== after.display_name || before.avatar_file_id !== after.avatar_file_id;
}

function manages(actor: Actor, target: PrincipalRow): boolean {
  if (target.id === actor.principalId || target.owner_id === actor.principalId) return true;
  return isAtLeast(TENANT_ROLES, actor.role, "admin") && isAtLeast(TENANT_ROLES, actor.role, target.role);
}

/** Whether the caller's own token covers a scope it wants to give away, wildcards included. */
function covers(actor: Actor, scope: string): boolean {
  if (actor.scopes === undefined || actor.scopes.has("*")) return true;
  return scope === "*" ? false : hasScope(actor, scope);
}
