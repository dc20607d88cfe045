// What happens to saved messages without a call: reminders, and the end of messages and rooms.
import type { Actor } from "@/core/actor.ts";
import { principalStream } from "@/core/event/event.ts";
import type { IdentityService } from "@/modules/identity/mod.ts";
import type { MessageAccess } from "@/modules/message/mod.ts";
import type { NotificationService } from "@/modules/notification/mod.ts";
import type { AnyDatabase, Store } from "@/ports/store.ts";
import { removedEvents, type Tables, updatedEvent } from "./service.ts";
import { type SavedMessageRow, SavedMessageStore } from "./store.ts";

export const ERASE_JOB = "saved_message.erase";
const BATCH = 200;

type Deps = {
  store: Store<Tables>;
  identity: IdentityService;
  access: MessageAccess;
  notifications: NotificationService;
};

export class SavedMessageUpkeep {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Notifies who saved a message, if they may still read it. The reminder ends in the same commit, so it is sent once. */
  async remind(tenantId: string, { id, remindAt }: { id: string; remindAt: string }): Promise<void> {
    const { store, notifications } = this.#deps;
    await store.write(async (tx) => {
      const saved = new SavedMessageStore(tx.db);
      const found = await saved.find(tenantId, id);
      if (found === undefined) return;
      await tx.lock(tenantId, principalStream(found.principal_id));
      const row = await saved.find(tenantId, id);
      if (row?.remind_at !== remindAt) return;
      await saved.update(tenantId, id, { remind_at: null });
      await tx.emit(updatedEvent({ ...row, remind_at: null }));
      if (!await this.#isVisible(row, tx.db)) return;
      // Without its position: reading the room does not mark the reminder as read.
      await notifications.notify({
        tenantId,
        principalIds: [row.principal_id],
        kind: "message_reminder",
        roomId: row.room_id,
        message: { id: row.message_id },
      });
    });
  }

  async #isVisible({ tenant_id: tenantId, principal_id: id, message_id }: SavedMessageRow, db: AnyDatabase) {
    const { identity, access } = this.#deps;
    if (!(await identity.findEnabled(tenantId, [id], db)).has(id)) return false;
    const subject = await identity.subject(tenantId, id, db);
    const actor: Actor = { ...subject, displayName: id, scopes: undefined, tokenId: undefined, expiresAt: undefined };
    return (await access.findVisible(actor, [message_id], db)).size > 0;
  }

  /** Nobody can read the messages now; a job removes them where they are saved. */
  async eraseMessages(tenantId: string, messageIds: readonly string[]): Promise<void> {
    await this.#deps.store.write(async (tx) => {
      const saved = await new SavedMessageStore(tx.db).filterSaved(tenantId, messageIds);
      if (saved.length > 0) await tx.enqueue({ tenantId, kind: ERASE_JOB, payload: { messageIds: saved } });
    });
  }

  /** Removes deleted messages, and reminders of them. */
  async erase(tenantId: string, messageIds: readonly string[]): Promise<void> {
    await this.#removeAll(tenantId, "message_id", messageIds);
    await this.#deps.notifications.withdraw(tenantId, "message_id", ...messageIds);
  }

  purgeRoom(tenantId: string, roomId: string): Promise<void> {
    return this.#removeAll(tenantId, "room_id", [roomId]);
  }

  async #removeAll(tenantId: string, about: "message_id" | "room_id", ids: readonly string[]): Promise<void> {
    for (let isMore = true; isMore;) {
      isMore = await this.#deps.store.write(async (tx) => {
        const saved = new SavedMessageStore(tx.db);
        const rows = await saved.findAbout(tenantId, about, ids, BATCH);
        if (rows.length === 0) return false;
        await saved.remove(tenantId, rows.map((row) => row.id));
        await tx.emit(...removedEvents(tenantId, rows));
        return rows.length === BATCH;
      });
    }
  }
}
