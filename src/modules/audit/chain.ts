// The chain of a tenant's entries: each is signed with the signature of the one before it, so none is changed, added or removed
// unnoticed by who can write the database but has no secret of the gateway. Removing the newest entries leaves a chain that fits,
// only a shorter one: therefore heads are logged.
//
// Signed is not what identifies persons, but a salted digest of it: once erased, with the salt, it cannot be guessed from the
// digest, and the chain still fits.
import { hashText, Signer } from "@/core/crypto.ts";
import { createYielder } from "@/core/caller.ts";
import { newSecret } from "@/core/id.ts";
import { paginate } from "@/core/page.ts";
import type { AnyTransaction, Store } from "@/ports/store.ts";
import type { AuditVerification } from "./schema.ts";
import { type AuditRow, AuditStore, type AuditTables, type CutRow } from "./store.ts";

/** The stream whose lock lets one entry of a tenant follow another, on all nodes. */
const LOCK = "audit";
const PAGE = 100;
export const CUT_AT_ONCE = 1000;
const SALT_BYTES = 12;

type Seal = "seq" | "hash" | "who_salt" | "who_digest" | "what_salt" | "what_digest";
/** An entry that is not in the chain yet. */
export type NewEntry = Omit<AuditRow, Seal>;

export class AuditChain {
  readonly #store: Store<AuditTables>;
  readonly #signer: Signer;

  constructor(store: Store<AuditTables>, secrets: readonly Uint8Array[]) {
    this.#store = store;
    this.#signer = new Signer(secrets, "audit");
  }

  /** Adds an entry to the end. The lock of a chain is the last one that a call takes. */
  async append(tx: AnyTransaction, entry: NewEntry): Promise<void> {
    await tx.lock(entry.tenant_id, LOCK);
    const { seq, hash } = await new AuditStore(tx.db).head(entry.tenant_id) ?? { seq: 0, hash: "" };
    const [who_salt, what_salt] = [newSecret(SALT_BYTES), newSecret(SALT_BYTES)];
    const unsigned = {
      ...entry,
      seq: seq + 1,
      who_salt,
      who_digest: digestOf(who_salt, who(entry)),
      what_salt,
      what_digest: digestOf(what_salt, what(entry)),
    };
    await tx.insertMany("audit_entry", [{ ...unsigned, hash: this.#signer.sign(linkText(unsigned, hash)) }]);
  }

  /** Deletes the oldest entries of a tenant, as far as they are from before `at`; returns how many; `CUT_AT_ONCE`: there may be others. */
  cut(tenantId: string, at: string): Promise<number> {
    return this.#store.write(async (tx) => {
      await tx.lock(tenantId, LOCK);
      const entries = new AuditStore(tx.db);
      const oldest = await entries.after(tenantId, 0, CUT_AT_ONCE);
      const firstKept = oldest.findIndex((row) => row.at >= at);
      const old = firstKept < 0 ? oldest : oldest.slice(0, firstKept);
      const last = old.at(-1);
      if (last === undefined) return 0;
      const { seq, hash } = last;
      const cut = await entries.cut(tenantId);
      // Those from before the chain are below its first cut.
      if (seq > (cut?.seq ?? 0)) {
        const signature = this.#signer.sign(cutText(tenantId, seq, hash));
        await entries.moveCut({ tenant_id: tenantId, seq, hash, signature });
      }
      await entries.removeUpTo(tenantId, seq);
      return old.length;
    });
  }

  /** Whether all entries are as they were written, and contain a head that was logged; otherwise the first that does not fit. */
  async verify(tenantId: string, logged: string | undefined): Promise<AuditVerification> {
    const entries = new AuditStore(this.#store.db);
    while (true) {
      const cut = await entries.cut(tenantId);
      const found = await this.#verifyAfter(tenantId, cut, logged);
      // Entries that were cut off meanwhile are not missing.
      if (found.problem === null || (await entries.cut(tenantId))?.seq === cut?.seq) return found;
    }
  }

  async #verifyAfter(
    tenantId: string,
    cut: CutRow | undefined,
    logged: string | undefined,
  ): Promise<AuditVerification> {
    let { seq, hash } = cut ?? { seq: 0, hash: "" };
    const loggedSeq = parseInt(logged ?? "0");
    const found = { firstSeq: seq + 1, entryCount: 0, erasedCount: 0 };
    type Reason = NonNullable<AuditVerification["problem"]>["reason"];
    const refuse = (reason: Reason, at: number, id: string | null): AuditVerification => ({
      ...found,
      valid: false,
      head: headOf({ seq, hash }),
      problem: { seq: at, id, reason },
    });
    if (cut !== undefined && !this.#isCutAuthentic(cut)) return refuse("changed", seq, null);
    const yieldIfNeeded = createYielder();
    const pages = paginate(PAGE, (last: AuditRow | undefined) => {
      return new AuditStore(this.#store.db).after(tenantId, last?.seq ?? seq, PAGE);
    });
    for await (const rows of pages) {
      for (const row of rows) {
        if (row.seq !== seq + 1) return refuse("missing", seq + 1, null);
        const differs = loggedSeq === row.seq && headOf(row) !== logged;
        if (differs || !this.#isAuthentic(row, hash)) return refuse("changed", row.seq, row.id);
        ({ seq, hash } = row);
        found.entryCount++;
        if (row.who_salt === null || row.what_salt === null) found.erasedCount++;
        await yieldIfNeeded();
      }
    }
    if (loggedSeq > seq) return refuse("missing", seq + 1, null);
    return { ...found, valid: true, head: headOf({ seq, hash }), problem: null };
  }

  #isAuthentic(row: AuditRow, previous: string): boolean {
    return (row.who_salt === null || digestOf(row.who_salt, who(row)) === row.who_digest) &&
      (row.what_salt === null || digestOf(row.what_salt, what(row)) === row.what_digest) &&
      this.#signer.verify(row.hash, linkText(row, previous));
  }

  /** A chain that begins after older entries has no hash to begin with: its first entry says so, too. */
  #isCutAuthentic({ tenant_id, seq, hash, signature }: CutRow): boolean {
    return hash === "" || this.#signer.verify(signature, cutText(tenant_id, seq, hash));
  }
}

/** The end of a chain up to this entry. Its hash is made with a secret, so it needs no signature of its own. */
export function headOf({ seq, hash }: Pick<AuditRow, "seq" | "hash">): string {
  return `${seq}:${hash}`;
}

function who({ actor_id, owner_id, token_id, ip, user_agent }: NewEntry): unknown[] {
  return [actor_id, owner_id, token_id, ip, user_agent];
}

function what({ resource_id, changes_json }: NewEntry): unknown[] {
  return [resource_id, changes_json];
}

function digestOf(salt: string, values: readonly unknown[]): string {
  return hashText(JSON.stringify([salt, ...values]), "base64url");
}

function linkText(row: Omit<AuditRow, "hash">, previous: string): string {
  const { tenant_id, seq, id, at, operation, via, request_id, who_digest, what_digest } = row;
  return JSON.stringify([previous, tenant_id, seq, id, at, operation, via, request_id, who_digest, what_digest]);
}

/** Its form differs from that of the text of an entry. */
function cutText(tenantId: string, seq: number, hash: string): string {
  return JSON.stringify(["cut", tenantId, seq, hash]);
}
