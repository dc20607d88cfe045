// Secret feeds: a calendar as a file at a secret address, with the rights of its creator.
import { type Actor, hasScope } from "@/core/actor.ts";
import { queryInChunks } from "@/core/page.ts";
import { type Clock, DAY_MS, iso } from "@/core/time/clock.ts";
import { createYielder, runOnAccount } from "@/core/caller.ts";
import { hashText } from "@/core/crypto.ts";
import type { CpuBudget } from "@/core/limit/cpu_budget.ts";
import { Fault, notFound } from "@/core/fault.ts";
import { newId, newSecret } from "@/core/id.ts";
import type { JobDraft } from "@/core/job.ts";
import type { Context } from "@/core/operation.ts";
import type { CredentialSnapshot, IdentityService } from "@/modules/identity/mod.ts";
import type { RoomAccess } from "@/modules/room/mod.ts";
import type { Store } from "@/ports/store.ts";
import type { CalendarAccess } from "./access.ts";
import { AgendaStore } from "./agenda_store.ts";
import type { PrincipalNames } from "./ics/writer.ts";
import type { Feed, FeedCreate, NewFeed } from "./schema.ts";
import { CalendarStore, type CalendarTables, type EventAggregate, type FeedRow } from "./store.ts";

export const FEED_PATH = "/v1/collaboration/calendar/feeds";
export const FEEDS_MAX = 20;
export const FEEDS_JOB = "calendar.end_feeds";
/** A feed grants reading of events only. */
const SCOPES: ReadonlySet<string> = new Set(["calendar.read"]);
const EVENTS_MAX = 2000;
const PAST_DAYS = 180;
const FUTURE_DAYS = 400;

type Deps = {
  store: Store<CalendarTables>;
  clock: Clock;
  /** Reading a feed is charged to its creator. */
  cpu: CpuBudget;
  roomAccess: RoomAccess;
  access: CalendarAccess;
  identity: Pick<IdentityService, "findEnabledFor">;
  /** The actor of a credential with its current rights; `undefined` if it is no longer valid. */
  revalidate: (credential: CredentialSnapshot) => Promise<Actor | undefined>;
};

export class CalendarFeeds {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Creates a feed. Its secret is returned only here and stored as a hash. */
  async create(context: Context, { name, roomId }: FeedCreate): Promise<NewFeed> {
    const { tenantId, principalId, tokenId, role } = context.actor;
    if (!hasScope(context.actor, "calendar.read")) {
      throw new Fault("scope_missing", "A calendar feed requires the scope calendar.read");
    }
    return await this.#deps.store.write(async (tx) => {
      if (roomId !== undefined) await this.#deps.roomAccess.require(context, roomId, { tx, least: "observer" });
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
        token_id: tokenId ?? null,
        role,
      };
      await feeds.addFeed(row);
      return { ...present(row), path: `${FEED_PATH}/${secret}.ics` };
    });
  }

  /** The caller's own feeds, without their secrets. */
  async list({ actor }: Context): Promise<Feed[]> {
    return (await new CalendarStore(this.#deps.store.db).feeds(actor.tenantId, actor.principalId)).map(present);
  }

  async delete({ actor }: Context, id: string): Promise<void> {
    const isDeleted = await this.#deps.store.write((tx) =>
      new CalendarStore(tx.db).removeFeed(actor.tenantId, actor.principalId, id)
    );
    if (!isDeleted) throw notFound("feed");
  }

  /** The file of a feed: what its creator may see now. Throws `not_found` for an unknown secret or an invalid credential. */
  async render(secret: string): Promise<string> {
    const store = new CalendarStore(this.#deps.store.db);
    const feed = await store.feedByHash(hashOf(secret));
    if (feed === undefined) throw notFound("feed");
    const creator = await this.#deps.revalidate({
      tenantId: feed.tenant_id,
      principalId: feed.principal_id,
      role: feed.role ?? "owner",
      scopes: SCOPES,
      tokenId: feed.token_id ?? undefined,
      // Calendar clients poll for years: a feed ends with the rights of its creator or the revocation of its token.
      expiresAt: undefined,
    });
    // Does not reveal to holders of the address why the feed ended.
    if (creator === undefined) throw notFound("feed");
    return await runOnAccount(this.#deps.cpu.accountOf(creator), () => this.#write(feed, creator));
  }

  /** Deletes the feeds created with a token that has ended. Idempotent. */
  async deleteByToken(tenantId: string, tokenId: string): Promise<void> {
    await this.#deps.store.write((tx) => new CalendarStore(tx.db).removeFeedsByToken(tenantId, tokenId));
  }

  /** The file of a feed for its creator. */
  async #write(feed: FeedRow, creator: Actor): Promise<string> {
    const store = new CalendarStore(this.#deps.store.db);
    const now = this.#deps.clock.now();
    const summaries = await new AgendaStore(this.#deps.store.db).findLatest(
      feed.tenant_id,
      { from: iso(now - PAST_DAYS * DAY_MS), to: iso(now + FUTURE_DAYS * DAY_MS) },
      { roomId: feed.room_id ?? undefined, principalId: feed.principal_id },
      EVENTS_MAX,
    );
    const ids = summaries.map(({ id }) => id);
    const found = await store.findAggregates(feed.tenant_id, ids, createYielder());
    const levelOf = await this.#deps.access.levels(creator, found);
    const events = found.filter((event) => levelOf(event) === "full");
    const { writeCalendar } = await import("./ics/writer.ts");
    return await writeCalendar(feed.name, events, await this.#principalNames(creator, events));
  }

  /** Names of the principals that the creator may see; the file has the ids of others. */
  async #principalNames(creator: Actor, events: readonly EventAggregate[]): Promise<PrincipalNames> {
    const ids = new Set(
      events.flatMap(({ row, attendees }) =>
        attendees.length === 0 ? [] : [row.created_by, ...attendees.flatMap(({ principal_id }) => principal_id ?? [])]
      ),
    );
    return new Map(
      await queryInChunks([...ids], async (some) => [...await this.#deps.identity.findEnabledFor(creator, some)]),
    );
  }
}

/** The job to enqueue in the transaction that ends a token. */
export function deleteFeedsJob(tenantId: string, tokenId: string): JobDraft {
  return { tenantId, kind: FEEDS_JOB, payload: { tokenId }, key: tokenId };
}

function hashOf(secret: string): string {
  return hashText(secret, "base64url");
}

function present(row: FeedRow): Feed {
  return { id: row.id, name: row.name, roomId: row.room_id, createdAt: row.created_at };
}
