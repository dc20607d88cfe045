// What imports brought in that leaves no trace when it is deleted or gone: members, comments, events, relations. What came in
// once and is not here any more does not come in again.
import type { Transaction } from "@/ports/store.ts";
import { CarriedStore } from "./carried/store.ts";
import type { BroughtRow, TransferTables } from "./store.ts";

/** A part by its name, and the id of what it is part of: a room, a document, or nothing. */
export type Part = Pick<BroughtRow, "whole" | "name">;

export class Brought {
  readonly #store: CarriedStore;
  readonly #tenantId: string;

  constructor(tx: Transaction<TransferTables>, tenantId: string) {
    this.#store = new CarriedStore(tx.db);
    this.#tenantId = tenantId;
  }

  /** Those of these that never came in before. */
  async fresh<Item>(items: readonly Item[], partOf: (item: Item) => Part): Promise<Item[]> {
    const rows = await this.#store.brought(this.#tenantId, items.map(partOf));
    const known = new Set(rows.map(keyOf));
    return items.filter((item) => !known.has(keyOf(partOf(item))));
  }

  /** These have come in. */
  async note(parts: readonly Part[]): Promise<void> {
    await this.#store.noteBrought(parts.map(({ whole, name }) => ({ tenant_id: this.#tenantId, whole, name })));
  }

  /** The whole is new, or no more: nothing of it has come in. */
  async forget(whole: string): Promise<void> {
    await this.#store.forgetBrought(this.#tenantId, whole);
  }
}

function keyOf({ whole, name }: Part): string {
  return `${whole} ${name}`;
}
