// Sync: a snapshot with its positions, then all changes after those positions, or a new snapshot if there are too many.
import { type Actor, hasScope } from "@/core/actor.ts";
import type { Clock } from "@/core/time/clock.ts";
import { principalStream, roomStream, type StoredEvent } from "@/core/event/event.ts";
import { type EventFilterOf, redactFor } from "@/core/event/event_view.ts";
import { assertStillAuthorized, createYielder, nextTurn } from "@/core/caller.ts";
import { Fault } from "@/core/fault.ts";
import type { Context } from "@/core/operation.ts";
import type { Cursors } from "@/core/page.ts";
import type { IdentityService, PrincipalVisibility } from "@/modules/identity/mod.ts";
import { presentUnread, type UnreadCounter } from "@/modules/message/mod.ts";
import {
  assertCanReceiveEvents,
  effectiveRole,
  hiddenUpTo,
  PRESENCE_MAX,
  presentRoom,
  readPositions,
  type RoomViews,
  type UnreadCounts,
  type ViewedRoom,
  viewerOf,
} from "@/modules/room/mod.ts";
import type { Presence } from "@/ports/presence.ts";
import { type Store, streamKey } from "@/ports/store.ts";
import { packPositions, positionKey, type StreamPositions, unpackPositions } from "./cursor.ts";
import {
  EVENT_BYTES_MAX,
  EVENTS_MAX,
  PRESENT_MAX,
  PRESENT_ROOMS_MAX,
  type Sync,
  type SyncEvent,
  type SyncRead,
} from "./schema.ts";
import { type Snapshot, SyncStore, type SyncTables } from "./store.ts";
import type { StreamWaiter } from "./stream_waiter.ts";

/** Events per query, so that a delta that is too large is not read completely. */
const PAGE = 100;

type Deps = {
  store: Store<SyncTables>;
  clock: Clock;
  cursors: Cursors;
  identity: Pick<IdentityService, "read">;
  /** The caller with its current rights; `undefined` if its token is no longer valid. */
  revalidate: (actor: Actor) => Promise<Actor | undefined>;
  waiter: Pick<StreamWaiter, "open">;
  presence: Pick<Presence, "listMany">;
  visibility: Pick<PrincipalVisibility, "filterVisibleIds">;
  unreads: Pick<UnreadCounter, "count">;
  views: Pick<RoomViews, "loadExtras">;
  eventFilterOf: EventFilterOf;
};

/** The positions in a cursor. */
type CursorState = { epoch: string; seq: number; positions: StreamPositions };

/** The parts of a delta. */
type Delta = { snapshot: Snapshot; rooms: RoomChanges; events: StoredEvent[] };
type RoomChanges = {
  visible: ViewedRoom[];
  added: ViewedRoom[];
  moved: { room: ViewedRoom; from: number }[];
  left: string[];
};

export class SyncService {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  async read(context: Context, { since, wait, include }: SyncRead): Promise<Sync> {
    const { actor } = context;
    assertCanReceiveEvents(actor);
    // Creates the stream if it has no events yet, so that it has an epoch.
    await this.#deps.store.log.position(actor.tenantId, principalStream(actor.principalId));
    if (since === undefined) return await this.#fullState(actor, include, false);
    const from = this.#openCursor(actor, since);
    if (wait > 0) await this.#wait(actor, from, wait * 1000, context.signal);
    const delta = await this.#delta(actor, from);
    const sync = delta === undefined
      ? await this.#fullState(actor, include, true)
      : await this.#deltaResponse(actor, include, from, delta);
    // Once everything is read.
    if (wait > 0) await assertStillAuthorized(actor, this.#deps.revalidate);
    return sync;
  }

