// Secret feeds: a calendar as a file behind an address that nobody can guess, with the rights of who made it.
import { createHash } from "node:crypto";
import { hasScope } from "@/core/actor.ts";
import { byChunks } from "@/core/chunks.ts";
import { type Clock, iso, turns } from "@/core/clock.ts";
import { Fault } from "@/core/fault.ts";
import { newId, newSecret } from "@/core/id.ts";
import type { Context } from "@/core/operation.ts";
import type { IdentityService } from "@/modules/identity/mod.ts";
import type { RoomGate } from "@/modules/room/mod.ts";
import type { Store } from "@/ports/store.ts";
import type { CalendarAccess } from "./access.ts";
import { AgendaStore } from "./agenda/store.ts";
import type { People } from "./feed_people.ts";
import type { Feed, FeedCreate, NewFeed } from "./schema.ts";
import { CalendarStore, type CalendarTables, type FeedRow, type WholeEvent } from "./store.ts";

/** Where feeds are served. */
export const FEED_PATH = "/v1/collaboration/calendar/feeds";
export const FEEDS_MAX = 20;
const EVENTS_MAX = 2000;
const DAY_MS = 86_400_000;
const PAST_DAYS = 180;
const FUTURE_DAYS = 400;

type Deps = {
  store: Store<CalendarTables>;
  clock: Clock;
  gate: RoomGate;
  access: CalendarAccess;
  identity: Pick<IdentityService, "subject" | "enabledFor">;
};
type Who = Awaited<ReturnType<IdentityService["subject"]>>;

export class CalendarFeeds {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Makes a feed. Its secret is answered this once and kept as a hash. */
  async create(context: Context, { name, roomId }: FeedCreate): Promise<NewFeed> {
    const { tenantId, principalId } = context.actor;
    if (!hasScope(context.actor, "calendar.read")) {
      throw new Fault("scope_missing", "A feed shows what the scope calendar.read does, and needs it");
    }
    return await this.#deps.store.write(async (tx) => {
      if (roomId !== undefined) await this.#deps.gate.enter(context, roomId, "observer");
      const feeds = new CalendarStore(tx.db);
      if ((await feeds.feeds(tenantId, principalId)).length >= FEEDS_MAX) {
        throw new Fault("limit_reached", `A principal has at most ${FEEDS_MAX} feeds`);
      }
      const secret = newSecret();
      const row: FeedRow = {
        tenant_id: tenantId,
        id: newId("feed"),
        principal_id: principalId,
        room_id: roomId ?? null,
        name,
        hash: hashOf(secret),
        created_at: iso(this.#deps.clock.now()),
      };
      await feeds.addFeed(row);
      return { ...present(row), path: `${FEED_PATH}/${secret}.ics` };
    });
  }

  /** The caller's own feeds, without their secrets. */
  async list({ actor }: Context): Promise<Feed[]> {
    return (await new CalendarStore(this.#deps.store.db).feeds(actor.tenantId, actor.principalId)).map(present);
  }

  /** Ends a feed; its address answers 404 from now on. */
  async delete({ actor }: Context, id: string): Promise<void> {
    const isGone = await this.#deps.store.write((tx) =>
      new CalendarStore(tx.db).removeFeed(actor.tenantId, actor.principalId, id)
    );
    if (!isGone) throw absent();
  }

  /** The file behind a secret: what its maker may see now. Throws `not_found` for an unknown secret or a maker who is gone. */
  async feed(secret: string): Promise<string> {
    const store = new CalendarStore(this.#deps.store.db);
    const feed = await store.feedByHash(hashOf(secret));
    if (feed === undefined) throw absent();
    const who = await this.#deps.identity.subject(feed.tenant_id, feed.principal_id).catch((thrown) => {
      // Whose feed it was is not for whoever has its address to know.
      throw Fault.from(thrown).code === "not_found" ? absent() : thrown;
    });
    const now = this.#deps.clock.now();
    const outlines = await new AgendaStore(this.#deps.store.db).last(
      feed.tenant_id,
      { from: iso(now - PAST_DAYS * DAY_MS), to: iso(now + FUTURE_DAYS * DAY_MS) },
      { roomId: feed.room_id ?? undefined, principalId: feed.principal_id },
      EVENTS_MAX,
    );
    const ids = outlines.map(({ id }) => id);
    const found = await store.wholesOf(feed.tenant_id, ids, turns());
    const levelOf = await this.#deps.access.levels(who, found);
    const events = found.filter((event) => levelOf(event) === "full");
    const { writeCalendar } = await import("./feed_writer.ts");
    return await writeCalendar(feed.name, events, await this.#people(who, events));
  }

  /** Whom the maker may know of; of others the file has the id, as the event itself does. */
  async #people(who: Who, events: readonly WholeEvent[]): Promise<People> {
    const ids = new Set(
      events.flatMap(({ row, attendees }) =>
        attendees.length === 0 ? [] : [row.created_by, ...attendees.flatMap(({ principal_id }) => principal_id ?? [])]
      ),
    );
    return new Map(
      await byChunks([...ids], async (some) => [...await this.#deps.identity.enabledFor(who, some)]),
    );
  }
}

function absent(): Fault {
  return new Fault("not_found", "No such feed");
}

function hashOf(secret: string): string {
  return createHash("sha256").update(secret).digest("base64url");
}

function present(row: FeedRow): Feed {
  return { id: row.id, name: row.name, roomId: row.room_id, createdAt: row.created_at };
}
