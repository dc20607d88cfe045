// Interactions: stored before something is asked to respond, until its response is delivered.
import type { Actor } from "@/core/actor.ts";
import { type Clock, DAY_MS, delay, iso, MINUTE_MS } from "@/core/time/clock.ts";
import { hashText } from "@/core/crypto.ts";
import { type EventDraft, principalEvent } from "@/core/event/event.ts";
import { Fault, notFound, RetryTransaction } from "@/core/fault.ts";
import { newId } from "@/core/id.ts";
import type { Interaction, InteractionResponse, Responder } from "@/core/interaction/interaction.ts";
import { canonicalJson } from "@/core/json.ts";
import type { Metrics } from "@/core/metrics.ts";
import type { Context } from "@/core/operation.ts";
import type { RoomAccess } from "@/modules/room/mod.ts";
import type { Store, Transaction } from "@/ports/store.ts";
import type { Filtered, Given, ResponseDelivery } from "./delivery.ts";
import {
  type InteractionRespond,
  type InteractionResult,
  LATE_RESPONSES_MAX,
  type Response,
  RESPONSE_MINUTES,
} from "./schema.ts";
import { type InteractionRow, InteractionStore, type InteractionTables } from "./store.ts";

const REMOVE_BATCH = 500;
/** Longest wait for what responds. What takes longer accepts first, and responds later. */
const CALL_MS = 10_000;
/** A call that lasts longer than this is of a node that has ended. */
const CALL_LOST_MS = CALL_MS + 5000;
const POLL_MS = 200;

type Tx = Transaction<InteractionTables>;
type Deps = {
  store: Store<InteractionTables>;
  clock: Clock;
  timeoutFactor: number;
  roomAccess: RoomAccess;
  delivery: ResponseDelivery;
  metrics: Metrics;
};
/** What begins: who is asked to respond, and what would be repeated. */
export type Draft = {
  roomId: string;
  kind: "command" | "action";
  /** The kind of what responds, as counted. */
  source: string;
  /** The command, or the element. */
  name: string;
  /** The message of the element. */
  messageId?: string;
  responder: Responder;
  threadId: string | undefined;
  clientMessageId: string | undefined;
  /** Equal for equal calls with one clientMessageId. */
  content: unknown;
  /** An event of the same transaction, for a responder that is not called. */
  event?: (interaction: Pick<Interaction, "id" | "expiresAt">) => EventDraft;
};

export class Interactions {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /**
   * Stores an interaction, calls what responds and delivers the response. A repeated one waits for the first and returns what
   * that returned. If the node of the first has ended, it calls again, with the same id.
   */
  async run(
    context: Context,
    draft: Draft,
    call: (interaction: Interaction) => Promise<InteractionResponse>,
  ): Promise<InteractionResult> {
    const count = (outcome: string): void => this.#deps.metrics.interactions.inc({ source: draft.source, outcome });
    try {
      const result = await this.#run(context, draft, call);
      count(result.response.kind);
      return result;
    } catch (thrown) {
      if (!(thrown instanceof RetryTransaction)) count(Fault.from(thrown).code);
      throw thrown;
    }
  }

