// Principals of an archive: made where they are missing, left alone where they are there.
import { lowerOf, type PrincipalKind, TENANT_ROLES } from "@/core/actor.ts";
import { DELETED_NAME } from "@/core/erasure.ts";
import { findTimeZone } from "@/core/time/time_zone.ts";
import {
  addPrincipals,
  findTakenHandles,
  Handle,
  newPrincipal,
  PrincipalArchiveStore,
  type PrincipalRow,
} from "@/modules/identity/mod.ts";
import type { Transaction } from "@/ports/store.ts";
import { plainPrincipal, type SourcePrincipal } from "../format/model.ts";
import type { ImportRow, TransferTables } from "../store.ts";
import type { Erased } from "./erased_people.ts";
import type { Report } from "./report.ts";

const NAME_MAX = 100;

export class ImportedPrincipals {
  readonly #row: ImportRow;
  readonly #report: Report;
  /** Those known to exist, by id. */
  readonly #kinds = new Map<string, PrincipalKind>();
  readonly #erased = new Map<string, string>();
  /** Those of them that were learnt of in a transaction that has not ended. */
  readonly #fresh = new Set<string>();

  constructor(row: ImportRow, report: Report) {
    this.#row = row;
    this.#report = report;
  }

  /** Whether this was of a person who was erased later; after `loadErased`. */
  readonly isErased = (id: string, at: string | null): boolean => {
    const erasedAt = this.#erased.get(id);
    return erasedAt !== undefined && (at === null || at <= erasedAt);
  };

  /** Loads which of these people were erased here; returns whether any was. The archive may have no records of them. */
  async loadErased({ db }: Pick<Transaction<TransferTables>, "db">, ids: Iterable<string>): Promise<boolean> {
    const erased = await new PrincipalArchiveStore(db).erased(this.#row.tenant_id, [...new Set(ids)]);
    for (const [id, erasedAt] of erased) this.#erased.set(id, erasedAt);
    return erased.size > 0;
  }

  /** With whom those of these people are replaced who were erased; `undefined` if none was. */
  async erasedAmong(tx: Transaction<TransferTables>, ids: Iterable<string>, at: string): Promise<Erased | undefined> {
    if (!await this.loadErased(tx, ids)) return undefined;
    const { isErased } = this;
    return { tenantId: this.#row.tenant_id, pseudonymId: await this.#pseudonym(tx, at), isErased };
  }

  /** Who takes the place of all of them. */
  async #pseudonym(tx: Transaction<TransferTables>, at: string): Promise<string> {
    for (let n = 0;; n++) {
      const id = n === 0 ? "erased-0" : `erased-0-${n}`;
      const [row] = await new PrincipalArchiveStore(tx.db).principals(this.#row.tenant_id, [id]);
      if (row === undefined) await this.#add(tx, [{ ...plainPrincipal(id, DELETED_NAME), isDisabled: true }], at);
      // Another principal may have the id.
      if (row === undefined || (row.is_disabled === 1 && row.display_name === DELETED_NAME)) return id;
    }
  }

  kindOf(id: string): PrincipalKind {
    return this.#kinds.get(id) ?? "human";
  }

  /** Those of them that are agents. */
  get agentIds(): string[] {
    return [...this.#kinds].flatMap(([id, kind]) => kind === "agent" ? id : []);
  }

  isKnown(id: string): boolean {
    return this.#kinds.has(id);
  }

  /** The transaction runs again from its start, and knows nothing of the run before. */
  rollback(): void {
    for (const id of this.#fresh) this.#kinds.delete(id);
    this.#fresh.clear();
  }

  /** The transaction was committed. */
  commit(): void {
    this.#fresh.clear();
  }

  /** Loads those of these principals that exist. */
  async load(tx: Transaction<TransferTables>, ids: Iterable<string>): Promise<void> {
    const unknown = [...new Set(ids)].filter((id) => !this.#kinds.has(id));
    for (const row of await new PrincipalArchiveStore(tx.db).principals(this.#row.tenant_id, unknown)) this.#cache(row);
  }

  /** Creates placeholders for authors without a record: they cannot sign in, but their messages have an author. */
  async createPlaceholders(tx: Transaction<TransferTables>, ids: Iterable<string>, at: string): Promise<void> {
    const wanted = [...new Set(ids)];
    await this.load(tx, wanted);
    const missing = wanted.filter((id) => !this.#kinds.has(id));
    for (const id of missing) this.#report.skip("unknown_author", id);
    const erased = await new PrincipalArchiveStore(tx.db).erased(this.#row.tenant_id, missing);
    const nameOf = (id: string): string => erased.has(id) ? DELETED_NAME : id;
    await this.#add(tx, missing.map((id) => ({ ...plainPrincipal(id, nameOf(id)), isDisabled: true })), at);
  }

  /** Not those who were erased here. */
  async importPrincipals(
    tx: Transaction<TransferTables>,
    drafts: readonly SourcePrincipal[],
    at: string,
  ): Promise<void> {
    await this.loadErased(tx, drafts.map(({ id }) => id));
    const left = drafts.filter(({ id }) => !this.#erased.has(id));
    if (left.length < drafts.length) this.#report.skip("principal_erased", DELETED_NAME, drafts.length - left.length);
    await this.#add(tx, left, at);
  }

  async #add(tx: Transaction<TransferTables>, drafts: readonly SourcePrincipal[], at: string): Promise<void> {
    const { tenant_id, requester_role } = this.#row;
    await this.load(tx, drafts.map((draft) => draft.id));
    const fresh = new Map(drafts.filter(({ id }) => !this.#kinds.has(id)).map((draft) => [draft.id, draft]));
    if (fresh.size === 0) return;
    const handles = [...fresh.values()].flatMap(({ handle }) => handle === null ? [] : [handle]);
    const taken = await findTakenHandles(tx, tenant_id, handles);
    const rows = [...fresh.values()].map((draft) =>
      newPrincipal(draft.createdAt ?? at, {
        tenant_id,
        id: draft.id,
        kind: draft.kind,
        handle: this.#handle(draft, taken),
        display_name: this.#report.truncateName(draft.displayName, NAME_MAX, `name: ${draft.id}`) ||
          draft.id.slice(0, NAME_MAX),
        // An import gives no principal more rights than its requester has.
        role: lowerOf(TENANT_ROLES, draft.role, requester_role),
        owner_id: draft.kind === "agent" ? draft.ownerId ?? this.#row.requested_by : null,
        external_id: draft.externalId,
        timezone: findTimeZone(draft.timeZone ?? "") ?? null,
        locale: draft.locale,
        is_disabled: draft.isDisabled ? 1 : 0,
      })
    );
    await addPrincipals(tx, rows);
    for (const row of rows) this.#cache(row);
    this.#report.added.principals += rows.length;
  }

  #cache({ id, kind }: Pick<PrincipalRow, "id" | "kind">): void {
    this.#kinds.set(id, kind);
    this.#fresh.add(id);
  }

  #handle({ id, handle }: SourcePrincipal, taken: Set<string>): string | null {
    if (handle === null) return null;
    if (!Handle.safeParse(handle).success) {
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
