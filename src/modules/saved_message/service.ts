// Saved messages: references that only who saved them sees, while the message is there and visible to them.
import type { Actor } from "@/core/actor.ts";
import { type Clock, iso } from "@/core/time/clock.ts";
import { type EventDraft, principalEvent, principalStream } from "@/core/event/event.ts";
import { Fault, notFound } from "@/core/fault.ts";
import { newId } from "@/core/id.ts";
import type { JobDraft } from "@/core/job.ts";
import type { Context } from "@/core/operation.ts";
import type { Cursors } from "@/core/page.ts";
import type { MessageAccess, MessageService, MessageTables } from "@/modules/message/mod.ts";
import type { RoomPeople } from "@/modules/room/mod.ts";
import type { Store, Transaction } from "@/ports/store.ts";
import {
  REMINDER_AHEAD_MS,
  SAVED_MAX,
  type SavedMessage,
  type SavedMessageList,
  type SavedMessagePut,
  type SavedMessages,
} from "./schema.ts";
import { type SavedMessageRow, SavedMessageStore, type SavedMessageTables } from "./store.ts";

export const REMIND_JOB = "saved_message.remind";

export type Tables = SavedMessageTables & MessageTables;
type Deps = {
  store: Store<Tables>;
  clock: Clock;
  cursors: Cursors;
  messages: Pick<MessageService, "present" | "require">;
  access: MessageAccess;
  people: RoomPeople;
};

export class SavedMessageService {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Saves a message, or changes how it is saved; idempotent. */
  put(context: Context, { id: messageId, ...given }: SavedMessagePut): Promise<SavedMessage> {
    const { tenantId, principalId } = context.actor;
    const { store, clock, messages } = this.#deps;
    const now = clock.now();
    if (given.state === "done" && (given.remindAt ?? null) !== null) {
      throw Fault.forField("/remindAt", "not_allowed", "expected no reminder of a message that is done");
    }
    return store.write(async (tx) => {
      const { roomId, deletedAt } = await messages.require(tx, context, messageId);
      if (deletedAt !== null) throw new Fault("not_found", "The message is deleted");
      await tx.lock(tenantId, principalStream(principalId));
      const saved = new SavedMessageStore(tx.db);
      const before = await saved.findOwn(context.actor, messageId);
      const { state, remindAt } = planned(given, before);
      if (before?.state === state && before.remind_at === remindAt) return presentSaved(before);
      const at = remindAt === null ? undefined : Date.parse(remindAt);
      if (at !== undefined && before?.remind_at !== remindAt && (at <= now || at > now + REMINDER_AHEAD_MS)) {
        throw Fault.forField("/remindAt", "out_of_range", "expected a time in the future, at most one year ahead");
      }
      if (before === undefined && await saved.count(context.actor) >= SAVED_MAX) {
        await this.#makeRoom(tx, context.actor);
      }
      const row: SavedMessageRow = {
        tenant_id: tenantId,
        id: newId("sav"),
        principal_id: principalId,
        message_id: messageId,
        room_id: roomId,
        saved_at: iso(now),
        ...before,
        state,
        remind_at: remindAt,
      };
      if (before === undefined) await saved.add(row);
      else await saved.update(tenantId, row.id, { state, remind_at: remindAt });
      const job = reminderJob(row);
      if (job !== undefined) await tx.enqueue(job);
      await tx.emit(updatedEvent(row));
      return presentSaved(row);
    });
  }

  /** Removes the oldest one that its owner no longer sees: it can neither be found nor removed there. */
  async #makeRoom(tx: Transaction<Tables>, actor: Actor): Promise<void> {
    const saved = new SavedMessageStore(tx.db);
    const rows = await saved.list(actor, undefined, undefined, SAVED_MAX);
    const visible = await this.#deps.access.findVisible(actor, rows.map((row) => row.message_id), tx.db);
    const hidden = rows.findLast((row) => !visible.has(row.message_id));
    if (hidden === undefined) throw new Fault("limit_reached", `A principal has at most ${SAVED_MAX} saved messages`);
    await saved.remove(actor.tenantId, [hidden.id]);
    await tx.emit(...removedEvents(actor.tenantId, [hidden]));
  }

  /** Those of the caller that it may read now; others stay hidden. */
  async list(actor: Actor, { limit, cursor, state, include }: SavedMessageList): Promise<SavedMessages> {
    const { store, cursors, access, messages, people } = this.#deps;
    const bind = ["saved_message.list", actor.tenantId, actor.principalId, state ?? null];
    const rows = await new SavedMessageStore(store.db).list(actor, state, cursors.decodeId(cursor, bind), limit + 1);
    const page = cursors.page(rows, limit, bind, (row) => [row.id], (row) => row);
    const visible = await access.findVisible(actor, page.items.map((row) => row.message_id));
    const shown = await messages.present(actor, [...visible.values()]);
    const byId = new Map(shown.map((message) => [message.id, message]));
    const items = page.items.flatMap((row) => {
      const message = byId.get(row.message_id);
      return message === undefined ? [] : [{ ...presentSaved(row), message }];
    });
    return include.includes("senders")
      ? { ...page, items, senders: await people.sendersOf(actor, shown) }
      : { ...page, items };
  }

  async remove(actor: Actor, messageId: string): Promise<void> {
    const { tenantId, principalId } = actor;
    await this.#deps.store.write(async (tx) => {
      await tx.lock(tenantId, principalStream(principalId));
      const saved = new SavedMessageStore(tx.db);
      const row = await saved.findOwn(actor, messageId);
      if (row === undefined) throw notFound("saved message");
      await saved.remove(tenantId, [row.id]);
      await tx.emit(...removedEvents(tenantId, [row]));
    });
  }
}

/** How a message is saved after a call. */
function planned(
  { state, remindAt }: Omit<SavedMessagePut, "id">,
  before: SavedMessageRow | undefined,
): Pick<SavedMessage, "state" | "remindAt"> {
  const next = state ?? (remindAt ? "open" : before?.state ?? "open");
  return {
    state: next,
    remindAt: next === "done" ? null : remindAt === undefined ? before?.remind_at ?? null : remindAt,
  };
}

/** The job that notifies of a saved message; one that moved or was removed does nothing at its earlier time. */
export function reminderJob({ tenant_id: tenantId, id, remind_at: remindAt }: SavedMessageRow): JobDraft | undefined {
  if (remindAt === null) return undefined;
  return { tenantId, kind: REMIND_JOB, key: id, payload: { id, remindAt }, runAt: Date.parse(remindAt) };
}

export function updatedEvent(row: SavedMessageRow): EventDraft {
  return principalEvent({ tenantId: row.tenant_id }, row.principal_id, "saved_message.updated", {
    savedMessage: presentSaved(row),
  });
}

/** One event for each principal. */
export function removedEvents(tenantId: string, rows: readonly SavedMessageRow[]): EventDraft[] {
  return [...Map.groupBy(rows, (row) => row.principal_id)].map(([principalId, own]) =>
    principalEvent({ tenantId }, principalId, "saved_message.removed", { messageIds: own.map((row) => row.message_id) })
  );
}

export function presentSaved(row: SavedMessageRow): SavedMessage {
  return {
    messageId: row.message_id,
    roomId: row.room_id,
    state: row.state,
    remindAt: row.remind_at,
    savedAt: row.saved_at,
  };
}
