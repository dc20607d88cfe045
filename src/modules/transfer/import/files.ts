// Imports files: their contents are stored as uploads are, within the same limits, and linked to the messages that show them
// in the archive.
import { createHash } from "node:crypto";
import { CorruptContent } from "@/core/archive/section.ts";
import { candidateIds } from "@/core/archive/ids.ts";
import { Fault } from "@/core/fault.ts";
import { FileArchiveStore, type FileAttachments, type FileWriter } from "@/modules/file/mod.ts";
import { changeProfile, PrincipalArchiveStore } from "@/modules/identity/mod.ts";
import { type ExistingMessage, fileOwner, type MessageFile } from "@/modules/message/mod.ts";
import { profileJob } from "@/modules/room/mod.ts";
import { idsOfOtherTenants } from "@/ports/sql/global_ids.ts";
import type { Transaction } from "@/ports/store.ts";
import type { SourceFile } from "../format/model.ts";
import type { ImportRow, TransferTables } from "../store.ts";
import type { ImportRun } from "./run.ts";

/** What the gateway says to an upload that it does not take; anything else is no fault of the file. */
const REJECTION_CODES: ReadonlySet<string> = new Set([
  "payload_too_large",
  "quota_exceeded",
  "unsupported_media_type",
  "validation_failed",
]);

type Tx = Transaction<TransferTables>;

export class FileImport {
  readonly #run: ImportRun;
  readonly #writer: FileWriter;
  readonly #attachments: FileAttachments;
  readonly #row: ImportRow;
  /** Files that came with the archive, by the id they have there. */
  readonly #imported = new Map<string, { id: string; createdAt: string }>();

  constructor(run: ImportRun, files: { writer: FileWriter; attachments: FileAttachments }, row: ImportRow) {
    this.#run = run;
    this.#writer = files.writer;
    this.#attachments = files.attachments;
    this.#row = row;
  }

  /** Imports a file for messages that follow it; an existing one is unchanged. */
  async importFile(entry: SourceFile, roomId: string, content: AsyncIterable<Uint8Array>): Promise<void> {
    const { report, principals } = this.#run;
    const { tenant_id: tenantId } = this.#row;
    const place = await this.#run.write((tx) => this.#locate(tx, entry));
    if (place === undefined) return;
    const { id, isThere } = place;
    const checked = this.#verified(entry, content);
    try {
      if (isThere) {
        // Naming a file is no right to show it; having its content is.
        for await (const _chunk of checked);
      } else {
        if (entry.size > this.#writer.limits.fileMaxBytes) {
          throw new Fault("payload_too_large", "The file is too large");
        }
        const uploader = { tenantId, principalId: entry.uploaderId, kind: principals.kindOf(entry.uploaderId) };
        const { name, contentType, size } = entry;
        const draft = { id, name, contentType, roomId: entry.isOfRoom ? roomId : null, maxBytes: size };
        await this.#writer.write(uploader, draft, checked);
      }
      this.#imported.set(entry.ref.original, { id, createdAt: entry.createdAt });
    } catch (thrown) {
      const code = thrown instanceof CorruptContent
        ? "file_corrupt"
        : isRejection(thrown)
        ? "file_rejected"
        : undefined;
      if (code === undefined || !(thrown instanceof Error)) throw thrown;
      report.skip(code, `${entry.where}: ${thrown.message}: ${entry.name}`);
    }
  }

  /** A file that exists here, as messages show it. */
  async find(id: string): Promise<MessageFile | undefined> {
    const { tenant_id: tenantId } = this.#row;
    const [row] = await this.#run.write((tx) => new FileArchiveStore(tx.db).files(tenantId, [id]));
    if (row === undefined || row.state === "receiving" || row.state === "deleted") return undefined;
    const { name, content_type: contentType, size, width, height } = row;
    return { id, name, contentType, size: Number(size), width, height };
  }

  /** Whether the content of a file was imported, or already exists. */
  hasContent(sourceId: string): boolean {
    return this.#imported.has(sourceId);
  }

  /** Whether the file with this id here has the content of one of the archive. */
  isImported(id: string): boolean {
    return this.#imported.get(id)?.id === id;
  }

  /** Sets a file as the picture of its uploader, unless the uploader has changed its profile since it was imported. */
  async setAvatar(entry: SourceFile): Promise<void> {
    const { ref, uploaderId } = entry;
    const { tenant_id: tenantId } = this.#row;
    const imported = this.#imported.get(ref.original);
    if (imported === undefined) return;
    await this.#run.write(async (tx) => {
      const [principal] = await new PrincipalArchiveStore(tx.db).principals(tenantId, [uploaderId]);
      if (principal === undefined || principal.version > 1 || principal.avatar_file_id !== null) return;
      const file = await this.#findPicture(tx, entry, imported.id);
      if (file === undefined) return;
      const clock = { now: () => Date.parse(this.#run.now) };
      await changeProfile(tx, clock, { tenantId, id: uploaderId }, { avatarFileId: file.id });
      await tx.enqueue(profileJob(tenantId, uploaderId));
      if (file.state === "unlinked") this.#run.report.added.files++;
      await new FileArchiveStore(tx.db).setFileDate(tenantId, file.id, imported.createdAt);
    });
  }

