// What messages start: a run for each agent that they notify. While one has not started, further messages of its thread join it; while
// one waits for a reply, a message of who asked is the reply.
import { hasScope, intersectScopes, scopesOf, textOfScopes } from "@/core/actor.ts";
import { type Clock, iso } from "@/core/time/clock.ts";
import { newId } from "@/core/id.ts";
import type { IdentityService } from "@/modules/identity/mod.ts";
import type { AgentTrigger } from "@/modules/message/mod.ts";
import type { AnyTransaction } from "@/ports/store.ts";
import { AgentStore, type NamedAgentRow } from "../store.ts";
import type { RunRow } from "../tables.ts";
import type { RunFailure, RunLifecycle } from "./lifecycle.ts";
import { CHAIN_MAX, originOf } from "./origin.ts";
import { askersOf } from "./presenter.ts";
import type { RunRefusals } from "./refusals.ts";
import type { RunTrigger } from "./schema.ts";
import { runChanged } from "./signals.ts";
import { RunStore } from "./store.ts";

export const QUEUED_MAX = 10;
const ASKERS_MAX = 20;
const FULL: RunFailure = {
  code: "limit_reached",
  detail: `The agent has ${QUEUED_MAX} runs that have not started`,
};
/** As the agent says it. */
const FULL_NOTICE = { ...FULL, detail: `${QUEUED_MAX} requests are waiting already. Please ask again later` };
const PAUSED_NOTICE: RunFailure = { code: "agent_paused", detail: "I am paused" };

type Deps = { clock: Clock; identity: IdentityService; lifecycle: RunLifecycle; refusals: RunRefusals };
/** The scope that a token needs for its message to start a run: the agent reads that message and those before it. */
const READ_SCOPE = "message.read";

export class RunTriggers {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Part of the transaction that notifies; safe to repeat. */
  async onMessage(tx: AnyTransaction, trigger: AgentTrigger): Promise<void> {
    const { tenantId, message } = trigger;
    const agents = await new AgentStore(tx.db).findMany(tenantId, trigger.agents.map(({ id }) => id));
    const runs = new RunStore(tx.db);
    const created_at = iso(this.#deps.clock.now());
    for (const agent of agents) {
      const kind = kindOf(trigger, agent);
      if (kind === undefined) continue;
      const isNew = await runs.addTrigger({
        tenant_id: tenantId,
        message_id: message.id,
        agent_id: agent.id,
        created_at,
      });
      if (isNew) await this.#trigger(tx, trigger, agent, kind);
    }
  }

  async #trigger(
    tx: AnyTransaction,
    { tenantId, message }: AgentTrigger,
    agent: NamedAgentRow,
    kind: RunTrigger,
  ): Promise<void> {
    const { lifecycle, identity } = this.#deps;
    const runs = new RunStore(tx.db);
    const { askerIds, chainDepth } = await originOf(tx, identity, tenantId, message);
    const threadId = message.threadId ?? "";
    const row = newRun(iso(this.#deps.clock.now()), {
      tenant_id: tenantId,
      agent_id: agent.id,
      room_id: message.roomId,
      thread_id: threadId,
      seq: message.seq,
      trigger_kind: kind,
      trigger_message_id: message.id,
      asker_ids_json: JSON.stringify(askerIds.slice(0, ASKERS_MAX)),
      scopes: textOfScopes(message.scopes),
      chain_depth: chainDepth,
    });
    if (agent.is_paused === 1) {
      await this.#postRefusal(row, message, PAUSED_NOTICE);
      return;
    }
    const queueKey = `${agent.id}/${message.roomId}/${threadId}`;
    const queued = await runs.findQueued(tenantId, queueKey);
    const refusal = refusalOf(message, chainDepth);
    if (refusal === undefined && await this.#isReply(tx, row, message)) return;
    if (queued !== undefined && refusal === undefined) {
      const askers = [...new Set([...askersOf(queued), ...askerIds])];
      const joined = {
        trigger_kind: kind,
        trigger_message_id: message.id,
        asker_ids_json: JSON.stringify(askers),
        scopes: textOfScopes(intersectScopes(scopesOf(queued.scopes), message.scopes)),
        chain_depth: Math.max(queued.chain_depth, chainDepth),
      };
      // Not if it started meanwhile.
      if (askers.length <= ASKERS_MAX && await runs.update(tenantId, queued.id, joined, { queueKey })) return;
    }
    const isFull = await runs.countQueued(tenantId, agent.id) >= QUEUED_MAX;
    // Another transaction may have added one with the key: then this one has no key, and takes no more messages.
    const isAdded = await runs.add({ ...row, queue_key: queueKey });
    if (!isAdded) await runs.add(row);
    const error = refusal ?? (isFull ? FULL : undefined);
    if (error === undefined) tx.signal(runChanged.create(tenantId, row.id));
    else {
      const notice = error === FULL ? FULL_NOTICE : error.code === "scope_missing" ? error : undefined;
      const outputMessageId = notice === undefined ? undefined : await this.#postRefusal(row, message, notice);
      await lifecycle.stop(tx, row, "failed", { error, outputMessageId: outputMessageId ?? null });
    }
  }

  /**
   * Whether it replies to an open question of the agent: who was asked writes to it where it asked, or in a thread below the question
   * or below the request.
   */
  async #isReply(
    tx: AnyTransaction,
    { tenant_id, agent_id, room_id, thread_id }: RunRow,
    { senderId, senderKind, text, scopes }: AgentTrigger["message"],
  ): Promise<boolean> {
    if (senderKind !== "human" || text.trim() === "") return false;
    const runs = new RunStore(tx.db);
    const asking = (await runs.findAsking(tenant_id, agent_id, room_id))
      .filter((run) => askersOf(run).includes(senderId));
    const sent = asking.length === 0 ? undefined : await runs.findSent(tenant_id, thread_id);
    const run = asking.find((one) => one.thread_id === thread_id) ??
      asking.find((one) => one.id === sent?.run_id || one.trigger_message_id === thread_id);
    return run !== undefined && await this.#deps.lifecycle.reply(tx, run, { text, scopes });
  }

