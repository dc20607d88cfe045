// Principals of an archive: made where they are missing, left alone where they are there.
import { lowerOf, type PrincipalKind, TENANT_ROLES } from "@/core/actor.ts";
import { isTimeZone } from "@/core/clock.ts";
import { newPrincipal } from "@/modules/identity/mod.ts";
import type { Transaction } from "@/ports/store.ts";
import { type PersonDraft, plainPerson } from "./draft.ts";
import type { Report } from "./report.ts";
import { type ImportRow, TransferStore, type TransferTables } from "./store.ts";

const NAME_MAX = 100;
const HANDLE = /^(?!me$)[a-z0-9._-]{1,64}$/;

export class People {
  readonly #row: ImportRow;
  readonly #report: Report;
  /** Those known to exist, by id. */
  readonly #kinds = new Map<string, PrincipalKind>();
  /** Those of them that were learnt of in a transaction that has not ended. */
  readonly #fresh = new Set<string>();

  constructor(row: ImportRow, report: Report) {
    this.#row = row;
    this.#report = report;
  }

  kindOf(id: string): PrincipalKind {
    return this.#kinds.get(id) ?? "human";
  }

  isKnown(id: string): boolean {
    return this.#kinds.has(id);
  }

  /** The transaction runs again from its start, and knows nothing of the run before. */
  forget(): void {
    for (const id of this.#fresh) this.#kinds.delete(id);
    this.#fresh.clear();
  }

  /** The transaction was committed. */
  settle(): void {
    this.#fresh.clear();
  }

  /** Learns which of these exist. */
  async learn(tx: Transaction<TransferTables>, ids: Iterable<string>): Promise<void> {
    const unknown = [...new Set(ids)].filter((id) => !this.#kinds.has(id));
    for (const row of await new TransferStore(tx.db).principals(this.#row.tenant_id, unknown)) {
      this.#know(row);
    }
  }

  /** Makes stand-ins for authors the archive does not describe: they cannot sign in, but what they said keeps its author. */
  async standIn(tx: Transaction<TransferTables>, ids: Iterable<string>, at: string): Promise<void> {
    const wanted = [...new Set(ids)];
    await this.learn(tx, wanted);
    const missing = wanted.filter((id) => !this.#kinds.has(id));
    for (const id of missing) this.#report.skip("unknown_author", id);
    await this.put(tx, missing.map((id) => ({ ...plainPerson(id, id), isDisabled: true })), at);
  }

  async put(tx: Transaction<TransferTables>, drafts: readonly PersonDraft[], at: string): Promise<void> {
    const { tenant_id, requester_role } = this.#row;
    await this.learn(tx, drafts.map((draft) => draft.id));
    const fresh = new Map(drafts.filter(({ id }) => !this.#kinds.has(id)).map((draft) => [draft.id, draft]));
    if (fresh.size === 0) return;
    const handles = [...fresh.values()].flatMap(({ handle }) => handle === null ? [] : [handle]);
    const taken = await new TransferStore(tx.db).takenHandles(tenant_id, handles);
    const rows = [...fresh.values()].map((draft) =>
      newPrincipal(draft.createdAt ?? at, {
        tenant_id,
        id: draft.id,
        kind: draft.kind,
        handle: this.#handle(draft, taken),
        display_name: this.#report.fit(draft.displayName.trim(), NAME_MAX, `name: ${draft.id}`) ||
          draft.id.slice(0, NAME_MAX),
        // Nobody comes out of an archive with more rights than who brings it in.
        role: lowerOf(TENANT_ROLES, draft.role, requester_role),
        owner_id: draft.kind === "agent" ? draft.ownerId ?? this.#row.requested_by : null,
        external_id: draft.externalId,
        timezone: draft.timezone !== null && isTimeZone(draft.timezone) ? draft.timezone : null,
        locale: draft.locale,
        is_disabled: draft.isDisabled ? 1 : 0,
      })
    );
    await tx.insertMany("principal", rows);
    for (const row of rows) this.#know(row);
    this.#report.added.principals += rows.length;
  }

  #know({ id, kind }: Pick<TransferTables["principal"], "id" | "kind">): void {
    this.#kinds.set(id, kind);
    this.#fresh.add(id);
  }

  #handle({ id, handle }: PersonDraft, taken: Set<string>): string | null {
    if (handle === null) return null;
    if (!HANDLE.test(handle)) {
      this.#report.skip("handle_invalid", `${id}: ${handle}`);
      return null;
    }
    if (taken.has(handle)) {
      this.#report.skip("handle_taken", `${id}: ${handle}`);
      return null;
    }
    taken.add(handle);
    return handle;
  }
}
