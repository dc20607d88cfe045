// Invitations: codes that create a principal and a token for the people who have them. Only hashes of codes are stored.
import { type Actor, outranks, TENANT_ROLES } from "@/core/actor.ts";
import { type Clock, iso, MINUTE_MS } from "@/core/time/clock.ts";
import { hashText } from "@/core/crypto.ts";
import { Fault, notFound } from "@/core/fault.ts";
import { newId, newSecret } from "@/core/id.ts";
import type { Client } from "@/core/operation.ts";
import type { Cursors, Page } from "@/core/page.ts";
import type { AuditLog } from "@/modules/audit/mod.ts";
import type { Admission, IdentityService, IdentityTables } from "@/modules/identity/mod.ts";
import type { Store } from "@/ports/store.ts";
import type { Invitation, InvitationCreate, Join, Joined, NewInvitation } from "./schema.ts";
import { type InvitationRow, InvitationStore, type InvitationTables } from "./store.ts";

type Deps = {
  store: Store<InvitationTables & IdentityTables>;
  clock: Clock;
  cursors: Cursors;
  identity: IdentityService;
  admission: Admission;
  audit: AuditLog;
};

/** What is exchanged for a session: a code, and what the browser's cookie has. */
type Given = Join & { cookie: string | undefined };
/** A code in two halves, which only the browser that signed in has both of: an address can be given to anybody. */
export type SignInCode = { code: string; cookie: string };
/** Whose session a code starts. */
type SignedIn = Pick<Actor, "tenantId" | "principalId" | "role"> & { sessionMs?: number | undefined };

const INVITATIONS_MAX = 200;
const OWNER_CODE_MS = 15 * MINUTE_MS;
/** The page that gets it exchanges it when it is loaded. */
const SIGN_IN_CODE_MS = MINUTE_MS;
/** The first owner of a development gateway. */
const OWNER = { tenantId: "default", id: "owner", name: "Owner" };

export class InvitationService {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  async create(actor: Actor, { name, role, uses, expiresInSeconds }: InvitationCreate): Promise<NewInvitation> {
    if (!outranks(TENANT_ROLES, actor.role, role)) {
      throw new Fault("forbidden", `The role ${actor.role} cannot grant the role ${role}`);
    }
    const { store, clock } = this.#deps;
    const code = newSecret();
    const now = clock.now();
    const row: InvitationRow = {
      tenant_id: actor.tenantId,
      id: newId("inv"),
      hash: hashText(code),
      name,
      role,
      principal_id: null,
      uses_left: uses,
      created_by: actor.principalId,
      created_at: iso(now),
      expires_at: iso(now + expiresInSeconds * 1000),
      session_ms: null,
    };
    await store.write(async (tx) => {
      const invitations = new InvitationStore(tx.db);
      // A stream without events: its lock serializes creations, which must not exceed the limit together.
      await tx.lock(actor.tenantId, "invitations");
      const existing = await invitations.list(actor.tenantId, iso(now), "", INVITATIONS_MAX);
      if (existing.length >= INVITATIONS_MAX) {
        throw new Fault("limit_reached", `A tenant has at most ${INVITATIONS_MAX} invitations`);
      }
      await invitations.add(row);
    });
    return { ...present(row), code, path: `#invite=${code}` };
  }

  async list(
    actor: Actor,
    { limit, cursor }: { limit: number; cursor?: string | undefined },
  ): Promise<Page<Invitation>> {
    const { store, clock, cursors } = this.#deps;
    const bind = ["invitation.list", actor.tenantId];
    const after = cursors.decodeId(cursor, bind) ?? "";
    const rows = await new InvitationStore(store.db).list(actor.tenantId, iso(clock.now()), after, limit + 1);
    return cursors.page(rows, limit, bind, (row) => [row.id], present);
  }

  async revoke(actor: Actor, id: string): Promise<void> {
    const isRemoved = await this.#deps.store.write((tx) => new InvitationStore(tx.db).remove(actor.tenantId, id));
    if (!isRemoved) throw notFound("invitation");
  }

