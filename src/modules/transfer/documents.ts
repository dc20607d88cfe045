// Documents of an archive: each comes in whole with its CRDT, under its parent, in its room or with its readers.
import { Buffer } from "node:buffer";
import {
  type CarriedContent,
  type DocumentAccess,
  type DocumentCarrier,
  READERS_MAX,
  STATE_MAX_BYTES,
  TITLE_MAX,
} from "@/modules/document/mod.ts";
import type { Transaction } from "@/ports/store.ts";
import { Brought, partOf } from "./brought.ts";
import { Damaged } from "./contents.ts";
import type { DocumentEntry, Ref } from "./draft.ts";
import type { Importer } from "./importer.ts";
import { idsOf } from "./places.ts";
import { type ImportRow, TransferStore, type TransferTables } from "./store.ts";

export class DocumentImport {
  readonly #importer: Importer;
  readonly #carrier: DocumentCarrier;
  readonly #row: ImportRow;

  constructor(importer: Importer, carrier: DocumentCarrier, row: ImportRow) {
    this.#importer = importer;
    this.#carrier = carrier;
    this.#row = row;
  }

  /**
   * Puts a document into a room, or as a private one (null); one that is there already stays as it is. Resolves to its id
   * here, `undefined` when it is left out.
   */
  async put(
    entry: DocumentEntry,
    roomId: string | null,
    pieces: AsyncIterable<Uint8Array>,
  ): Promise<string | undefined> {
    const { report } = this.#importer;
    const { tenant_id: tenantId } = this.#row;
    const content = await this.#content(pieces);
    return await this.#importer.write(async (tx) => {
      const present = await existing(tx, tenantId, entry.ref);
      if (present !== undefined) return present;
      const brought = new Brought(tx, tenantId);
      const parts = idsOf(entry.ref).map((id) => partOf.document(roomId, id));
      if ((await brought.fresh([entry], () => parts)).length === 0) return undefined;
      if (typeof content === "string") {
        report.skip(`document_${content}`, `${entry.where}: ${entry.title}`);
        return undefined;
      }
      const { own, derived } = entry.ref;
      const store = new TransferStore(tx.db);
      const isOwnFree = own !== null && !(await store.takenElsewhere(tenantId, "document", [own])).has(own);
      const readers = roomId === null ? await this.#readers(tx, entry) : [];
      const readerIds = readers.map(({ principalId }) => principalId);
      const names = [entry.createdBy, entry.editedBy, ...readerIds, ...entry.origin?.principalIds ?? []];
      await this.#importer.people.standIn(tx, names, this.#importer.now);
      const parentId = entry.parent === null ? null : await existing(tx, tenantId, entry.parent) ?? null;
      const { ref: _ref, where, parent, ...rest } = entry;
      const document = await this.#carrier.put(tx, tenantId, {
        ...rest,
        id: isOwnFree ? own : derived,
        roomId,
        parentId,
        title: report.fit(entry.title.trim(), TITLE_MAX, `${where}: title`) || "unnamed",
        metadata: report.fitMetadata(entry.metadata, where),
        readers,
        content,
      });
      if (parent !== null && document.parentId === null) report.skip("parent_missing", `${where}: ${entry.title}`);
      await brought.forget(document.id);
      await brought.note([partOf.document(roomId, document.id)]);
      report.added.documents++;
      return document.id;
    });
  }

  /** The content, or what is wrong with it; no more of it is held than a document may have. */
  async #content(pieces: AsyncIterable<Uint8Array>): Promise<CarriedContent | "damaged" | "too_large"> {
    const chunks: Uint8Array[] = [];
    let size = 0;
    try {
      for await (const chunk of pieces) {
        size += chunk.length;
        if (size > STATE_MAX_BYTES) return "too_large";
        chunks.push(chunk);
      }
    } catch (error) {
      if (error instanceof Damaged) return "damaged";
      throw error;
    }
    return this.#carrier.inspect(new Uint8Array(Buffer.concat(chunks)));
  }

  /** A private document that would be nobody's is that of who brings it in; an agent owns it only as long as its owner does. */
  async #readers(
    tx: Transaction<TransferTables>,
    { readers, where }: DocumentEntry,
  ): Promise<DocumentAccess[]> {
    const { people, report } = this.#importer;
    const each = [...new Map(readers.map((reader) => [reader.principalId, reader])).values()];
    // Owners first, so that they are not among those for whom there is no room.
    const kept = each.toSorted((a, b) => Number(b.role === "owner") - Number(a.role === "owner")).slice(0, READERS_MAX);
    if (kept.length < each.length) report.skip("too_many_readers", where, each.length - kept.length);
    const ownerIds = kept.filter(({ role }) => role === "owner").map(({ principalId }) => principalId);
    await people.learn(tx, ownerIds);
    if (ownerIds.some((id) => people.isKnown(id) && people.kindOf(id) !== "agent")) return kept;
    const principalId = this.#row.requested_by;
    return [...kept.filter((one) => one.principalId !== principalId).slice(-READERS_MAX + 1), {
      principalId,
      role: "owner",
    }];
  }
}

/** The id under which something of the archive is in the tenant. */
async function existing(tx: Transaction<TransferTables>, tenantId: string, ref: Ref): Promise<string | undefined> {
  const found = await new TransferStore(tx.db).documents(tenantId, idsOf(ref));
  return idsOf(ref).find((id) => found.has(id));
}
