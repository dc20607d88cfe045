// Remembers what leaves no trace when it is deleted: members, comments, events, relations, and after their retention documents
// and tasks. A record that was imported or exported before and no longer exists is not imported again.
import type { ImportedPart, ImportHistory as SectionHistory } from "@/core/archive/section.ts";
import { PrincipalArchiveStore } from "@/modules/identity/mod.ts";
import type { Transaction } from "@/ports/store.ts";
import { TransferStore, type TransferTables } from "../store.ts";

const MEMBER = "member ";

/** The name of a membership. */
export const memberName = (principalId: string): string => `${MEMBER}${principalId}`;

/** Parts by the ids that they have here. */
export const partOf = {
  member: (roomId: string, principalId: string): ImportedPart => ({ container: roomId, name: memberName(principalId) }),
};

export class ImportHistory implements SectionHistory {
  readonly #store: TransferStore;
  readonly #principals: PrincipalArchiveStore;
  readonly #tenantId: string;

  constructor(tx: Transaction<TransferTables>, tenantId: string) {
    this.#store = new TransferStore(tx.db);
    this.#principals = new PrincipalArchiveStore(tx.db);
    this.#tenantId = tenantId;
  }

  /** Those of these that were never here before, by whichever of their `names`. */
  async filterNew<Item>(items: readonly Item[], names: (item: Item) => readonly ImportedPart[]): Promise<Item[]> {
    const rows = await this.#store.importHistory(this.#tenantId, items.flatMap(names));
    const known = new Set(rows.map(keyOf));
    return items.filter((item) => !names(item).some((name) => known.has(keyOf(name))));
  }

  /** These are here. A person who was erased meanwhile is not named: nothing would remove it. */
  async record(parts: readonly ImportedPart[]): Promise<void> {
    const memberIds = parts.flatMap(({ name }) => memberIdOf(name) ?? []);
    const known = await this.#principals.principals(this.#tenantId, memberIds);
    const erased = new Set(memberIds).difference(new Set(known.map(({ id }) => id)));
    const here = parts.filter(({ name }) => !erased.has(memberIdOf(name) ?? ""));
    await this.#store.addImportHistory(
      here.map(({ container, name }) => ({ tenant_id: this.#tenantId, container, name })),
    );
  }

  /** The container is new, or no more: nothing of it was here. */
  async clear(container: string): Promise<void> {
    while (await this.#store.deleteImportHistory(this.#tenantId, container));
  }
}

function memberIdOf(name: string): string | undefined {
  return name.startsWith(MEMBER) ? name.slice(MEMBER.length) : undefined;
}

function keyOf({ container, name }: ImportedPart): string {
  return `${container} ${name}`;
}
