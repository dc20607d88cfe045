// Imports the documents of an archive: each with its CRDT and parent, in its room or with its readers, then its history.
import type { z } from "@zod/zod";
import { Buffer } from "node:buffer";
import {
  CorruptContent,
  handleRecord,
  type ImportContext,
  type ImportedPart,
  type RecordHandler,
  type RecordPosition,
  type SectionImporter,
} from "@/core/archive/section.ts";
import { candidateIds } from "@/core/archive/ids.ts";
import { runInSlices } from "@/core/caller.ts";
import { loadLocalIds } from "@/ports/sql/global_ids.ts";
import type { Transaction } from "@/ports/store.ts";
import type { Shape } from "../content/representation.ts";
import { type DocumentAccessEntry, READERS_MAX, STATE_MAX_BYTES, TITLE_MAX } from "../schema.ts";
import type { DocumentTables } from "../tables.ts";
import { type ArchivedContent, inspectContent } from "./content.ts";
import type { DocumentArchive } from "./document.ts";
import { DocumentHistoryImporter } from "./history_import.ts";
import { CommentRecord, DocumentRecord, RevisionRecord } from "./records.ts";

type Tx = Transaction<DocumentTables>;

/** A document in the history of imports. */
export function importedDocument(roomId: string | null, id: string): ImportedPart {
  return { container: roomId ?? "", name: `document ${id}` };
}

export class DocumentImporter implements SectionImporter {
  readonly records: Readonly<Record<string, RecordHandler>>;
  readonly #context: ImportContext<Tx>;
  readonly #archive: DocumentArchive;
  readonly #history: DocumentHistoryImporter;
  /** The last document, by its id in the archive, and here unless it was skipped. */
  #current: { sourceId: string; id: string | undefined } | undefined;

  constructor(context: ImportContext<Tx>, archive: DocumentArchive) {
    this.#context = context;
    this.#archive = archive;
    this.#history = new DocumentHistoryImporter(context, archive.history);
    this.records = {
      document: handleRecord(DocumentRecord, (record, position) => this.#open(record, position)),
      revision: handleRecord(RevisionRecord, async (record, { where }) => {
        const id = this.#currentId(record.documentId, where);
        if (id !== undefined) await this.#history.addRevision(id, record, where);
      }),
      comment: handleRecord(CommentRecord, async (record, { where }) => {
        const id = this.#currentId(record.documentId, where);
        if (id !== undefined) await this.#history.addComment(id, record, where);
      }),
    };
  }

  flush(): Promise<void> {
    return this.#history.flush();
  }

  /** The document of a record, which must directly follow it, by its id here. */
  #currentId(sourceId: string, where: string): string | undefined {
    if (this.#current?.sourceId === sourceId) return this.#current.id;
    this.#context.report.skip("unknown_document", where);
    return undefined;
  }

  async #open(record: z.output<typeof DocumentRecord>, { where, room, content }: RecordPosition): Promise<void> {
    this.#current = { sourceId: record.id, id: undefined };
    if (record.roomId !== null && room?.sourceId !== record.roomId) {
      return this.#context.report.skip("unknown_room", where);
    }
    const roomId = record.roomId === null ? null : room?.id;
    if (roomId === undefined) return;
    const snapshot = await this.#inspect(content(record.id), record);
    this.#current.id = await this.#context.write((tx) => this.#import(tx, record, where, roomId, snapshot));
  }

  /** Resolves to the id of the document here, also if it exists already; `undefined` if it is skipped. */
  async #import(
    tx: Tx,
    record: z.output<typeof DocumentRecord>,
    where: string,
    roomId: string | null,
    content: ArchivedContent | "corrupt" | "too_large",
  ): Promise<string | undefined> {
    const { tenantId, report } = this.#context;
    const ref = this.#context.refOf("doc", record.id);
    const parent = record.parentId === null ? undefined : this.#context.refOf("doc", record.parentId);
    const ids = await loadLocalIds(tx.db, "document", tenantId, [ref, parent].filter((one) => one !== undefined));
    const existing = ids.find(ref);
    if (existing !== undefined) return existing;
    const history = this.#context.history(tx);
    const parts = candidateIds(ref).map((id) => importedDocument(roomId, id));
    if ((await history.filterNew([record], () => parts)).length === 0) return undefined;
    if (typeof content === "string") {
      report.skip(`document_${content}`, `${where}: ${record.title}`);
      return undefined;
    }
    const readers = roomId === null ? await this.#readers(tx, record, where) : [];
    await this.#context.createPlaceholders(tx, [
      record.createdBy,
      record.editedBy,
      ...readers.map(({ principalId }) => principalId),
      ...record.origin?.principalIds ?? [],
    ]);
    const document = await this.#archive.importDocument(tx, tenantId, {
      ...record,
      id: ids.of(ref),
      roomId,
      parentId: parent === undefined ? null : ids.find(parent) ?? null,
      title: report.truncateName(record.title, TITLE_MAX, `${where}: title`) || "unnamed",
      metadata: report.limitMetadata(record.metadata, where),
      readers,
      content,
      // Naming a file is no right to show it; having its content is.
      mayShow: ({ id }) => this.#context.hasFile(id),
    });
    if (record.parentId !== null && document.parentId === null) {
      report.skip("parent_missing", `${where}: ${record.title}`);
    }
    await history.clear(document.id);
    await history.record([importedDocument(roomId, document.id)]);
    report.count("documents", 1);
    return document.id;
  }

  /** The content, or what is wrong with it. No more of it is read than a document may have. */
  async #inspect(content: AsyncIterable<Uint8Array>, shape: Shape): Promise<ArchivedContent | "corrupt" | "too_large"> {
    const chunks: Uint8Array[] = [];
    let size = 0;
    try {
      for await (const chunk of content) {
        size += chunk.length;
        if (size > STATE_MAX_BYTES) return "too_large";
        chunks.push(chunk);
      }
    } catch (thrown) {
      if (thrown instanceof CorruptContent) return "corrupt";
      throw thrown;
    }
    return await runInSlices(inspectContent(new Uint8Array(Buffer.concat(chunks)), shape));
  }

  /** Readers of a private document. The importing principal owns it unless an owner exists here that is no agent. */
  async #readers(tx: Tx, { readers }: z.output<typeof DocumentRecord>, where: string): Promise<DocumentAccessEntry[]> {
    const { report, requestedBy } = this.#context;
    const all = [...new Map(readers.map((reader) => [reader.principalId, reader])).values()];
    // Owners first, so that the limit does not remove them.
    const stored = all.toSorted((a, b) => Number(b.role === "owner") - Number(a.role === "owner")).slice(
      0,
      READERS_MAX,
    );
    if (stored.length < all.length) report.skip("too_many_readers", where, all.length - stored.length);
    const ownerIds = stored.filter(({ role }) => role === "owner").map(({ principalId }) => principalId);
    const kinds = await this.#context.principalKinds(tx, ownerIds);
    if ([...kinds.values()].some((kind) => kind !== "agent")) return stored;
    const others = stored.filter(({ principalId }) => principalId !== requestedBy).slice(-READERS_MAX + 1);
    return [...others, { principalId: requestedBy, role: "owner" }];
  }
}
