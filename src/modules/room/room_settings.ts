// Settings of members: which messages notify them, what their badge counts, and their favorite rooms.
import type { Clock } from "@/core/time/clock.ts";
import { principalEvent } from "@/core/event/event.ts";
import { Fault, notVisible } from "@/core/fault.ts";
import type { Context } from "@/core/operation.ts";
import { patchedOr } from "@/core/patch.ts";
import type { Store } from "@/ports/store.ts";
import type { RoomAccess } from "./room_access.ts";
import type { RoomSettings, RoomSettingsUpdate } from "./schema.ts";
import { type MemberSettingsRow, RoomStore, type RoomTables, type ViewedRoom } from "./store.ts";

type Deps = { store: Store<RoomTables>; clock: Clock; roomAccess: RoomAccess };
type Counts = { unreadCount: number; mentionCount: number };
/** The settings that decide about notifications; null without membership. */
type NotifySettings = { notify_level: MemberSettingsRow["notify_level"] | null; muted_until: string | null };

export class RoomSettingsService {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Updates the caller's settings of a room; without a difference, no event is published. */
  update(context: Context, { id, level, mutedUntil, favoriteOrder }: RoomSettingsUpdate): Promise<RoomSettings> {
    const { actor } = context;
    const { tenantId, principalId } = actor;
    const { store, clock, roomAccess } = this.#deps;
    if (typeof mutedUntil === "string" && Date.parse(mutedUntil) <= clock.now()) {
      throw Fault.forField("/mutedUntil", "out_of_range", "expected a time in the future, or null");
    }
    return store.write(async (tx) => {
      const { room } = await roomAccess.requireForUpdate(tx, context, id);
      const before = presentSettings(room);
      if (before === null) throw notVisible("room");
      const after: RoomSettings = {
        level: level ?? before.level,
        mutedUntil: patchedOr(mutedUntil, before.mutedUntil),
        favoriteOrder: patchedOr(favoriteOrder, before.favoriteOrder),
      };
      if (JSON.stringify(after) === JSON.stringify(before)) return before;
      await new RoomStore(tx.db).updateMemberSettings(tenantId, id, principalId, {
        notify_level: after.level,
        muted_until: after.mutedUntil,
        favorite_order: after.favoriteOrder,
      });
      const data = { roomId: id, settings: after };
      await tx.emit(principalEvent(actor, principalId, "room_settings.updated", data));
      return after;
    });
  }
}

/** Settings as the member sees them; `null` without membership. */
export function presentSettings(
  { my_notify_level: level, my_muted_until: mutedUntil, my_favorite_order: favoriteOrder }: Pick<
    ViewedRoom,
    "my_notify_level" | "my_muted_until" | "my_favorite_order"
  >,
): RoomSettings | null {
  return level === null ? null : { level, mutedUntil, favoriteOrder };
}

/** Whether a message notifies a member, for a mention or for another reason. */
export function wantsNotification(
  { notify_level: level, muted_until: mutedUntil }: NotifySettings,
  isMention: boolean,
  now: number,
): boolean {
  if (mutedUntil !== null && Date.parse(mutedUntil) > now) return false;
  return level !== "none" && (level !== "mentions" || isMention);
}

/** The badge count of a room at the member's notification level. */
export function badgeCount(
  { my_notify_level: notify_level, my_muted_until: muted_until }: Pick<
    ViewedRoom,
    "my_notify_level" | "my_muted_until"
  >,
  { unreadCount, mentionCount }: Counts,
  now: number,
): number {
  const settings = { notify_level, muted_until };
  if (wantsNotification(settings, false, now)) return unreadCount;
  return wantsNotification(settings, true, now) ? mentionCount : 0;
}