  /** A file that its uploader could make its picture, locked; `undefined`, and reported, if it could not. */
  async #findPicture(tx: Tx, { uploaderId, where, name }: SourceFile, id: string) {
    const { tenant_id: tenantId } = this.#row;
    try {
      await this.#attachments.lockPicture(tx, { tenantId, principalId: uploaderId }, id);
    } catch (thrown) {
      if (!(thrown instanceof Fault) || !isRejection(thrown)) throw thrown;
      this.#run.report.skip("file_rejected", `${where}: ${thrown.message}: ${name}`);
      return undefined;
    }
    return (await new FileArchiveStore(tx.db).files(tenantId, [id]))[0];
  }

  /** What a message shows, by the ids that it has here. */
  mapFileIds(files: readonly MessageFile[]): MessageFile[] {
    return files.map((file) => ({ ...file, id: this.#imported.get(file.id)?.id ?? file.id }));
  }

  /** Attaches those files to a message that were imported and have not been deleted since. */
  async attach(tx: Tx, row: ExistingMessage, files: readonly MessageFile[]): Promise<void> {
    const { tenant_id: tenantId, room_id: roomId, seq } = row;
    const imported = new Map(files.flatMap((file) => this.#imported.get(file.id) ?? []).map((one) => [one.id, one]));
    if (imported.size === 0) return;
    const store = new FileArchiveStore(tx.db);
    const rows = await store.files(tenantId, [...imported.keys()]);
    const stored = rows.filter(({ state, room_id }) => state !== "deleted" && (room_id ?? roomId) === roomId);
    if (stored.length === 0) return;
    // Counted here, where a crash leaves no doubt: imported files without a link are deleted later.
    this.#run.report.added.files += stored.filter(({ state }) => state === "unlinked").length;
    await this.#attachments.attach(tx, { tenantId, owner: fileOwner(row.id), roomId, seq }, stored.map(({ id }) => id));
    // Not before: an upload that old and not attached would be swept away.
    for (const { id } of stored) await store.setFileDate(tenantId, id, imported.get(id)?.createdAt ?? this.#run.now);
  }

  /** Links files to messages that were imported earlier without the contents of their files. */
  async attachMissing(tx: Tx, row: ExistingMessage, files: readonly MessageFile[]): Promise<void> {
    if (files.length === 0) return;
    const shows: MessageFile[] = JSON.parse(row.files_json);
    const ids = new Set(shows.map(({ id }) => id));
    await this.attach(tx, row, files.filter((file) => this.mapFileIds([file]).every(({ id }) => ids.has(id))));
  }

  /** The file, or the id that it gets; `undefined` if its id has another content here, or its uploader was erased. */
  async #locate(
    tx: Tx,
    { ref, sha256, uploaderId, createdAt }: SourceFile,
  ): Promise<{ id: string; isThere: boolean } | undefined> {
    const { tenant_id: tenantId } = this.#row;
    const { principals } = this.#run;
    await principals.loadErased(tx, [uploaderId]);
    if (principals.isErased(uploaderId, createdAt)) return undefined;
    const store = new FileArchiveStore(tx.db);
    await store.deleteUnfinished(tenantId, candidateIds(ref));
    const rows = new Map((await store.files(tenantId, candidateIds(ref))).map((row) => [row.id, row]));
    const [own, derived] = [rows.get(ref.original), rows.get(ref.fallback)];
    const same = [own, derived].find((row) => row?.sha256 === sha256);
    if (same !== undefined) return { id: same.id, isThere: true };
    // What nobody is shown yet was left there by a run that died; storing it may have changed its bytes.
    if (derived !== undefined) return derived.state === "unlinked" ? { id: derived.id, isThere: true } : undefined;
    await principals.createPlaceholders(tx, [uploaderId], this.#run.now);
    const isFree = own === undefined &&
      !(await idsOfOtherTenants(tx.db, "file", tenantId, [ref.original])).has(ref.original);
    return { id: isFree ? ref.original : ref.fallback, isThere: false };
  }

  /** The content; fails if its size or digest differs from the record. */
  async *#verified({ size, sha256 }: SourceFile, content: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    const hash = createHash("sha256");
    let count = 0;
    for await (const chunk of content) {
      this.#run.assertRunning();
      count += chunk.length;
      hash.update(chunk);
      yield chunk;
    }
    if (count !== size || hash.digest("hex") !== sha256) {
      throw new CorruptContent("The content does not match its size or checksum");
    }
  }
}

function isRejection(error: unknown): boolean {
  return error instanceof Fault && REJECTION_CODES.has(error.code);
}
