// Sync: a snapshot with the positions it is true for, then everything after those positions, whole or started over.
import type { Actor } from "@/core/actor.ts";
import type { Clock } from "@/core/clock.ts";
import { principalStream, roomStream, shownTo, type StoredEvent } from "@/core/event.ts";
import { Fault } from "@/core/fault.ts";
import type { Context } from "@/core/operation.ts";
import type { Cursors } from "@/core/page.ts";
import type { IdentityService } from "@/modules/identity/mod.ts";
import { presentUnread, type UnreadCounter } from "@/modules/message/mod.ts";
import {
  checkHears,
  effectiveRole,
  hiddenUpTo,
  PRESENCE_MAX,
  presentRoom,
  readIn,
  type SeenRoom,
  seer,
  type UnreadCounts,
} from "@/modules/room/mod.ts";
import type { Presence } from "@/ports/presence.ts";
import { type Store, streamKey } from "@/ports/store.ts";
import { packPlaces, placeKey, type Places, unpackPlaces } from "./cursor.ts";
import {
  EVENT_BYTES_MAX,
  EVENTS_MAX,
  PRESENT_MAX,
  PRESENT_ROOMS_MAX,
  type Sync,
  type SyncEvent,
  type SyncRead,
} from "./schema.ts";
import { type Now, SyncStore, type SyncTables } from "./store.ts";
import type { StreamWatch } from "./watch.ts";

/** Events read at once, so that what is too much to be told is not read as a whole first. */
const PAGE = 100;

type Deps = {
  store: Store<SyncTables>;
  clock: Clock;
  cursors: Cursors;
  identity: Pick<IdentityService, "read">;
  /** The caller with the rights left to it; `undefined` when its token counts no more. */
  revalidate: (actor: Actor) => Promise<Actor | undefined>;
  watch: Pick<StreamWatch, "open">;
  presence: Pick<Presence, "listMany">;
  unreads: Pick<UnreadCounter, "count">;
};

/** Where a cursor says the caller stands. */
type Since = { epoch: string; seq: number; places: Places };

/** What a delta is made of. */
type Delta = { now: Now; rooms: Comparison; events: StoredEvent[] };
type Comparison = { seen: SeenRoom[]; fresh: SeenRoom[]; moved: { room: SeenRoom; from: number }[]; left: string[] };

export class SyncService {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  async read(context: Context, { since, wait }: SyncRead): Promise<Sync> {
    const { actor } = context;
    checkHears(actor);
    // Makes the stream when nothing was ever told, so that it has an epoch.
    await this.#deps.store.log.position(actor.tenantId, principalStream(actor.principalId));
    if (since === undefined) return await this.#start(actor, false);
    const from = this.#open(actor, since);
    if (wait > 0) await this.#wait(actor, from, wait * 1000, context.signal);
    const delta = await this.#delta(actor, from);
    const sync = delta === undefined ? await this.#start(actor, true) : await this.#answer(actor, from, delta);
    if (wait > 0) await this.#assertStands(actor);
    return sync;
  }

  /** Asked after a wait and once all has been read: the token may have been revoked meanwhile, the caller or its owner disabled. */
  async #assertStands(actor: Actor): Promise<void> {
    if (await this.#deps.revalidate(actor) !== undefined) return;
    throw new Fault("token_revoked", "The token was revoked, or the principal or its owner disabled");
  }

