// Changes of a document besides its content: title, place, lock, state; and who may read a private one.
import { type Clock, iso } from "@/core/clock.ts";
import { principalStream, roomStream } from "@/core/event.ts";
import { Fault } from "@/core/fault.ts";
import type { Context } from "@/core/operation.ts";
import { checkVersion } from "@/core/patch.ts";
import { type IdentityService, idOf } from "@/modules/identity/mod.ts";
import type { Store, Transaction } from "@/ports/store.ts";
import { type DocumentEntry, type DocumentGate, isModerator } from "./access.ts";
import { CommentStore } from "./comment/store.ts";
import type { ContentLog } from "./content/log.ts";
import { presentDocument, silenceAll, tell } from "./presenter.ts";
import {
  type AccessPut,
  type AccessRef,
  type Document,
  type DocumentAccess,
  type DocumentUpdate,
  READERS_MAX,
} from "./schema.ts";
import { type DocumentIndex, indexDocument } from "./searchable.ts";
import { RIGHTS_SIGNAL } from "./service.ts";
import { DocumentStore } from "./store.ts";
import type { AccessRole, AccessRow, DocumentRow, DocumentTables } from "./tables.ts";
import { checkPlace, holdDescendants } from "./tree.ts";

type Tx = Transaction<DocumentTables>;
type Deps = {
  store: Store<DocumentTables>;
  clock: Clock;
  gate: DocumentGate;
  log: ContentLog;
  identity: IdentityService;
  index?: DocumentIndex | undefined;
};

/** Roles of readers on the ladder of rooms. */
export const ROLES: Readonly<Record<DocumentAccess["role"], AccessRole>> = {
  reader: "observer",
  editor: "member",
  owner: "owner",
};

