// Files of an archive: their contents come in as uploads do, within the same limits, and are shown by the messages that
// show them in the archive.
import { createHash } from "node:crypto";
import { principalStream } from "@/core/event.ts";
import { Fault } from "@/core/fault.ts";
import type { FileLinks, FileWriter } from "@/modules/file/mod.ts";
import { presentPrincipal } from "@/modules/identity/mod.ts";
import { fileOwner, type MessageFile } from "@/modules/message/mod.ts";
import { profileJob } from "@/modules/room/mod.ts";
import type { Transaction } from "@/ports/store.ts";
import { Damaged } from "./contents.ts";
import type { FileEntry } from "./draft.ts";
import type { Importer } from "./importer.ts";
import { idsOf } from "./places.ts";
import { type ImportRow, type PlacedMessage, TransferStore, type TransferTables } from "./store.ts";

/** What the gateway says to an upload that it does not take; anything else is no fault of the file. */
const REFUSALS: ReadonlySet<string> = new Set([
  "payload_too_large",
  "quota_exceeded",
  "unsupported_media_type",
  "validation_failed",
]);

type Tx = Transaction<TransferTables>;

export class FileImport {
  readonly #importer: Importer;
  readonly #writer: FileWriter;
  readonly #links: FileLinks;
  readonly #row: ImportRow;
  /** Files that came with the archive, by the id they have there. */
  readonly #carried = new Map<string, { id: string; createdAt: string }>();

  constructor(importer: Importer, files: { writer: FileWriter; links: FileLinks }, row: ImportRow) {
    this.#importer = importer;
    this.#writer = files.writer;
    this.#links = files.links;
    this.#row = row;
  }

  /** Takes in a file for messages that come after it; one that is there already stays as it is. */
  async put(entry: FileEntry, roomId: string, content: AsyncIterable<Uint8Array>): Promise<void> {
    const { report, people } = this.#importer;
    const { tenant_id: tenantId } = this.#row;
    const place = await this.#importer.write((tx) => this.#place(tx, entry));
    if (place === undefined) return;
    const { id, isThere } = place;
    const checked = this.#checked(entry, content);
    try {
      if (isThere) {
        // Naming a file is no right to show it; having its content is.
        for await (const _chunk of checked);
      } else {
        if (entry.size > this.#writer.limits.fileMaxBytes) {
          throw new Fault("payload_too_large", "The file is too large");
        }
        const uploader = { tenantId, principalId: entry.uploaderId, kind: people.kindOf(entry.uploaderId) };
        const { name, contentType, size } = entry;
        const draft = { id, name, contentType, roomId: entry.isOfRoom ? roomId : null, maxBytes: size };
        await this.#writer.write(uploader, draft, checked);
      }
      this.#carried.set(entry.ref.own, { id, createdAt: entry.createdAt });
    } catch (error) {
      const code = error instanceof Damaged ? "file_damaged" : isRefusal(error) ? "file_refused" : undefined;
      if (code === undefined || !(error instanceof Error)) throw error;
      report.skip(code, `${entry.where}: ${error.message}: ${entry.name}`);
    }
  }

  /** Whether the content of a file has come in, or is here. */
  hasContent(sourceId: string): boolean {
    return this.#carried.has(sourceId);
  }