  async #start(actor: Actor, limited: boolean): Promise<Sync> {
    const now = await this.#now(actor);
    const rooms = now.rooms.filter((room) => isSeen(actor, room));
    const unreads = await this.#unreads(actor, rooms);
    return {
      ...await this.#frame(actor, now, rooms),
      limited,
      rooms: rooms.map((room) => present(actor, room, unreads)),
      leftRoomIds: [],
      unreads: rooms.map((room) => presentUnread(room, unreads)),
      positions: [ownPosition(actor, now), ...rooms.map(positionOf)],
      events: [],
    };
  }

  async #answer(actor: Actor, from: Since, { now, rooms, events }: Delta): Promise<Sync> {
    const told = new Set(readRooms(events));
    const touched = rooms.seen.filter((room) =>
      told.has(room.id) || rooms.fresh.includes(room) || rooms.moved.some((moved) => moved.room === room)
    );
    const unreads = await this.#unreads(actor, touched);
    const moved = [...rooms.fresh, ...rooms.moved.map(({ room }) => room)];
    return {
      ...await this.#frame(actor, now, rooms.seen),
      limited: false,
      rooms: rooms.fresh.map((room) => present(actor, room, unreads)),
      leftRoomIds: rooms.left,
      unreads: touched.map((room) => presentUnread(room, unreads)),
      positions: [...(now.own?.head ?? 0) > from.seq ? [ownPosition(actor, now)] : [], ...moved.map(positionOf)],
      events: events.map((event): SyncEvent => ({
        channel: event.stream,
        seq: event.seq,
        ...JSON.parse(event.json),
      })),
    };
  }

  /** Counted up to the positions. What was deleted since is not among them, and the next answer tells of it. */
  #unreads({ tenantId, principalId }: Actor, rooms: readonly SeenRoom[]): Promise<UnreadCounts> {
    return this.#deps.unreads.count(tenantId, principalId, rooms.flatMap(readIn));
  }

  async #frame(
    actor: Actor,
    now: Now,
    rooms: readonly SeenRoom[],
  ): Promise<Pick<Sync, "cursor" | "principal" | "unreadNotificationCount" | "presence">> {
    const places = new Map(rooms.map((room) => [placeKey(room.id, room.epoch ?? ""), room.head ?? 0]));
    const [principal, presence] = await Promise.all([
      this.#deps.identity.read(actor, "me"),
      this.#presence(actor, rooms),
    ]);
    return {
      cursor: this.#deps.cursors.seal([now.own?.epoch ?? "", now.own?.head ?? 0, packPlaces(places)], bindOf(actor)),
      principal,
      unreadNotificationCount: now.unreadNotifications,
      presence,
    };
  }

  /** Who is on the channels of these rooms, which the caller sees and might subscribe to. */
  async #presence({ tenantId }: Actor, rooms: readonly SeenRoom[]): Promise<Sync["presence"]> {
    const keys = rooms.filter((room) => room.member_count <= PRESENCE_MAX).slice(0, PRESENT_ROOMS_MAX)
      .map((room) => streamKey(tenantId, roomStream(room.id)));
    const channels = [...(await this.#deps.presence.listMany(keys)).values()];
    const told = channels.filter((clients) => clients.length <= PRESENCE_MAX);
    const principalIds = new Set(told.flat().map(({ user }) => user));
    return [...principalIds].slice(0, PRESENT_MAX).map((principalId) => ({ principalId }));
  }

  #open(actor: Actor, cursor: string): Since {
    const [epoch, seq, packed] = this.#deps.cursors.open(cursor, bindOf(actor)) ?? [];
    return { epoch: String(epoch), seq: Number(seq), places: unpackPlaces(String(packed)) };
  }

  /** Everything between a cursor and now; `undefined` when that is too much or no longer kept. */
  async #delta(actor: Actor, from: Since): Promise<Delta | undefined> {
    const now = await this.#now(actor);
    if (now.own?.epoch !== from.epoch || now.own.head < from.seq) {
      throw new Fault("epoch_changed", "Positions started anew; start over without `since`");
    }
    const { tenantId, principalId } = actor;
    const own = await this.#events(tenantId, [
      { stream: principalStream(principalId), after: from.seq, head: now.own.head, hidden: 0 },
    ]);
    if (own === undefined) return undefined;
    const interrupted = interruptedRooms(own);
    const rooms = compare(actor, from, now, interrupted);
    const seen = new Set(rooms.seen.map((room) => room.id));
    rooms.left.push(...interrupted.difference(seen).difference(new Set(rooms.left)));
    const others = await this.#events(
      tenantId,
      rooms.moved.map(({ room, from: after }) => ({
        stream: roomStream(room.id),
        after,
        head: room.head ?? 0,
        hidden: hiddenUpTo({ room }),
      })),
    );
    return others === undefined ? undefined : { now, rooms, events: [...own, ...others] };
  }

  /**
   * What the log has of these streams, less what is about `hidden` positions; it does not change any more, so it may be read
   * after the positions.
   */
  async #events(
    tenantId: string,
    streams: readonly { stream: string; after: number; head: number; hidden: number }[],
  ): Promise<StoredEvent[] | undefined> {
    const missing = streams.reduce((sum, { after, head }) => sum + head - after, 0);
    if (missing > EVENTS_MAX) return undefined;
    const events: StoredEvent[] = [];
    let bytes = 0;
    for (const { stream, after, head, hidden } of streams) {
      for (let last = after; last < head;) {
        const read = await this.#deps.store.log.read(tenantId, stream, last, Math.min(PAGE, head - last));
        bytes += read.reduce((sum, event) => sum + event.json.length, 0);
        if (read[0]?.seq !== last + 1 || bytes > EVENT_BYTES_MAX) return undefined;
        events.push(...read.map((event) => shownTo(event, hidden)));
        last += read.length;
      }
    }
    return events;
  }

  /** Waits until there is something after the cursor, or for as long as the caller wants and its token lasts. */
  async #wait(actor: Actor, from: Since, waitMs: number, signal: AbortSignal | undefined): Promise<void> {
    const leftMs = (actor.expiresAt ?? Infinity) - this.#deps.clock.now();
    const endsAt = performance.now() + Math.min(waitMs, leftMs);
    const before = await this.#now(actor);
    if (!isQuiet(actor, from, before)) return;
    const rooms = before.rooms.filter((room) => isSeen(actor, room));
    const streams = [principalStream(actor.principalId), ...rooms.map((room) => roomStream(room.id))];
    const watching = await this.#deps.watch.open(actor.tenantId, streams);
    try {
      // Once more, now that nothing can slip past: it may have happened while the watch was being opened.
      while (isQuiet(actor, from, await this.#now(actor))) {
        if (!await watching.next(endsAt - performance.now(), signal)) return;
      }
    } finally {
      watching.close();
    }
  }

  #now(actor: Actor): Promise<Now> {
    return new SyncStore(this.#deps.store.db).now(seer(actor));
  }
}