export class DocumentEditor {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  update(context: Context, { id, version, ...input }: DocumentUpdate): Promise<Document> {
    const { gate } = this.#deps;
    const isMove = input.parentId !== undefined || input.roomId !== undefined;
    return gate.hold(context, id, async (entry) => {
      const { tx, row } = entry;
      checkVersion("document", row.version, version);
      checkChange(entry, input);
      const roomId = input.roomId ?? row.room_id;
      const isLeaving = roomId !== row.room_id;
      if (isLeaving && roomId !== null) await gate.enterRoom(context, roomId);
      const parentId = input.parentId === undefined ? (isLeaving ? null : row.parent_id) : input.parentId;
      if (parentId !== row.parent_id || isLeaving) await checkPlace(context, tx, gate, roomId, parentId, row);
      // Held before anything is told: whoever holds one of them may be about to tell the room.
      const under = isLeaving ? await holdDescendants(tx, row) : [];
      if (isLeaving) await gate.checkTaking(context.actor, [row, ...under]);
      const saved = await this.#save(context, tx, row, {
        ...row,
        title: input.title ?? row.title,
        parent_id: parentId,
        room_id: roomId,
        is_locked: input.locked === undefined ? row.is_locked : Number(input.locked),
        state: input.state ?? row.state,
        metadata_json: input.metadata === undefined ? row.metadata_json : JSON.stringify(input.metadata),
      });
      for (const one of under) await this.#save(context, tx, one, { ...one, room_id: roomId });
      return presentDocument(saved);
    }, { isBranch: isMove });
  }

  async readers(context: Context, id: string): Promise<{ items: DocumentAccess[] }> {
    const { row } = await this.#deps.gate.enter(context, id);
    checkPrivate(row);
    const rows = await new DocumentStore(this.#deps.store.db).readers(row.tenant_id, id);
    return { items: rows.map(presentAccess) };
  }

  share(context: Context, { id, principalId: ref, role }: AccessPut): Promise<DocumentAccess> {
    const principalId = idOf(context.actor, ref);
    return this.#deps.gate.hold(context, id, async ({ tx, row }) => {
      checkPrivate(row);
      const { tenantId } = context.actor;
      if (!(await this.#deps.identity.enabledFor(context.actor, [principalId])).has(principalId)) {
        throw new Fault("not_found", `No principal ${principalId}`);
      }
      const documents = new DocumentStore(tx.db);
      const readers = await documents.readers(tenantId, id);
      const rest = readers.filter((reader) => reader.principal_id !== principalId);
      if (role !== "owner") await checkOwned(documents, row, principalId);
      if (rest.length >= READERS_MAX) throw new Fault("limit_reached", `At most ${READERS_MAX} readers`);
      const access: AccessRow = {
        tenant_id: tenantId,
        document_id: id,
        principal_id: principalId,
        role: ROLES[role],
      };
      await documents.putReader(access);
      await this.#index(tx, row);
      tx.signal({ kind: RIGHTS_SIGNAL, tenantId, id });
      const data = { document: presentDocument(row), changed: ["access"], principalIds: [context.actor.principalId] };
      await tell(tx, row, "document.updated", data, context.actor);
      return presentAccess(access);
    });
  }

  async unshare(context: Context, { id, principalId: ref }: AccessRef): Promise<void> {
    const { actor } = context;
    const principalId = idOf(actor, ref);
    // Anybody may leave.
    const access = principalId === actor.principalId
      ? { ...context.access, room: "observer" as const }
      : context.access;
    await this.#deps.gate.hold({ ...context, access }, id, async ({ tx, row }) => {
      checkPrivate(row);
      const documents = new DocumentStore(tx.db);
      const heard = await documents.audience(row.tenant_id, id);
      const left = await documents.roleOf(row.tenant_id, id, principalId);
      if (left === undefined) throw new Fault("not_found", `The document is not shared with ${principalId}`);
      if (left.role === "owner") await checkOwned(documents, row, principalId);
      await documents.removeReader(row.tenant_id, id, principalId);
      await this.#index(tx, row);
      tx.signal({ kind: RIGHTS_SIGNAL, tenantId: row.tenant_id, id });
      // Agents of whoever is gone are gone as well.
      const stay = new Set(await documents.audience(row.tenant_id, id));
      await tx.emit(
        ...heard.filter((one) => !stay.has(one)).map((one) => ({
          tenantId: row.tenant_id,
          stream: principalStream(one),
          type: "document.deleted",
          actor,
          data: { documentId: id, roomId: null, reason: "unshared" },
        })),
      );
    });
  }

  async #save({ actor }: Context, tx: Tx, before: DocumentRow, changed: DocumentRow): Promise<DocumentRow> {
    const [was, is] = [presentDocument(before), presentDocument(changed)];
    const fields = Object.entries(was).filter(([field, value]) =>
      JSON.stringify(value) !== JSON.stringify(is[field as keyof Document]) // a field of the one is a field of the other
    ).map(([field]) => field);
    if (fields.length === 0) return before;
    const row: DocumentRow = {
      ...changed,
      version: before.version + 1,
      updated_at: iso(this.#deps.clock.now()),
    };
    const { title, parent_id, room_id, is_locked, state, metadata_json, version, updated_at } = row;
    const set = { title, parent_id, room_id, is_locked, state, metadata_json, version, updated_at };
    if (before.room_id !== row.room_id) await this.#tellLeft(tx, actor, before);
    await new DocumentStore(tx.db).update(row.tenant_id, [row.id], set);
    await this.#index(tx, row);
    tx.signal({ kind: RIGHTS_SIGNAL, tenantId: row.tenant_id, id: row.id });
    if (row.deleted_at === null) {
      const data = { document: presentDocument(row), changed: fields, principalIds: [actor.principalId] };
      await tell(tx, row, "document.updated", data, actor);
    }
    return row;
  }

  async #index(tx: Tx, row: DocumentRow): Promise<void> {
    await indexDocument(tx, this.#deps.index, row, (await this.#deps.log.text(row)).text);
  }

  /** For those it left, it is gone; readers of a private document it is none any more either. */
  async #tellLeft(tx: Tx, actor: Context["actor"], row: DocumentRow) {
    const { tenant_id: tenantId, id, room_id: roomId } = row;
    const documents = new DocumentStore(tx.db);
    const readers = await documents.readers(tenantId, id);
    const streams = roomId === null
      ? (await documents.audience(tenantId, id)).map(principalStream)
      : [roomStream(roomId)];
    const data = { documentId: id, roomId, reason: "moved" };
    await tx.emit(...streams.map((stream) => ({ tenantId, stream, type: "document.deleted", actor, data })));
    // Whoever deletes a comment later finds only what was told where the document is by then.
    if (await new CommentStore(tx.db).count(tenantId, id) > 0) await silenceAll(tx, row, iso(this.#deps.clock.now()));
    for (const reader of readers) await documents.removeReader(tenantId, id, reader.principal_id);
  }
}

function checkChange(
  { row, role }: DocumentEntry,
  { locked, title, metadata, ...place }: Omit<DocumentUpdate, "id">,
): void {
  const isManaging = locked !== undefined || (row.room_id === null && place.roomId !== undefined);
  if ((isManaging || row.is_locked === 1) && !isModerator(role)) {
    throw new Fault("forbidden", "Locking, and changing what is locked, is for moderators of the room");
  }
  const isChanging = title !== undefined || metadata !== undefined || place.parentId !== undefined ||
    place.roomId !== undefined;
  if (row.state === "archived" && place.state !== "active" && isChanging) {
    throw new Fault("conflict", "The document is archived; make it active first");
  }
}

function checkPrivate(row: DocumentRow): void {
  if (row.room_id !== null) throw new Fault("conflict", "Who reads a document of a room is the room's business");
}

/** Throws unless a private document keeps an owner when `principalId` is none any more. */
async function checkOwned(documents: DocumentStore, row: DocumentRow, principalId: string): Promise<void> {
  if (await documents.hasOtherOwner(row.tenant_id, row.id, principalId)) return;
  throw new Fault("conflict", "A private document keeps an owner who is no agent");
}

/** A reader as others see them. */
export function presentAccess({ principal_id: principalId, role }: AccessRow): DocumentAccess {
  return { principalId, role: role === "observer" ? "reader" : role === "member" ? "editor" : "owner" };
}