  async #run(
    context: Context,
    draft: Draft,
    call: (interaction: Interaction) => Promise<InteractionResponse>,
  ): Promise<InteractionResult> {
    const { actor } = context;
    const { row, isCalled } = await this.#claim(context, draft);
    if (isCalled) return resultOf(row);
    const late = AbortSignal.timeout(CALL_MS * this.#deps.timeoutFactor);
    const interaction: Interaction = {
      id: row.id,
      tenantId: actor.tenantId,
      roomId: draft.roomId,
      callerId: actor.principalId,
      callerName: actor.displayName,
      threadId: row.thread_root_id,
      expiresAt: row.expires_at,
      signal: AbortSignal.any([late, ...context.signal === undefined ? [] : [context.signal]]),
    };
    try {
      const given = await inTime(interaction.signal, call(interaction));
      if (given.kind === "accepted") return await this.#accept(row);
      return await this.#finish(row, draft.responder, given);
    } catch (thrown) {
      // Nothing was delivered, so it may be repeated with the same clientMessageId.
      await this.#deps.store.write((tx) => new InteractionStore(tx.db).removeFailed(row));
      throw thrown;
    }
  }

  /** The interaction to call for, or one that was called for before and has not failed. */
  async #claim(context: Context, draft: Draft): Promise<{ row: InteractionRow; isCalled: boolean }> {
    const { store, clock } = this.#deps;
    for (;;) {
      const { row, isNew } = await this.#begin(context, draft);
      if (isNew) return { row, isCalled: false };
      const first = await this.#awaitCall(row);
      // It failed: this is the first now.
      if (first === undefined) continue;
      if (first.state !== "calling") return { row: first, isCalled: true };
      const now = clock.now();
      const set = { called_at: iso(now), expires_at: iso(now + RESPONSE_MINUTES * MINUTE_MS) };
      const taken = await store.write((tx) => new InteractionStore(tx.db).takeOver(first, set));
      if (taken !== undefined) return { row: taken, isCalled: false };
    }
  }

  /** Waits until the call of a stored interaction has ended, or is lost; `undefined` if it failed. */
  async #awaitCall(row: InteractionRow): Promise<InteractionRow | undefined> {
    const { store, clock } = this.#deps;
    const interactions = new InteractionStore(store.db);
    let current: InteractionRow | undefined = row;
    while (current?.state === "calling" && clock.now() < Date.parse(current.called_at) + CALL_LOST_MS) {
      await delay(POLL_MS);
      current = await interactions.find(row.tenant_id, row.id);
    }
    return current;
  }

  /** Notes that the response follows. It may have followed already. */
  async #accept(row: InteractionRow): Promise<InteractionResult> {
    return await this.#deps.store.write(async (tx) => {
      const interactions = new InteractionStore(tx.db);
      await interactions.accept(row.tenant_id, row.id);
      return resultOf(await interactions.find(row.tenant_id, row.id) ?? row);
    });
  }

  /** Delivers the response to a call that is waited for. */
  async #finish(row: InteractionRow, responder: Responder, given: Given): Promise<InteractionResult> {
    const { store, delivery } = this.#deps;
    try {
      const filtered = await delivery.filter(row, responder, given);
      return await store.write(async (tx) => {
        const interactions = new InteractionStore(tx.db);
        if (!await interactions.finish(row.tenant_id, row.id)) {
          const ended = await interactions.find(row.tenant_id, row.id) ?? row;
          // It responded by `interaction.respond` before it returned from its call.
          if (ended.late_count === 0) return resultOf(ended);
        }
        const response = await delivery.deliver(tx, row, responder, filtered);
        await interactions.setResponse(row.tenant_id, row.id, JSON.stringify(response));
        return { id: row.id, response };
      });
    } catch (thrown) {
      if (!(thrown instanceof Fault) || thrown.spec.retryable) throw thrown;
      // The rights that are missing are not the caller's.
      throw new Fault("command_failed", `The response cannot be sent to the room: ${thrown.message}`, {
        cause: thrown,
      });
    }
  }

  /** Prepares `respond`, outside of its transaction. What is not accepted is not filtered: the response fails. */
  async prepare({ actor }: Context, { id, response }: InteractionRespond): Promise<Filtered | undefined> {
    const { store, clock, delivery } = this.#deps;
    const row = await new InteractionStore(store.db).find(actor.tenantId, id);
    const isAccepted = row !== undefined && row.responder_id === actor.principalId && row.state !== "done" &&
      Date.parse(row.expires_at) > clock.now();
    return isAccepted ? await delivery.filter(row, responderOf(actor), response) : undefined;
  }

  /**
   * Delivers a response that follows a call. Only the responder of the interaction may, once, within its time. `filtered` is what
   * `prepare` returned.
   */
  async respond(
    { actor }: Context,
    { id, response }: InteractionRespond,
    filtered: Filtered = { given: response },
  ): Promise<Response> {
    const { store, clock, delivery } = this.#deps;
    return await store.write(async (tx) => {
      const interactions = new InteractionStore(tx.db);
      const row = await interactions.find(actor.tenantId, id);
      if (row === undefined || row.responder_id !== actor.principalId) throw notFound("interaction of the caller");
      if (Date.parse(row.expires_at) <= clock.now()) {
        throw new Fault("gone", `Responses are accepted for ${RESPONSE_MINUTES} minutes`);
      }
      if (!await interactions.finish(actor.tenantId, id)) {
        throw new Fault("conflict", "The interaction already has its response");
      }
      const delivered = await delivery.deliver(tx, row, responderOf(actor), filtered);
      await this.#follow(tx, row, actor, delivered);
      return delivered;
    });
  }

  /** Delivers a response that follows by the address that an endpoint was given: some of them, within their time. */
  async respondLate({ tenantId, id }: { tenantId: string; id: string }, actor: Actor, response: Given): Promise<void> {
    const { store, clock, delivery } = this.#deps;
    const row = await new InteractionStore(store.db).find(tenantId, id);
    if (row === undefined || row.responder_id !== actor.principalId) throw notFound("command that was run");
    const filtered = await delivery.filter(row, actor, response);
    await store.write(async (tx) => {
      const interactions = new InteractionStore(tx.db);
      const number = await interactions.countLate(tenantId, id, LATE_RESPONSES_MAX);
      if (number === undefined || Date.parse(row.expires_at) <= clock.now()) {
        throw new Fault("gone", `At most ${LATE_RESPONSES_MAX} responses follow, within ${RESPONSE_MINUTES} minutes`);
      }
      await interactions.finish(tenantId, id);
      const delivered = await delivery.deliver(tx, row, actor, filtered, `${id}:${number}`);
      await this.#follow(tx, row, actor, delivered);
    });
  }

  /** Stores a response that followed, and publishes it to the caller. */
  async #follow(tx: Tx, row: InteractionRow, actor: Actor, response: Response): Promise<void> {
    const { tenant_id: tenantId, id, kind, name } = row;
    await new InteractionStore(tx.db).setResponse(tenantId, id, JSON.stringify(response));
    await tx.emit(
      principalEvent(actor, row.caller_id, "interaction.responded", {
        id,
        kind,
        roomId: row.room_id,
        name,
        messageId: row.message_id,
        response,
      }),
    );
  }

  async purgeRoom(tenantId: string, roomId: string): Promise<void> {
    await this.#removeAll({ tenantId, roomId });
  }

  /** Deletes those that have ended a day ago: until then they can be repeated. */
  async purgeExpired(): Promise<void> {
    await this.#removeAll({ before: iso(this.#deps.clock.now() - DAY_MS) });
  }

  async #removeAll(of: Parameters<InteractionStore["removeSome"]>[0]): Promise<void> {
    let removed: number;
    do {
      removed = await this.#deps.store.write((tx) => new InteractionStore(tx.db).removeSome(of, REMOVE_BATCH));
    } while (removed === REMOVE_BATCH);
  }

  #begin(context: Context, draft: Draft): Promise<{ row: InteractionRow; isNew: boolean }> {
    const { store, clock, roomAccess, delivery } = this.#deps;
    const { actor } = context;
    const now = clock.now();
    const row: InteractionRow = {
      tenant_id: actor.tenantId,
      id: newId("itx"),
      room_id: draft.roomId,
      kind: draft.kind,
      name: draft.name,
      message_id: draft.messageId ?? null,
      caller_id: actor.principalId,
      responder_id: draft.responder.principalId,
      client_message_id: draft.clientMessageId ?? null,
      fingerprint: draft.clientMessageId === undefined ? null : fingerprintOf(draft.content),
      thread_root_id: draft.threadId ?? null,
      state: "calling",
      response_json: null,
      late_count: 0,
      called_at: iso(now),
      created_at: iso(now),
      expires_at: iso(now + RESPONSE_MINUTES * MINUTE_MS),
    };
    return store.write(async (tx) => {
      await roomAccess.require(context, draft.roomId, { tx });
      const interactions = new InteractionStore(tx.db);
      if (await interactions.add(row)) {
        // What offers a command looks itself.
        if (draft.kind === "action") await delivery.assertResponderIsMember(row, tx.db);
        if (draft.event !== undefined) await tx.emit(draft.event({ id: row.id, expiresAt: row.expires_at }));
        return { row, isNew: true };
      }
      const first = await interactions.findByClientId(row);
      if (first === undefined) throw new Error("Expected the interaction with this clientMessageId, received none");
      if (first.fingerprint !== row.fingerprint) {
        throw new Fault(
          "client_message_id_conflict",
          `The clientMessageId is used by ${first.id}, which has other content`,
        );
      }
      return { row: first, isNew: false };
    });
  }
}

function responderOf({ principalId, scopes }: Actor): Responder {
  return { principalId, scopes };
}

/** What the caller of a stored interaction receives. */
function resultOf({ id, response_json, expires_at }: InteractionRow): InteractionResult {
  return {
    id,
    response: response_json === null ? { kind: "accepted", expiresAt: expires_at } : JSON.parse(response_json),
  };
}

function fingerprintOf(content: unknown): string {
  return hashText(canonicalJson(content), "base64url");
}

/** What `run` responds; a fault when the caller stops waiting or the time is over. */
function inTime(signal: AbortSignal | undefined, run: Promise<InteractionResponse>): Promise<InteractionResponse> {
  if (signal === undefined) return run;
  const late = Promise.withResolvers<never>();
  const onAbort = (): void => late.reject(new Fault("command_failed", "No response in time"));
  signal.addEventListener("abort", onAbort, { once: true });
  return Promise.race([run, late.promise]).finally(() => signal.removeEventListener("abort", onAbort));
}
