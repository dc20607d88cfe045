// What leaves no trace when it is gone: members, comments, events, relations, and after a while documents and tasks. What an
// import brought in, or an export took out, and is not here any more does not come in again.
import type { Transaction } from "@/ports/store.ts";
import { CarriedStore } from "./carried/store.ts";
import type { BroughtRow, TransferTables } from "./store.ts";

/** A part by its name, and the id of what it is part of: a room, a document, or nothing. */
export type Part = Pick<BroughtRow, "whole" | "name">;

type Relation = { taskId: string; kind: string; otherId: string };

/** Parts by the ids that they have here. */
export const partOf = {
  document: (roomId: string | null, id: string): Part => ({ whole: roomId ?? "", name: `document ${id}` }),
  task: (roomId: string, id: string): Part => ({ whole: roomId, name: `task ${id}` }),
  member: (roomId: string, principalId: string): Part => ({ whole: roomId, name: `member ${principalId}` }),
  comment: (documentId: string, id: string): Part => ({ whole: documentId, name: id }),
  event: (roomId: string | null, id: string): Part => ({ whole: roomId ?? "", name: `event ${id}` }),
  relation: (roomId: string, { taskId, kind, otherId }: Relation): Part => ({
    whole: roomId,
    name: `${taskId} ${kind} ${otherId}`,
  }),
};

export class Brought {
  readonly #store: CarriedStore;
  readonly #tenantId: string;

  constructor(tx: Transaction<TransferTables>, tenantId: string) {
    this.#store = new CarriedStore(tx.db);
    this.#tenantId = tenantId;
  }

  /** Those of these that were never here before, by whichever of their `names`. */
  async fresh<Item>(items: readonly Item[], names: (item: Item) => readonly Part[]): Promise<Item[]> {
    const rows = await this.#store.brought(this.#tenantId, items.flatMap(names));
    const known = new Set(rows.map(keyOf));
    return items.filter((item) => !names(item).some((name) => known.has(keyOf(name))));
  }

  /** These are here. */
  async note(parts: readonly Part[]): Promise<void> {
    await this.#store.noteBrought(parts.map(({ whole, name }) => ({ tenant_id: this.#tenantId, whole, name })));
  }

  /** The whole is new, or no more: nothing of it was here. */
  async forget(whole: string): Promise<void> {
    await this.#store.forgetBrought(this.#tenantId, whole);
  }
}

function keyOf({ whole, name }: Part): string {
  return `${whole} ${name}`;
}
