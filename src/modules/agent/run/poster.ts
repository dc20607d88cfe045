// What a run says in its room: its response, why there is none, and its questions.
import type { Actor } from "@/core/actor.ts";
import { type Clock, iso } from "@/core/clock.ts";
import { Fault, RetryTransaction } from "@/core/fault.ts";
import type { MessageFilter } from "@/modules/message/mod.ts";
import { Audience, type RoomsRead } from "@/modules/room/mod.ts";
import type { Store } from "@/ports/store.ts";
import type { AgentTables, RunRow } from "../tables.ts";
import type { CallOperation } from "./context.ts";
import type { RunActors } from "./run_actor.ts";
import { RunStore } from "./store.ts";

export type Content = { text: string; fileIds?: string[]; type?: "notice" };
/** Content on which the filters of the room have decided. */
export type FilteredContent = Content & { metadata?: Record<string, unknown>; isFiltered?: boolean; refusal?: Fault };

/** Of the call that sends. */
const SENDING = {
  access: { scope: "message.write", room: "member" },
  operation: "message.send",
  isReadOnly: false,
} as const;

type Deps = {
  store: Store<AgentTables>;
  clock: Clock;
  actors: RunActors;
  filter: MessageFilter;
  callOperation: CallOperation;
};

export class RunPoster {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Asks the filters of the room, which a transaction would wait for. What they refuse fails when it is posted. */
  async filtered(run: RunRow, content: Content, external?: Actor): Promise<FilteredContent> {
    const { store, actors } = this.#deps;
    if (content.text === "" || !this.hasFilters(run)) return content;
    try {
      return await this.filteredFor(external ?? await actors.ofPost(run, store.db), run, content);
    } catch (thrown) {
      return { ...content, refusal: Fault.from(thrown) };
    }
  }

  /** Whether any room has filters. */
  get isFiltering(): boolean {
    return this.#deps.filter.isActive;
  }

  /** Whether filters decide on what is said in the room. */
  hasFilters({ tenant_id: tenantId, room_id: roomId }: RunRow): boolean {
    return this.#deps.filter.appliesTo(tenantId, roomId);
  }

  /** The same for what the actor writes; throws what its sender receives. */
  async filteredFor<Draft extends Content>(
    actor: Actor,
    run: RunRow,
    draft: Draft,
  ): Promise<Draft & { isFiltered?: boolean }> {
    if (!this.hasFilters(run)) return draft;
    const message = { ...draft, threadId: run.thread_id === "" ? undefined : run.thread_id };
    const context = { ...SENDING, actor, requestId: run.id };
    const { threadId: _threadId, ...decided } = await this.#deps.filter.apply(context, run.room_id, message);
    return { ...draft, ...decided, isFiltered: true };
  }

  /**
   * Returns the id of the message; nothing if there is nothing to say; the Fault if it may not be posted: also if readers of the
   * room cannot see all that the run has read, since somebody joined one room or left another meanwhile.
   */
  async post(
    run: RunRow,
    { refusal, isFiltered, ...content }: FilteredContent,
    { actor: external, read = new Map() }: { actor?: Actor; read?: RoomsRead } = {},
  ): Promise<string | Fault | undefined> {
    if (content.text === "") return undefined;
    if (refusal?.spec.retryable) throw refusal;
    if (refusal !== undefined) return refusal;
    const { store, actors, callOperation, clock } = this.#deps;
    try {
      return await store.enclose(async (inner) => {
        const { tenant_id: tenantId, room_id: roomId } = run;
        const assertReadable = async (): Promise<void> => {
          if (await Audience.canRead(inner.db, { tenantId, roomId, read })) return;
          throw new Fault("forbidden", "Some readers of the room cannot see everything that the agent has read");
        };
        // What the message replies to may be hidden as well: sending it would fail for that reason.
        await assertReadable();
        const actor = external ?? await actors.ofPost(run, inner.db);
        const message = await callOperation(
          actor,
          "message.send",
          {
            roomId: run.room_id,
            ...content,
            parseMentions: content.type !== "notice",
            ...placeOf(run),
            metadata: { ...content.metadata, runId: run.id },
          },
          run.id,
          isFiltered === undefined ? {} : { isFiltered },
        );
        // With the room locked, nobody joins it any more.
        await assertReadable();
        await new RunStore(inner.db).putSent({
          tenant_id: run.tenant_id,
          message_id: message.id,
          run_id: run.id,
          chain_depth: run.chain_depth,
          created_at: iso(clock.now()),
        });
        return message.id as string;
      });
    } catch (thrown) {
      if (thrown instanceof RetryTransaction || !(thrown instanceof Fault) || thrown.spec.retryable) throw thrown;
      return thrown;
    }
  }
}

/** Where a run speaks: in its thread, else in reply to the message that triggered it, unless the room is direct. */
export function placeOf(
  { thread_id: threadId, trigger_message_id: triggerId, trigger_kind: kind }: RunRow,
): { threadId?: string; replyToId?: string } {
  if (threadId !== "") return { threadId };
  return triggerId === null || kind === "direct" ? {} : { replyToId: triggerId };
}
