// Receives a request to a hook: finds it, checks rate, size and signature before anything is parsed, and posts the message.
import { chargeTo } from "@/core/caller.ts";
import type { Actor } from "@/core/actor.ts";
import { hopsOf } from "@/core/agent_hops.ts";
import type { Clock } from "@/core/time/clock.ts";
import type { CpuBudget } from "@/core/limit/cpu_budget.ts";
import type { Encryptor } from "@/core/crypto.ts";
import type { ConsumeRate } from "@/core/dispatch.ts";
import { Fault, isFault, notFound } from "@/core/fault.ts";
import type { Metrics } from "@/core/metrics.ts";
import type { Context, Rate } from "@/core/operation.ts";
import { readBytes } from "@/core/http/request.ts";
import type { WriteBudget } from "@/core/limit/write_budget.ts";
import type { FileWriter } from "@/modules/file/mod.ts";
import type { IdentityService } from "@/modules/identity/mod.ts";
import {
  contentOfText,
  countCommitted,
  type MessageFilter,
  MessageId,
  type MessageSender,
  sendContext,
} from "@/modules/message/mod.ts";
import type { Store } from "@/ports/store.ts";
import { hookActor, runCharged } from "../hook_principal.ts";
import { secretContext } from "../secrets.ts";
import { type HookMessage, readHookMessage } from "./body.ts";
import { HOOK_BODY_MAX_BYTES } from "./schema.ts";
import { hashOf } from "./service.ts";
import { isGenuine } from "./signature.ts";
import { type HookRow, HookStore, type HookTables } from "./store.ts";

/** Rate of one hook. What it posts is not counted against the rate of messages of the principal that is responsible for it. */
const RATE: Rate = { perSecond: 1, burst: 60 };

type Deps = {
  store: Store<HookTables>;
  clock: Clock;
  cpu: CpuBudget;
  metrics: Metrics;
  writeBudget: WriteBudget;
  encryptor: Encryptor;
  identity: Pick<IdentityService, "findEnabled">;
  sender: Pick<MessageSender, "send">;
  filter: MessageFilter;
  files: Pick<FileWriter, "write">;
  /** `undefined` when rate limits are off. */
  consumeRate: ConsumeRate | undefined;
};

export class HookReceiver {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Posts what a request says; resolves to the id of the message, null if there was nothing to post. */
  async receive(token: string, request: Request, requestId: string): Promise<string | null> {
    const { store, consumeRate } = this.#deps;
    const row = await new HookStore(store.db).findByHash(hashOf(token));
    if (row === undefined || row.is_enabled === 0) throw notFound("hook");
    await consumeRate?.(`hook:${row.tenant_id}/${row.id}`, RATE);
    const actor = await this.#actorOf(row);
    return await runCharged(this.#deps, actor, async (account) => {
      const bytes = await readBytes(
        request,
        HOOK_BODY_MAX_BYTES,
        () => new Fault("payload_too_large", `The request body is larger than ${HOOK_BODY_MAX_BYTES} bytes`),
        { account },
      );
      return await chargeTo(account, async () => {
        const message = account.measure(() => this.#read(row, request.headers, bytes));
        if (message.text === undefined || message.text === "") return null;
        const context = sendContext(actor, requestId, hopsOf(request.headers.get("baggage")));
        return await this.#post(row, context, message, message.text);
      });
    });
  }

  #read(row: HookRow, headers: Headers, bytes: Uint8Array): HookMessage {
    const { encryptor, clock } = this.#deps;
    if (row.signing_secret_encrypted !== null) {
      const secret = encryptor.decrypt(row.signing_secret_encrypted, secretContext(row));
      if (secret === undefined || !isGenuine(headers, bytes, secret, clock.now())) {
        throw new Fault("unauthenticated", "The request is not signed with the secret of the hook");
      }
    }
    return readHookMessage(headers, new TextDecoder().decode(bytes));
  }

  /** The principal of the hook, bounded by the person who is responsible for it: it posts only where that person may. */
  async #actorOf(row: HookRow): Promise<Actor> {
    const ids = [row.principal_id, row.responsible_id];
    const enabled = await this.#deps.identity.findEnabled(row.tenant_id, ids);
    if (ids.some((id) => !enabled.has(id))) throw notFound("hook");
    return hookActor(row);
  }

  async #post(row: HookRow, context: Context, received: HookMessage, text: string): Promise<string> {
    const { sender, filter, files, metrics } = this.#deps;
    const { actor } = context;
    const roomId = row.room_id;
    const threadId = MessageId.safeParse(received.threadId);
    const startedAt = performance.now();
    metrics.messagesReceived.inc();
    try {
      const given = {
        roomId,
        text,
        type: "text",
        format: "markdown",
        metadata: { hook: row.id, source: received.source },
        ...(threadId.success ? { threadId: threadId.data } : {}),
        clientMessageId: received.deliveryId,
      } as const;
      const isFiltered = filter.appliesTo(actor.tenantId, roomId);
      const whole = isFiltered ? await filter.apply(context, roomId, given) : given;
      const content = await contentOfText(files, actor, { text: whole.text, roomId, fileName: "message.md" });
      const send = (room: boolean) => {
        const mentions = { principalIds: [], room };
        // A repeated delivery has the same text, and another file.
        return sender.send(context, { ...whole, ...content, mentions }, { ...given, mentions });
      };
      const mentionsAll = received.mentionsAll && row.may_mention_all === 1;
      const { message, isNew } = await send(mentionsAll).catch((thrown) => {
        // In a large room only moderators may mention everybody.
        if (!mentionsAll || !isFault(thrown, "forbidden")) throw thrown;
        return send(false);
      });
      if (isNew) countCommitted(metrics, message, startedAt);
      return message.id;
    } catch (thrown) {
      // Does not reveal to holders of the address why it ended.
      if (thrown instanceof Fault && (thrown.code === "forbidden" || thrown.code === "token_revoked")) {
        throw notFound("hook");
      }
      throw thrown;
    }
  }
}