function bindOf({ tenantId, principalId }: Actor): unknown {
  return ["sync", tenantId, principalId];
}

function isSeen(actor: Actor, room: SeenRoom): boolean {
  return room.state !== "deleted" && effectiveRole(actor, room) !== undefined;
}

function isQuiet(actor: Actor, from: Since, now: Now): boolean {
  if (now.own?.epoch !== from.epoch || now.own.head !== from.seq) return false;
  const { fresh, moved, left } = compare(actor, from, now);
  return fresh.length === 0 && moved.length === 0 && left.length === 0;
}

/** Which rooms are new since a cursor, which moved, which are seen no more although the caller is still a member. */
function compare(actor: Actor, from: Since, now: Now, interrupted: ReadonlySet<string> = new Set()): Comparison {
  const result: Comparison = { seen: [], fresh: [], moved: [], left: [] };
  for (const room of now.rooms) {
    const before = from.places.get(placeKey(room.id, room.epoch ?? ""));
    if (!isSeen(actor, room)) {
      if (before !== undefined) result.left.push(room.id);
      continue;
    }
    result.seen.push(room);
    const hidden = hiddenUpTo({ room });
    // Whoever was out of a room meanwhile starts there anew: it may not be told what happened without it.
    const isFresh = before === undefined || before < hidden || before > (room.head ?? 0) || interrupted.has(room.id);
    if (isFresh) result.fresh.push(room);
    else if (before < (room.head ?? 0)) result.moved.push({ room, from: before });
  }
  return result;
}

/** Rooms that the caller was put out of, whether or not it is back, or that were deleted. */
function interruptedRooms(own: readonly StoredEvent[]): Set<string> {
  const gone = own.filter(({ type }) => type === "member.left" || type === "room.deleted");
  return new Set(gone.map((event): string => JSON.parse(event.json).data.roomId));
}

/** Rooms whose read position moved. */
function readRooms(events: readonly StoredEvent[]): string[] {
  return events.filter((event) => event.type === "read.updated").map((event) => JSON.parse(event.json).data.roomId);
}

function present(actor: Actor, room: SeenRoom, unreads: UnreadCounts): Sync["rooms"][number] {
  return presentRoom({ room, role: effectiveRole(actor, room) ?? null }, unreads);
}

function positionOf(room: SeenRoom): Sync["positions"][number] {
  return { channel: roomStream(room.id), epoch: room.epoch ?? "", offset: room.head ?? 0 };
}

function ownPosition(actor: Actor, now: Now): Sync["positions"][number] {
  return { channel: principalStream(actor.principalId), epoch: now.own?.epoch ?? "", offset: now.own?.head ?? 0 };
}
