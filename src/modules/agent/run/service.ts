// Runs as callers of the API start, read, cancel and answer them.
import { type Actor, hasScope, textOfScopes } from "@/core/actor.ts";
import { hopsIn } from "@/core/agent_hops.ts";
import { assertStillAuthorized } from "@/core/caller.ts";
import { type Clock, iso } from "@/core/time/clock.ts";
import { Fault, notVisible } from "@/core/fault.ts";
import type { Context, Preparation } from "@/core/operation.ts";
import type { Cursors, Page } from "@/core/page.ts";
import { canManage, type IdentityService } from "@/modules/identity/mod.ts";
import type { Message, MessageFilter } from "@/modules/message/mod.ts";
import { hiddenUpTo, type RoomAccess } from "@/modules/room/mod.ts";
import type { AnyTransaction, Store } from "@/ports/store.ts";
import { AgentStore } from "../store.ts";
import type { AgentTables, RunRow } from "../tables.ts";
import type { RunAccess } from "./access.ts";
import type { CallOperation } from "./context.ts";
import { expiryJob } from "./expiry_job.ts";
import { runFinished, type RunLifecycle } from "./lifecycle.ts";
import { originOf } from "./origin.ts";
import { askersOf, presentRun, presentStep } from "./presenter.ts";
import type { Run, RunCancel, RunCreate, RunDetail, RunList, RunReply } from "./schema.ts";
import { runChanged } from "./signals.ts";
import { RunStore } from "./store.ts";
import { loopAt, newRun, QUEUED_MAX } from "./triggers.ts";
import type { RunWaiter } from "./waiter.ts";

export type FindMessage = (tx: AnyTransaction, context: Context, id: string) => Promise<Message>;

type Deps = {
  store: Store<AgentTables>;
  clock: Clock;
  cursors: Cursors;
  identity: IdentityService;
  roomAccess: RoomAccess;
  access: RunAccess;
  lifecycle: RunLifecycle;
  waiter: RunWaiter;
  filter: Pick<MessageFilter, "isActive">;
  callOperation: CallOperation;
  findMessage: FindMessage;
  /** The actor as it is now; `undefined` if its token, itself or its owner ended. */
  revalidate: (actor: Actor) => Promise<Actor | undefined>;
};

/** The scope that a token needs for its replies to be posted. */
const REPLY_SCOPE = "message.write";