  /** Posts in the room why no response comes, unless an agent asked. */
  async #postRefusal(
    row: RunRow,
    { senderKind }: AgentTrigger["message"],
    why: RunFailure,
  ): Promise<string | undefined> {
    return senderKind !== "agent" ? await this.#deps.refusals.post(row, why) : undefined;
  }
}

/** Why a message cannot start a run. */
function refusalOf(message: AgentTrigger["message"], chainDepth: number): RunFailure | undefined {
  if (!hasScope(message, READ_SCOPE)) {
    return { code: "scope_missing", detail: `The token that sent the message lacks the scope ${READ_SCOPE}` };
  }
  return loopAt(chainDepth);
}

/** Why agents start each other no further. */
export function loopAt(chainDepth: number): RunFailure | undefined {
  if (chainDepth <= CHAIN_MAX) return undefined;
  return { code: "loop_stopped", detail: `Agents may start each other ${CHAIN_MAX} times before a person writes` };
}

/** A run that waits for a node. */
export function newRun(
  now: string,
  given:
    & Pick<
      RunRow,
      | "tenant_id"
      | "agent_id"
      | "room_id"
      | "thread_id"
      | "seq"
      | "trigger_kind"
      | "trigger_message_id"
      | "asker_ids_json"
      | "scopes"
      | "chain_depth"
    >
    & Partial<RunRow>,
): RunRow {
  return {
    id: newId("run"),
    input: null,
    status: "queued",
    is_external: 0,
    queue_key: null,
    context_seq: null,
    lease_owner: null,
    lease_until: null,
    attempt: 0,
    step: 0,
    text: "",
    active_ms: 0,
    read_rooms_json: "{}",
    model: null,
    input_tokens: 0,
    cached_tokens: 0,
    output_tokens: 0,
    cost: 0,
    question: null,
    output_message_id: null,
    error_code: null,
    error_detail: null,
    error_reply: null,
    heartbeat_at: now,
    created_at: now,
    queued_at: now,
    started_at: null,
    finished_at: null,
    is_trimmed: 0,
    ...given,
  };
}

/** Why a message starts a run of an agent; `undefined` if it does not. */
function kindOf({ agents, message }: AgentTrigger, agent: NamedAgentRow): RunTrigger | undefined {
  const reason = agents.find(({ id }) => id === agent.id)?.reason;
  const allowed: string[] = JSON.parse(agent.triggers_json);
  const isMentioned = message.mentionedIds.includes(agent.id);
  const kind = reason === "command" ? "command" : isMentioned ? "mention" : reason === "direct_message"
    ? "direct"
    // A reply that names others is for them; so is one that mentions everybody.
    : reason === "reply" && message.mentionedIds.length === 0
    ? "reply"
    : undefined;
  return kind !== undefined && allowed.includes(kind) ? kind : undefined;
}
