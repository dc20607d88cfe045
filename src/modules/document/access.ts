// Who may do what with a document: the room decides, or for a private one its list of readers; and whose turn it is.
import { type Actor, hasScope, isAtLeast, lowerOf, ROOM_ROLES, type RoomRole } from "@/core/actor.ts";
import { Fault } from "@/core/fault.ts";
import type { Context } from "@/core/operation.ts";
import type { RoomGate } from "@/modules/room/mod.ts";
import type { Store, Transaction } from "@/ports/store.ts";
import { DocumentStore } from "./store.ts";
import type { DocumentRow, DocumentTables } from "./tables.ts";

/** A document somebody was let to. `role` is null for one who looks into a public room. */
export type DocumentEntry = { row: DocumentRow; role: RoomRole | null };
/** A document held for a change: nobody else changes it until the transaction ends. */
export type Held = DocumentEntry & {
  tx: Transaction<DocumentTables>;
  /** Another one since the database was last restored from a copy. */
  epoch: string;
};
type Which = "live" | "deleted";

/** Sorts before `document:…`, in whose order locks are taken. */
const TREE = "document/tree";

export class DocumentGate {
  readonly #store: Store<DocumentTables>;
  readonly #gate: RoomGate;

  constructor({ store, gate }: { store: Store<DocumentTables>; gate: RoomGate }) {
    this.#store = store;
    this.#gate = gate;
  }

  /** Lets the caller to a document with the role that the running operation declares; in a private one roles count alike. */
  async enter(context: Context, id: string, which: Which = "live"): Promise<DocumentEntry> {
    const { actor } = context;
    const row = await new DocumentStore(this.#store.db).find(actor.tenantId, id);
    if (row === undefined || await this.#role(actor, row) === undefined) throw absent();
    const role = row.room_id === null
      ? await this.#enterPrivate(context, row)
      : (await this.#gate.enter(context, row.room_id)).role;
    if (row.deleted_at !== null && which === "live") throw absent();
    return { row, role };
  }

  /** Runs `work` with a document held; `isBranch`: with everything under it, so that nothing comes or goes there. */
  hold<Result>(
    context: Context,
    id: string,
    work: (held: Held) => Promise<Result>,
    { which = "live", isBranch = false }: { which?: Which; isBranch?: boolean } = {},
  ): Promise<Result> {
    return this.#store.write(async (tx) => {
      await this.enter(context, id, which);
      if (isBranch) await lockTree(tx, context.actor.tenantId);
      const epoch = await lockDocument(tx, context.actor.tenantId, id);
      return await work({ tx, epoch, ...await this.enter(context, id, which) });
    });
  }

  /** Lets the caller into a room to put a document there. */
  async enterRoom(context: Context, roomId: string): Promise<void> {
    await this.#gate.enter(context, roomId);
  }

  /**
   * Throws unless the caller may take all of these documents away, or bring them back: those they made, and those of others
   * or locked ones as a moderator of the room. Private documents that lie under one another have readers and owners each of
   * its own.
   */
  async checkTaking(actor: Actor, rows: readonly DocumentRow[]): Promise<void> {
    for (const row of rows) {
      const role = await this.#role(actor, row);
      const isTheirs = row.created_by === actor.principalId && row.is_locked === 0 && role !== undefined;
      if (isTheirs || isModerator(role ?? null)) continue;
      const detail =
        "Locked documents and those of others are moved away, deleted and restored by moderators of the room, or owners";
      throw new Fault("forbidden", detail);
    }
  }

  /** What somebody may do in an editor; `undefined`: not even read. */
  async editing(actor: Actor, id: string): Promise<{ row: DocumentRow; canWrite: boolean } | undefined> {
    const reading = editorContext(actor, "read");
    try {
      if (!hasScope(actor, "document.read")) return undefined;
      const { row } = await this.enter(reading, id);
      return { row, canWrite: await this.#mayWrite(actor, id) };
    } catch (thrown) {
      if (thrown instanceof Fault && !thrown.kind.retryable) return undefined;
      throw thrown;
    }
  }

  async #mayWrite(actor: Actor, id: string): Promise<boolean> {
    if (!hasScope(actor, "document.write")) return false;
    try {
      checkWritable(await this.enter(editorContext(actor, "write"), id));
      return true;
    } catch (thrown) {
      if (thrown instanceof Fault && !thrown.kind.retryable) return false;
      throw thrown;
    }
  }

  async #enterPrivate({ actor, access: { room: least = "observer" }, operation }: Context, row: DocumentRow) {
    const role = await this.#role(actor, row) ?? "observer";
    if (!isAtLeast(ROOM_ROLES, role, least)) {
      throw new Fault(
        "forbidden",
        `${operation} of this document needs to be its ${least === "member" ? "editor" : "owner"}`,
      );
    }
    return role;
  }

  async #role(who: Actor, row: DocumentRow): Promise<RoomRole | null | undefined> {
    if (row.room_id !== null) return (await this.#gate.look(who, row.room_id))?.role;
    const documents = new DocumentStore(this.#store.db);
    const own = (await documents.roleOf(row.tenant_id, row.id, who.principalId))?.role;
    if (own === undefined || who.ownerId === null) return own;
    const owners = (await documents.roleOf(row.tenant_id, row.id, who.ownerId))?.role;
    return owners === undefined ? undefined : lowerOf<RoomRole>(ROOM_ROLES, own, owners);
  }
}

/** Throws unless the content may be changed by somebody with this role. */
export function checkWritable({ row, role }: DocumentEntry): void {
  if (row.is_locked === 1 && !isModerator(role)) {
    throw new Fault("forbidden", "The document is locked; moderators of the room can change it");
  }
  if (row.state === "archived") throw new Fault("conflict", "The document is archived; make it active first");
}

export function isModerator(role: RoomRole | null): boolean {
  return role !== null && isAtLeast(ROOM_ROLES, role, "moderator");
}

/** An editor's right as the gate wants to be asked. */
export function editorContext(actor: Actor, right: "read" | "write"): Context {
  return {
    actor,
    requestId: "",
    access: { scope: `document.${right}`, room: right === "read" ? "observer" : "member" },
    operation: "document.sync",
    isRead: right === "read",
  };
}

/**
 * Reserving nothing in a stream that never has an event is the lock the store shares between writers of one batch. Resolves
 * to the stream's epoch.
 */
export async function lockDocument(tx: Transaction<DocumentTables>, tenantId: string, id: string): Promise<string> {
  return (await tx.reserve(tenantId, `document:${id}`, 0)).epoch;
}

/** Holds the tree of a tenant's documents; to be taken before documents. */
export async function lockTree(tx: Transaction<DocumentTables>, tenantId: string): Promise<void> {
  await tx.reserve(tenantId, TREE, 0);
}

export function absent(): Fault {
  return new Fault("not_found", "No such document, or not visible to the caller");
}