  async #fullState(actor: Actor, include: SyncRead["include"], limited: boolean): Promise<Sync> {
    const now = await this.#readSnapshot(actor);
    const rooms = now.rooms.filter((room) => isVisible(actor, room));
    // Each step takes milliseconds where there are thousands of rooms.
    await nextTurn();
    const unreads = await this.#unreads(actor, rooms);
    await nextTurn();
    return {
      ...await this.#commonFields(actor, now, rooms),
      limited,
      rooms: await this.#present(actor, rooms, unreads, include),
      leftRoomIds: [],
      unreads: rooms.map((room) => presentUnread(room, unreads, this.#deps.clock.now())),
      positions: [ownPosition(actor, now), ...rooms.map(positionOf)],
      events: [],
    };
  }

  async #deltaResponse(
    actor: Actor,
    include: SyncRead["include"],
    from: CursorState,
    { snapshot, rooms, events }: Delta,
  ): Promise<Sync> {
    const markedRead = new Set(roomsMarkedRead(events));
    const touched = rooms.visible.filter((room) =>
      markedRead.has(room.id) || rooms.added.includes(room) || rooms.moved.some((moved) => moved.room === room)
    );
    const unreads = await this.#unreads(actor, touched);
    const moved = [...rooms.added, ...rooms.moved.map(({ room }) => room)];
    return {
      ...await this.#commonFields(actor, snapshot, rooms.visible),
      limited: false,
      rooms: await this.#present(actor, rooms.added, unreads, include),
      leftRoomIds: rooms.left,
      unreads: touched.map((room) => presentUnread(room, unreads, this.#deps.clock.now())),
      positions: [
        ...(snapshot.own?.head ?? 0) > from.seq ? [ownPosition(actor, snapshot)] : [],
        ...moved.map(positionOf),
      ],
      events: events.map((event): SyncEvent => ({
        channel: event.stream,
        seq: event.seq,
        ...JSON.parse(event.json),
      })),
    };
  }

  async #present(
    actor: Actor,
    rooms: readonly ViewedRoom[],
    unreads: UnreadCounts,
    include: SyncRead["include"],
  ): Promise<Sync["rooms"]> {
    const extrasOf = await this.#deps.views.loadExtras(actor, rooms, include);
    const now = this.#deps.clock.now();
    const presented: Sync["rooms"] = [];
    const pause = createYielder();
    for (const room of rooms) {
      const role = effectiveRole(actor, room) ?? null;
      presented.push({ ...presentRoom({ room, role }, unreads, now), ...extrasOf(room) });
      await pause();
    }
    return presented;
  }

  /** Counted up to the positions, without messages deleted since; their events are in the next response. */
  #unreads({ tenantId, principalId }: Actor, rooms: readonly ViewedRoom[]): Promise<UnreadCounts> {
    return this.#deps.unreads.count(tenantId, principalId, rooms.flatMap(readPositions));
  }

  async #commonFields(
    actor: Actor,
    now: Snapshot,
    rooms: readonly ViewedRoom[],
  ): Promise<Pick<Sync, "cursor" | "principal" | "unreadNotificationCount" | "presence">> {
    const positions = new Map(rooms.map((room) => [positionKey(room.id, room.epoch ?? ""), room.head ?? 0]));
    const [principal, presence] = await Promise.all([
      this.#deps.identity.read(actor, "me"),
      this.#presence(actor, rooms),
    ]);
    return {
      cursor: this.#deps.cursors.encode(
        [now.own?.epoch ?? "", now.own?.head ?? 0, packPositions(positions)],
        bindOf(actor),
      ),
      principal,
      unreadNotificationCount: hasScope(actor, "notification.read") ? now.unreadNotifications : 0,
      presence,
    };
  }

  /** The principals present in these rooms, which the caller can see. */
  async #presence(actor: Actor, rooms: readonly ViewedRoom[]): Promise<Sync["presence"]> {
    const keys = rooms.filter((room) => room.member_count <= PRESENCE_MAX).slice(0, PRESENT_ROOMS_MAX)
      .map((room) => streamKey(actor.tenantId, roomStream(room.id)));
    const channels = [...(await this.#deps.presence.listMany(keys)).values()];
    const small = channels.filter((clients) => clients.length <= PRESENCE_MAX);
    const present = new Set(small.flat().map(({ user }) => user));
    const visible = await this.#deps.visibility.filterVisibleIds(actor, [...present]);
    return [...visible].slice(0, PRESENT_MAX).map((principalId) => ({ principalId }));
  }

  #openCursor(actor: Actor, cursor: string): CursorState {
    const [epoch, seq, packed] = this.#deps.cursors.decode(cursor, bindOf(actor)) ?? [];
    return { epoch: String(epoch), seq: Number(seq), positions: unpackPositions(String(packed)) };
  }

  /** Everything after a cursor; `undefined` if it is too much or no longer stored. */
  async #delta(actor: Actor, from: CursorState): Promise<Delta | undefined> {
    const snapshot = await this.#readSnapshot(actor);
    if (snapshot.own?.epoch !== from.epoch || snapshot.own.head < from.seq) {
      throw new Fault("stream_reset", "The stream was reset; start again without `since`");
    }
    const { principalId } = actor;
    const own = await this.#events(actor, [
      { stream: principalStream(principalId), after: from.seq, head: snapshot.own.head, hidden: 0 },
    ]);
    if (own === undefined) return undefined;
    const interrupted = interruptedRooms(own);
    const rooms = compareRooms(actor, from, snapshot, interrupted);
    const visible = new Set(rooms.visible.map((room) => room.id));
    rooms.left.push(...interrupted.difference(visible).difference(new Set(rooms.left)));
    const others = await this.#events(
      actor,
      rooms.moved.map(({ room, from: after }) => ({
        stream: roomStream(room.id),
        after,
        head: room.head ?? 0,
        hidden: hiddenUpTo({ room }),
      })),
    );
    return others === undefined ? undefined : { snapshot, rooms, events: [...own, ...others] };
  }

  /**
   * Events of these streams, redacted if they concern `hidden` positions or require a scope that the token lacks. Stored
   * events up to a position do not change, so they can be read after the positions.
   */
  async #events(
    actor: Actor,
    streams: readonly { stream: string; after: number; head: number; hidden: number }[],
  ): Promise<StoredEvent[] | undefined> {
    const filter = this.#deps.eventFilterOf(actor);
    const count = streams.reduce((sum, { after, head }) => sum + head - after, 0);
    if (count > EVENTS_MAX) return undefined;
    const events: StoredEvent[] = [];
    let bytes = 0;
    for (const { stream, after, head, hidden } of streams) {
      for (let last = after; last < head;) {
        const read = await this.#deps.store.log.read(actor.tenantId, stream, last, Math.min(PAGE, head - last));
        bytes += read.reduce((sum, event) => sum + event.json.length, 0);
        if (read[0]?.seq !== last + 1 || bytes > EVENT_BYTES_MAX) return undefined;
        events.push(...read.map((event) => redactFor(event, { hiddenUpTo: hidden, filter })));
        last += read.length;
      }
    }
    return events;
  }

  /** Waits for an event after the cursor, until the timeout of the caller or the expiry of its token. */
  async #wait(actor: Actor, from: CursorState, waitMs: number, signal: AbortSignal | undefined): Promise<void> {
    const leftMs = (actor.expiresAt ?? Infinity) - this.#deps.clock.now();
    const endsAt = performance.now() + Math.min(waitMs, leftMs);
    const before = await this.#readSnapshot(actor);
    if (!isUpToDate(actor, from, before)) return;
    const rooms = before.rooms.filter((room) => isVisible(actor, room));
    const streams = [principalStream(actor.principalId), ...rooms.map((room) => roomStream(room.id))];
    const watch = await this.#deps.waiter.open(actor.tenantId, streams);
    try {
      // Read again now that no event is missed: one may have been stored while the watch was being opened.
      while (isUpToDate(actor, from, await this.#readSnapshot(actor))) {
        if (!await watch.next(endsAt - performance.now(), signal)) return;
      }
    } finally {
      watch.close();
    }
  }

  #readSnapshot(actor: Actor): Promise<Snapshot> {
    return new SyncStore(this.#deps.store.db).readSnapshot(viewerOf(actor));
  }
}