  /** Starts a session with a code; `assertOrigin` throws unless the tenant allows the request's origin. */
  async join(
    { code, displayName, cookie }: Given,
    client: Client,
    assertOrigin: (tenantId: string) => void,
  ): Promise<Joined> {
    const { store, clock, identity, admission, audit } = this.#deps;
    const known = await this.#find({ code, cookie });
    assertOrigin(known.tenant_id);
    if (known.principal_id === null && displayName === undefined) {
      throw Fault.forField("/displayName", "required", "expected the name of the new principal");
    }
    return await store.write(async (tx) => {
      const row = await new InvitationStore(tx.db).use(known.hash, iso(clock.now()));
      if (row === undefined) throw invalidCode();
      if (row.created_by !== null) {
        const inviter = (await identity.findEnabled(row.tenant_id, [row.created_by], tx.db)).get(row.created_by);
        if (inviter === undefined || !outranks(TENANT_ROLES, inviter.role, row.role)) throw invalidCode();
      }
      const joined = await admission.admit(tx, {
        tenantId: row.tenant_id,
        principalId: row.principal_id,
        role: row.role,
        displayName: displayName ?? OWNER.name,
        sessionMs: row.session_ms ?? undefined,
      });
      const { id: tokenId, principal } = joined;
      const session = { tenantId: row.tenant_id, principalId: principal.id, tokenId };
      await audit.recordOther(tx, { operation: "sign_in", client, ...session });
      return joined;
    });
  }

  /** A code that signs in the first owner once. Earlier ones end. */
  async createOwnerCode(): Promise<string> {
    const code = newSecret(16);
    await this.#deps.store.write(async (tx) => {
      const invitations = new InvitationStore(tx.db);
      await invitations.removeSignIns(OWNER.tenantId, OWNER.id);
      const owner = { tenantId: OWNER.tenantId, principalId: OWNER.id, role: "owner" } as const;
      await invitations.add(this.#signIn(code, owner, OWNER_CODE_MS));
    });
    return code;
  }

  /** A code that starts one session of a principal that exists, at once. */
  async createSignInCode(who: SignedIn): Promise<SignInCode> {
    const halves = { code: newSecret(), cookie: newSecret() };
    const row = this.#signIn(wholeOf(halves), who, SIGN_IN_CODE_MS);
    await this.#deps.store.write((tx) => new InvitationStore(tx.db).add(row));
    return halves;
  }

  /** What a code is of, alone or with the cookie. */
  async #find({ code, cookie }: Pick<Given, "code" | "cookie">): Promise<InvitationRow> {
    const invitations = new InvitationStore(this.#deps.store.db);
    const known = await invitations.byHash(hashText(code)) ??
      (cookie === undefined ? undefined : await invitations.byHash(hashText(wholeOf({ code, cookie }))));
    if (known === undefined) throw invalidCode();
    return known;
  }

  #signIn(code: string, { tenantId, principalId, role, sessionMs }: SignedIn, validMs: number): InvitationRow {
    const now = this.#deps.clock.now();
    return {
      tenant_id: tenantId,
      id: newId("inv"),
      hash: hashText(code),
      name: "Sign-in address",
      role,
      principal_id: principalId,
      uses_left: 1,
      created_by: null,
      created_at: iso(now),
      expires_at: iso(now + validMs),
      session_ms: sessionMs ?? null,
    };
  }

  async purge(): Promise<void> {
    const now = iso(this.#deps.clock.now());
    await this.#deps.store.write((tx) => new InvitationStore(tx.db).removeUnusable(now));
  }
}

function present({ id, name, role, uses_left, created_by, created_at, expires_at }: InvitationRow): Invitation {
  return {
    id,
    name,
    role,
    usesLeft: uses_left,
    createdBy: created_by ?? "",
    createdAt: created_at,
    expiresAt: expires_at,
  };
}

function wholeOf({ code, cookie }: SignInCode): string {
  return `${code}.${cookie}`;
}

function invalidCode(): Fault {
  return new Fault("unauthenticated", "The code is unknown, expired or already used");
}