export class RunService {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Starts a run of an agent of the gateway; or notes one of the caller, an agent outside. */
  async create(context: Context, { agentId, wait, ...input }: RunCreate): Promise<Run> {
    const { actor } = context;
    const { store, access } = this.#deps;
    const isOwn = agentId === undefined || agentId === actor.principalId;
    if (isOwn && actor.kind !== "agent") {
      throw Fault.forField("/agentId", "required", "only agents start runs of their own");
    }
    const run = await store.write((tx) => this.#create(tx, context, agentId ?? actor.principalId, input, isOwn));
    const settled = await this.#settled(context, run, isOwn ? 0 : wait);
    return presentRun(settled, settled === run || await access.isReadable(actor, settled));
  }

  async #create(
    tx: AnyTransaction,
    context: Context,
    agentId: string,
    { roomId, threadId, triggerMessageId, input }: Omit<RunCreate, "agentId" | "wait">,
    isOwn: boolean,
  ): Promise<RunRow> {
    const { actor } = context;
    const { clock, identity, roomAccess } = this.#deps;
    const runs = new RunStore(tx.db);
    const { room } = await roomAccess.require(context, roomId, { tx });
    if (threadId !== undefined) {
      const root = await this.#messageIn(tx, context, roomId, threadId, "/threadId");
      if (root.threadId !== null) throw Fault.forField("/threadId", "not_root", `the root message is ${root.threadId}`);
    }
    const trigger = triggerMessageId === undefined
      ? undefined
      : await this.#messageIn(tx, context, roomId, triggerMessageId, "/triggerMessageId");
    const now = iso(clock.now());
    const agent = await new AgentStore(tx.db).find(actor.tenantId, agentId);
    if (isOwn && agent !== undefined) {
      throw new Fault("conflict", "The gateway runs this agent; only agents outside report their own runs");
    }
    if (!isOwn) {
      const isVisible = (await identity.findEnabledFor(actor, [agentId], tx.db)).has(agentId);
      if (agent === undefined || !isVisible) throw notVisible("agent");
      const subject = await identity.subject(actor.tenantId, agentId, tx.db);
      if (await roomAccess.find(subject, roomId, tx.db) === undefined) {
        throw Fault.forField("/agentId", "not_found", "the agent is not a member of the room");
      }
      if (agent.is_paused === 1) throw new Fault("agent_paused", "The agent is paused");
      if (await runs.countQueued(actor.tenantId, agentId) >= QUEUED_MAX) {
        throw new Fault("limit_reached", `An agent has at most ${QUEUED_MAX} runs that have not started`);
      }
    }
    const askers = actor.ownerId === null ? [actor.principalId] : [actor.principalId, actor.ownerId];
    const origin = trigger === undefined
      ? undefined
      : await originOf(tx, identity, actor.tenantId, { ...trigger, agentHops: hopsIn(trigger.metadata) });
    const ownDepth = actor.kind === "agent" ? Math.max(isOwn ? 1 : 2, origin?.chainDepth ?? 1) : 1;
    const chainDepth = Math.max(ownDepth, 1 + (context.agentHops ?? 0));
    const row = newRun(now, {
      tenant_id: actor.tenantId,
      agent_id: agentId,
      room_id: roomId,
      thread_id: threadId ?? trigger?.threadId ?? "",
      // Readers who may not see the newest position by now joined later.
      seq: trigger?.seq ?? Math.max(1, room.head ?? 1),
      trigger_kind: "call",
      trigger_message_id: triggerMessageId ?? null,
      asker_ids_json: JSON.stringify(askers),
      scopes: textOfScopes(actor.scopes),
      chain_depth: chainDepth,
      input: input ?? null,
      ...isOwn ? { is_external: 1, status: "running", attempt: 1 } as const : {},
    });
    await runs.add(row);
    const error = loopAt(chainDepth);
    if (error !== undefined) return await this.#deps.lifecycle.stop(tx, row, "failed", { error }) ?? row;
    tx.signal(runChanged.create(row.tenant_id, row.id));
    if (!isOwn) return row;
    await tx.enqueue(expiryJob(row, clock.now()));
    return await this.#deps.lifecycle.start(tx, row, room.head ?? 0);
  }

