// Files for those who may read them: their uploader, the members of rooms that show them, and of pictures of principals whoever
// may know of these.
import { type Actor, isAtLeast, TENANT_ROLES } from "@/core/actor.ts";
import { type Clock, iso } from "@/core/clock.ts";
import { Fault } from "@/core/fault.ts";
import type { Context } from "@/core/operation.ts";
import type { Cursors, Page } from "@/core/page.ts";
import type { Acquaintances } from "@/modules/identity/mod.ts";
import { hiddenUpTo, type RoomGate } from "@/modules/room/mod.ts";
import type { Blobs } from "@/ports/blob.ts";
import type { Store } from "@/ports/store.ts";
import { deletedInRoom, dropLoose, type FileLinks, forget, SEEN_BY_NONE } from "./links.ts";
import { type Box, Thumbnails } from "./picture/thumbnails.ts";
import { presentFile } from "./presenter.ts";
import type { FileList, StoredFile } from "./schema.ts";
import { type FileRow, FileStore, type FileTables } from "./store.ts";
import { UNLINKED_MS } from "./writer.ts";

const SWEEP_BATCH = 200;

type Deps = {
  store: Store<FileTables>;
  clock: Clock;
  cursors: Cursors;
  gate: RoomGate;
  acquaintances: Acquaintances;
  blobs: Blobs;
};
/** Bytes of a content; `undefined` when the blob store has lost it. */
export type Content = Awaited<ReturnType<Blobs["get"]>>;

export class FileService {
  readonly #deps: Deps;
  readonly #thumbnails: Thumbnails;

  constructor(deps: Deps) {
    this.#deps = deps;
    this.#thumbnails = new Thumbnails(deps.blobs);
  }

  /** The file, if the caller may read it: `not_found` when not, `gone` when its content was deleted under them. */
  async read(actor: Actor, id: string): Promise<StoredFile> {
    const row = await this.#row(actor, id);
    if (row.state === "deleted") throw new Fault("gone", "The file was deleted");
    return presentFile(row);
  }