function bindOf({ tenantId, principalId }: Actor): unknown {
  return ["sync", tenantId, principalId];
}

function isVisible(actor: Actor, room: ViewedRoom): boolean {
  return room.state !== "deleted" && effectiveRole(actor, room) !== undefined;
}

function isUpToDate(actor: Actor, from: CursorState, now: Snapshot): boolean {
  if (now.own?.epoch !== from.epoch || now.own.head !== from.seq) return false;
  const { added, moved, left } = compareRooms(actor, from, now);
  return added.length === 0 && moved.length === 0 && left.length === 0;
}

/** Rooms that are new since a cursor, that have new events, and that the caller can no longer see. */
function compareRooms(
  actor: Actor,
  from: CursorState,
  now: Snapshot,
  interrupted: ReadonlySet<string> = new Set(),
): RoomChanges {
  const result: RoomChanges = { visible: [], added: [], moved: [], left: [] };
  for (const room of now.rooms) {
    const before = from.positions.get(positionKey(room.id, room.epoch ?? ""));
    if (!isVisible(actor, room)) {
      if (before !== undefined) result.left.push(room.id);
      continue;
    }
    result.visible.push(room);
    const hidden = hiddenUpTo({ room });
    // After an interrupted membership the room is new: the caller must not receive the events in between.
    const isNew = before === undefined || before < hidden || before > (room.head ?? 0) || interrupted.has(room.id);
    if (isNew) result.added.push(room);
    else if (before < (room.head ?? 0)) result.moved.push({ room, from: before });
  }
  return result;
}

/** Rooms that the caller left or was removed from, even if it joined again, or that were deleted. */
function interruptedRooms(own: readonly StoredEvent[]): Set<string> {
  const ended = own.filter(({ type }) => type === "member.left" || type === "room.deleted");
  return new Set(ended.map((event): string => JSON.parse(event.json).data.roomId));
}

/** Rooms in which the read position advanced. */
function roomsMarkedRead(events: readonly StoredEvent[]): string[] {
  return events.filter((event) => event.type === "read.updated").map((event) => JSON.parse(event.json).data.roomId);
}

function positionOf(room: ViewedRoom): Sync["positions"][number] {
  return { channel: roomStream(room.id), epoch: room.epoch ?? "", offset: room.head ?? 0 };
}

function ownPosition(actor: Actor, now: Snapshot): Sync["positions"][number] {
  return { channel: principalStream(actor.principalId), epoch: now.own?.epoch ?? "", offset: now.own?.head ?? 0 };
}
