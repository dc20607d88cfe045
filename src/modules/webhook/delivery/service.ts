// What the creator of a webhook sees and does of its deliveries: attempts, parked events, replays, positions, tests.
import { type Clock, iso } from "@/core/time/clock.ts";
import { type EventType, roomOfStream } from "@/core/event/event.ts";
import { Fault, notFound } from "@/core/fault.ts";
import { newId } from "@/core/id.ts";
import type { Context } from "@/core/operation.ts";
import type { Cursors, Page } from "@/core/page.ts";
import type { RoomAccess } from "@/modules/room/mod.ts";
import type { Store } from "@/ports/store.ts";
import { requireDirectable, requireOwn } from "../access.ts";
import { presentDelivery } from "../presenter.ts";
import type {
  CursorPut,
  DeliveryList,
  DeliveryRef,
  ParkedEvent,
  ParkedList,
  ParkedReplay,
  WebhookAttempt,
  WebhookCursor,
  WebhookDelivery,
} from "../schema.ts";
import type { Secrets } from "../secrets.ts";
import { WebhookStore } from "../store.ts";
import type { ParkedRow, WebhookRow, WebhookTables } from "../tables.ts";
import type { WebhookSender } from "./sender.ts";

type Deps = {
  store: Store<WebhookTables>;
  clock: Clock;
  cursors: Cursors;
  roomAccess: Pick<RoomAccess, "find">;
  secrets: Secrets;
  sender: WebhookSender;
  /** Types of events of rooms, complete once everything is built. */
  roomEvents: () => readonly EventType[];
  wake: (key: { tenant_id: string; id: string }) => void;
};

export class WebhookDeliveryService {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  async list(context: Context, { id, outcome, limit }: DeliveryList): Promise<{ items: WebhookDelivery[] }> {
    const webhooks = await this.#own(context, id);
    return { items: (await webhooks.deliveries(context.actor.tenantId, id, outcome, limit)).map(presentDelivery) };
  }

  async parked(context: Context, { id, limit, cursor }: ParkedList): Promise<Page<ParkedEvent>> {
    const { cursors } = this.#deps;
    const { tenantId, principalId } = context.actor;
    const webhooks = await this.#own(context, id);
    const bind = ["parked_event.list", tenantId, principalId, id];
    const after = cursors.decodeId(cursor, bind);
    const rows = await webhooks.parked(tenantId, id, after, limit + 1);
    return cursors.page(rows, limit, bind, (row) => [row.id], presentParked);
  }

  /** Has parked events delivered again, beside the others. */
  async replayParked(context: Context, { id, ids }: ParkedReplay): Promise<{ waitingCount: number }> {
    const { tenantId } = context.actor;
    const now = iso(this.#deps.clock.now());
    const waitingCount = await this.#change(context, id, (webhooks) => webhooks.replayParked(tenantId, id, ids, now));
    return { waitingCount };
  }

  /** Has the event of an attempt delivered again. */
  async replay(context: Context, { id, deliveryId }: DeliveryRef): Promise<{ waitingCount: number }> {
    const { tenantId } = context.actor;
    const parkedAt = iso(this.#deps.clock.now());
    await this.#change(context, id, async (webhooks) => {
      const delivery = await webhooks.delivery(tenantId, id, deliveryId);
      if (delivery === undefined) throw notFound(`attempt among the newest`);
      if (delivery.type === "webhook.gap") throw new Fault("conflict", "A gap cannot be delivered again");
      const { stream, epoch, seq, type, http_status, error } = delivery;
      const event = { stream, epoch, seq, type, http_status, error };
      await webhooks.addReplay({
        tenant_id: tenantId,
        webhook_id: id,
        id: newId("parked"),
        ...event,
        state: "waiting",
        parked_at: parkedAt,
      });
    });
    return { waitingCount: 1 };
  }

  /** Moves a position: backward to deliver events again, or forward to leave some out. */
  async putCursor(context: Context, { id, stream, seq }: CursorPut): Promise<WebhookCursor> {
    const { tenantId } = context.actor;
    // The newest position of a room that the creator has left would reveal how much happens there.
    const grant = await this.#deps.roomAccess.find(context.actor, roomOfStream(stream) ?? "");
    return await this.#change(context, id, async (webhooks) => {
      const cursor = await webhooks.cursor(tenantId, id, stream);
      const position = grant && await webhooks.position(tenantId, stream);
      if (cursor === undefined || position === undefined) throw notFound("stream that this webhook delivers");
      if (seq > position.head) {
        throw Fault.forField("/seq", "out_of_range", `expected at most ${position.head}, the newest event`);
      }
      const set = { epoch: position.epoch, seq, moved_at: iso(this.#deps.clock.now()) };
      await webhooks.setCursor(tenantId, id, stream, set);
      return { stream, epoch: position.epoch, seq };
    });
  }

  /** Sends one event of type `webhook.test` now, whatever state the webhook is in. */
  async test(context: Context, id: string): Promise<WebhookAttempt> {
    const { store, clock, sender, secrets } = this.#deps;
    const { tenantId } = context.actor;
    const row = requireOwn(context.actor, await new WebhookStore(store.db).find(tenantId, id));
    const signing = secrets.of(row, clock.now());
    if (signing === undefined) throw new Fault("conflict", "The secret cannot be read; rotate it");
    const type = "webhook.test";
    const body = JSON.stringify({ type, timestamp: iso(clock.now()), tenantId, data: { webhookId: id } });
    const endpoint = { url: row.url, secrets: signing };
    const { outcome, httpStatus, error, durationMs } = await sender.send(
      endpoint,
      { id: `${id}:test:${newId("evt")}`, type, body },
      context.signal,
    );
    return { outcome, httpStatus, error, durationMs };
  }

  async #own(context: Context, id: string): Promise<WebhookStore> {
    const webhooks = new WebhookStore(this.#deps.store.db);
    requireOwn(context.actor, await webhooks.find(context.actor.tenantId, id));
    return webhooks;
  }

  async #change<Result>(
    { actor }: Context,
    id: string,
    work: (webhooks: WebhookStore, row: WebhookRow) => Promise<Result>,
  ): Promise<Result> {
    const result = await this.#deps.store.write(async (tx) => {
      const webhooks = new WebhookStore(tx.db);
      const row = await webhooks.find(actor.tenantId, id);
      return await work(webhooks, requireDirectable(actor, row, this.#deps.roomEvents()));
    });
    this.#deps.wake({ tenant_id: actor.tenantId, id });
    return result;
  }
}

function presentParked(row: ParkedRow): ParkedEvent {
  return {
    id: row.id,
    stream: row.stream,
    epoch: row.epoch,
    seq: row.seq,
    type: row.type,
    state: row.state,
    httpStatus: row.http_status,
    error: row.error,
    parkedAt: row.parked_at,
  };
}