  /** Those of the files that the caller may read the content of, in the order asked for. */
  async readable(actor: Actor, ids: readonly string[]): Promise<string[]> {
    const rows = await new FileStore(this.#deps.store.db).many(actor.tenantId, ids);
    const there = rows.filter(({ state }) => state !== "deleted");
    const isReadable = await Promise.all(there.map((row) => this.#isReadable(actor, row)));
    const readable = new Set(there.flatMap(({ id }, place) => isReadable[place] === true ? [id] : []));
    return ids.filter((id) => readable.has(id));
  }

  /** The content of a file that was read before, or the part of it in a range. */
  async open({ id }: Pick<StoredFile, "id">, range?: { start: number; end: number }): Promise<NonNullable<Content>> {
    const content = await this.#deps.blobs.get(id, range);
    if (content === undefined) throw new Fault("gone", "The content is no longer there");
    return content;
  }

  /** A small JPEG or PNG of a file that was read before; `validation_failed` when it is no picture that can be made small. */
  thumbnail({ tenantId }: Actor, file: StoredFile, box: Box): Promise<Uint8Array<ArrayBuffer>> {
    const isThere = async (): Promise<boolean> => await this.find(tenantId, file.id) !== undefined;
    return this.#thumbnails.read({ file, box, isThere });
  }

  /** For the gateway's own work, such as an export: any file of the tenant. */
  async find(tenantId: string, id: string): Promise<StoredFile | undefined> {
    const [row] = await new FileStore(this.#deps.store.db).many(tenantId, [id]);
    return row === undefined || row.state === "deleted" ? undefined : presentFile(row);
  }

  async list(context: Context, { limit, cursor, roomId }: FileList): Promise<Page<StoredFile>> {
    const { cursors, store, gate } = this.#deps;
    const { tenantId, principalId } = context.actor;
    const bind = ["file.list", tenantId, principalId, roomId ?? null];
    const before = cursors.open(cursor, bind)?.[0]?.toString();
    const files = new FileStore(store.db);
    const rows = roomId === undefined
      ? await files.own(tenantId, principalId, before, limit + 1)
      : await files.inRoom(tenantId, roomId, hiddenUpTo(await gate.enter(context, roomId)), before, limit + 1);
    return cursors.page(rows, limit, bind, (row) => [row.id], presentFile);
  }

  /** By an admin who sees it, or its uploader while in the rooms that show it; there a file that is gone is shown. */
  async delete({ actor }: Context, id: string): Promise<void> {
    const { tenantId, principalId } = actor;
    await this.#deps.store.write(async (tx) => {
      const files = new FileStore(tx.db);
      const row = await this.#row(actor, id);
      const isAdmin = isAtLeast(TENANT_ROLES, actor.role, "admin");
      if (row.uploader_id !== principalId && !isAdmin) {
        throw new Fault("forbidden", "Files are deleted by who uploaded them, or with the message that shows them");
      }
      const isTaken = await files.change(tenantId, id, ["unlinked", "linked"], { state: "deleted" });
      if (!isTaken) throw new Fault("not_found", "No such file, or not visible to the caller");
      // Locked by the change: no room comes to show it any more.
      const rooms = await files.rooms(tenantId, id);
      if (!isAdmin && !await this.#isInAll(actor, rooms)) {
        throw new Fault("forbidden", "The file is shown in a room that the caller is not in any more");
      }
      await forget(tx, tenantId, [row]);
      if (rooms.length === 0) await files.remove(tenantId, [id]);
      else await tx.emit(...rooms.map(({ room_id, seq }) => deletedInRoom(row, room_id, seq)));
    });
  }

  /** Removes uploads of more than a day ago that ended in nothing or that nothing shows. */
  async sweep(tenantId: string): Promise<void> {
    const { store, clock } = this.#deps;
    const before = iso(clock.now() - UNLINKED_MS);
    let count: number;
    do {
      count = await store.write(async (tx) =>
        await dropLoose(tx, tenantId, await new FileStore(tx.db).stale(tenantId, before, SWEEP_BATCH))
      );
    } while (count > 0);
  }

  async erase(keys: readonly string[]): Promise<void> {
    for (const key of keys) await this.#deps.blobs.delete(key);
  }

  async purgeRoom(links: FileLinks, tenantId: string, roomId: string): Promise<void> {
    while (await this.#deps.store.write((tx) => links.unlinkRoom(tx, tenantId, roomId)));
  }

  async #row(actor: Actor, id: string): Promise<FileRow> {
    const [row] = await new FileStore(this.#deps.store.db).many(actor.tenantId, [id]);
    if (row !== undefined && await this.#isReadable(actor, row)) return row;
    throw new Fault("not_found", "No such file, or not visible to the caller");
  }

  async #isInAll(actor: Actor, rooms: readonly { room_id: string; seq: number }[]): Promise<boolean> {
    const showing = rooms.filter(({ seq }) => seq !== SEEN_BY_NONE);
    const entries = await Promise.all(showing.map(({ room_id }) => this.#deps.gate.look(actor, room_id)));
    return entries.every((entry) => entry !== undefined && entry.role !== null);
  }

  async #isReadable(actor: Actor, row: FileRow): Promise<boolean> {
    if (row.uploader_id === actor.principalId) return true;
    const files = new FileStore(this.#deps.store.db);
    for (const { room_id, seq } of await files.rooms(actor.tenantId, row.id)) {
      const entry = await this.#deps.gate.look(actor, room_id);
      if (entry !== undefined && seq > hiddenUpTo(entry)) return true;
    }
    return await files.isAvatar(actor.tenantId, row.id) &&
      await this.#deps.acquaintances.isKnown(actor, row.uploader_id);
  }
}