  async #messageIn(
    tx: AnyTransaction,
    context: Context,
    roomId: string,
    id: string,
    pointer: string,
  ): Promise<Message> {
    if (!hasScope(context.actor, "message.read")) {
      throw new Fault("scope_missing", `${pointer}: naming a message requires the scope message.read`);
    }
    try {
      const message = await this.#deps.findMessage(tx, { ...context, isReadOnly: true }, id);
      if (message.roomId === roomId && message.deletedAt === null) return message;
    } catch (thrown) {
      if (!(thrown instanceof Fault) || thrown.spec.retryable) throw thrown;
    }
    throw Fault.forField(pointer, "not_found", "no such message in the room");
  }

  /** Runs in a room, newest first. */
  async list(context: Context, { roomId, agentId, status, limit, cursor }: RunList): Promise<Page<Run>> {
    const { actor } = context;
    const { store, cursors, roomAccess } = this.#deps;
    const grant = await roomAccess.require(context, roomId);
    const bind = ["run.list", actor.tenantId, actor.principalId, roomId, agentId ?? null, status ?? null];
    const before = cursors.decodeId(cursor, bind);
    const filter = { roomId, agentId, status, hiddenUpTo: hiddenUpTo(grant) };
    const rows = await new RunStore(store.db).list(actor.tenantId, filter, before, limit + 1);
    const readable = await this.#deps.access.readable(actor, rows);
    return cursors.page(rows, limit, bind, (row) => [row.id], (row) => presentRun(row, readable.has(row.id)));
  }

  async read(context: Context, id: string, wait: number): Promise<RunDetail> {
    const { store, access } = this.#deps;
    const { actor } = context;
    const run = await this.#settled(context, await access.find(actor, id), wait);
    if (wait > 0) await access.find(actor, id);
    const steps = await new RunStore(store.db).steps(actor.tenantId, id);
    const hasTexts = await access.isReadable(actor, run);
    const hasReply = hasTexts && await this.#mayReadReply(actor, run);
    return { ...presentRun(run, hasTexts, hasReply), steps: steps.map((step) => presentStep(step, hasTexts)) };
  }

  /** The words of a provider may quote the instructions of the agent. */
  async #mayReadReply(actor: Actor, { tenant_id, agent_id, error_reply }: RunRow): Promise<boolean> {
    if (error_reply === null || actor.kind === "agent") return false;
    const agent = await new AgentStore(this.#deps.store.db).find(tenant_id, agent_id);
    return agent !== undefined && canManage(actor, agent);
  }

  /** The run after a wait, in which the rights of the caller may have ended: what it may read of the run is to be checked next. */
  async #settled({ actor, signal }: Context, run: RunRow, seconds: number): Promise<RunRow> {
    const settled = await this.#deps.waiter.settled(run, seconds, signal);
    if (settled !== run) await assertStillAuthorized(actor, this.#deps.revalidate);
    return settled;
  }

  /** Ends a run at once, with its approvals and reservations. Cancelling a cancelled one changes nothing. */
  async cancel(context: Context, { id, reason }: RunCancel): Promise<Run> {
    const { store, access, lifecycle } = this.#deps;
    return await store.write(async (tx) => {
      const { run, grant } = await access.requireForUpdate(tx, context, id);
      access.assertMayStop(context.actor, run, grant);
      const hasTexts = await access.isReadable(context.actor, run, tx.db);
      if (run.status === "cancelled") return presentRun(run, hasTexts);
      const error = reason === undefined ? undefined : { code: "cancelled", detail: reason };
      const stopped = await lifecycle.stop(tx, run, "cancelled", { error });
      if (stopped === undefined) throw runFinished();
      return presentRun(stopped, hasTexts);
    });
  }

  /** Prepares the message of `reply`, on which filters of the room may decide. */
  prepareReply(context: Context, input: RunReply): Promise<Preparation | undefined> | undefined {
    const isPosted = hasScope(context.actor, REPLY_SCOPE);
    return isPosted && this.#deps.filter.isActive ? this.#prepareReply(context, input) : undefined;
  }

  async #prepareReply({ actor, requestId }: Context, { id, text }: RunReply): Promise<Preparation | undefined> {
    const { access, callOperation } = this.#deps;
    return await callOperation.prepare(actor, "message.send", replyTo(await access.find(actor, id), text), {
      requestId,
    });
  }

  /** Replies to the question of a run, which then continues. The reply is in the conversation, as the question is. */
  async reply(context: Context, { id, text }: RunReply, preparation: Preparation | undefined): Promise<Run> {
    const { store, access, lifecycle } = this.#deps;
    const { actor } = context;
    return await store.enclose(async (tx) => {
      const { run } = await access.requireForUpdate(tx, context, id);
      if (!askersOf(run).includes(actor.principalId)) {
        throw new Fault("forbidden", "Only the principal that asked for a run may reply to its questions");
      }
      if (run.status !== "waiting_input") {
        if (run.finished_at !== null) throw runFinished();
        throw new Fault("conflict", "The run has no open question");
      }
      const reply = hasScope(actor, REPLY_SCOPE) ? await this.#postReply(tx, context, run, text, preparation) : text;
      await lifecycle.reply(tx, run, { text: reply, scopes: actor.scopes });
      const after = await new RunStore(tx.db).find(run.tenant_id, id);
      return presentRun(after ?? run);
    });
  }

  /** Returns the text of the message: filters may have changed it. */
  async #postReply(
    tx: AnyTransaction,
    { actor, requestId }: Context,
    run: RunRow,
    text: string,
    preparation: Preparation | undefined,
  ): Promise<string> {
    const { clock, callOperation } = this.#deps;
    const { tenant_id, agent_id } = run;
    const message = await callOperation(actor, "message.send", replyTo(run, text), { requestId }, preparation);
    // It starts no further run.
    const created_at = iso(clock.now());
    await new RunStore(tx.db).addTrigger({ tenant_id, message_id: message.id, agent_id, created_at });
    return message.text;
  }
}

/** Input of `message.send`. Names the agent, so that it is for no other one of the thread. */
function replyTo({ room_id: roomId, thread_id: threadId, agent_id }: RunRow, text: string) {
  return { roomId, text, mentions: { principalIds: [agent_id] }, ...threadId === "" ? {} : { threadId } };
}