  /** Makes a file the picture of who uploaded it, if they have changed nothing of themselves since they came here. */
  async showAsPicture({ ref, uploaderId }: FileEntry): Promise<void> {
    const { tenant_id: tenantId } = this.#row;
    const carried = this.#carried.get(ref.own);
    if (carried === undefined) return;
    await this.#importer.write(async (tx) => {
      const store = new TransferStore(tx.db);
      const [file] = await store.files(tenantId, [carried.id]);
      const [principal] = await store.principals(tenantId, [uploaderId]);
      if (file?.uploader_id !== uploaderId || file.state === "deleted") return;
      if (principal === undefined || principal.version > 1 || principal.avatar_file_id !== null) return;
      const set = { avatar_file_id: file.id, version: principal.version + 1, updated_at: this.#importer.now };
      await store.changePrincipal(tenantId, uploaderId, set);
      await tx.emit({
        tenantId,
        stream: principalStream(uploaderId),
        type: "principal.updated",
        data: { principal: presentPrincipal({ ...principal, ...set }) },
      });
      await tx.enqueue(profileJob(tenantId, uploaderId));
      tx.signal({ kind: "principal", tenantId, id: uploaderId });
      if (file.state === "unlinked") this.#importer.report.added.files++;
      await store.dateFile(tenantId, file.id, carried.createdAt);
    });
  }

  /** What a message shows, by the ids that it has here. */
  shown(files: readonly MessageFile[]): MessageFile[] {
    return files.map((file) => ({ ...file, id: this.#carried.get(file.id)?.id ?? file.id }));
  }

  /** Makes the files of a message seen by those who see it: those that came along, and have not been deleted since. */
  async link(tx: Tx, row: PlacedMessage, files: readonly MessageFile[]): Promise<void> {
    const { tenant_id: tenantId, room_id: roomId, seq } = row;
    const carried = new Map(files.flatMap((file) => this.#carried.get(file.id) ?? []).map((one) => [one.id, one]));
    if (carried.size === 0) return;
    const store = new TransferStore(tx.db);
    const rows = await store.files(tenantId, [...carried.keys()]);
    const kept = rows.filter(({ state, room_id }) => state !== "deleted" && (room_id ?? roomId) === roomId);
    if (kept.length === 0) return;
    // Counted here, where a crash leaves no doubt: what came in and is shown by nothing does not stay.
    this.#importer.report.added.files += kept.filter(({ state }) => state === "unlinked").length;
    await this.#links.link(tx, { tenantId, owner: fileOwner(row.id), roomId, seq }, kept.map(({ id }) => id));
    // Not before: an upload that old and not attached would be swept away.
    for (const { id } of kept) await store.dateFile(tenantId, id, carried.get(id)?.createdAt ?? this.#importer.now);
  }

  /** Gives a message that came in before, without the contents of its files, those that came along now. */
  async complete(tx: Tx, row: PlacedMessage, files: readonly MessageFile[]): Promise<void> {
    if (files.length === 0) return;
    const shows: MessageFile[] = JSON.parse(row.files_json);
    const ids = new Set(shows.map(({ id }) => id));
    await this.link(tx, row, files.filter((file) => this.shown([file]).every(({ id }) => ids.has(id))));
  }

  /** Where the file is, or is to be; `undefined` where another content is shown in its place. */
  async #place(
    tx: Tx,
    { ref, sha256, uploaderId }: FileEntry,
  ): Promise<{ id: string; isThere: boolean } | undefined> {
    const { tenant_id: tenantId } = this.#row;
    const store = new TransferStore(tx.db);
    await store.dropUnfinished(tenantId, idsOf(ref));
    const rows = new Map((await store.files(tenantId, idsOf(ref))).map((row) => [row.id, row]));
    const [own, derived] = [rows.get(ref.own), rows.get(ref.derived)];
    const same = [own, derived].find((row) => row?.sha256 === sha256);
    if (same !== undefined) return { id: same.id, isThere: true };
    // What nobody is shown yet was left there by a run that died; storing it may have changed its bytes.
    if (derived !== undefined) return derived.state === "unlinked" ? { id: derived.id, isThere: true } : undefined;
    await this.#importer.people.standIn(tx, [uploaderId], this.#importer.now);
    const isFree = own === undefined && !(await store.takenElsewhere(tenantId, "file", [ref.own])).has(ref.own);
    return { id: isFree ? ref.own : ref.derived, isThere: false };
  }

  /** The content, which ends with an error where it is not the one that the archive tells of. */
  async *#checked({ size, sha256 }: FileEntry, content: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    const hash = createHash("sha256");
    let count = 0;
    for await (const chunk of content) {
      this.#importer.assertRunning();
      count += chunk.length;
      hash.update(chunk);
      yield chunk;
    }
    if (count !== size || hash.digest("hex") !== sha256) throw new Damaged("The content is not the one told of");
  }
}

function isRefusal(error: unknown): boolean {
  return error instanceof Fault && REFUSALS.has(error.code);
}
