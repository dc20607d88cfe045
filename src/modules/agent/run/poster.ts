// What a run says in its room: its response, why there is none, and its questions.
import type { Actor } from "@/core/actor.ts";
import { withHops } from "@/core/agent_hops.ts";
import { type Clock, iso } from "@/core/time/clock.ts";
import { Fault, RetryTransaction } from "@/core/fault.ts";
import { NOTHING_PREPARED, type Preparation } from "@/core/operation.ts";
import type { FileWriter } from "@/modules/file/mod.ts";
import { contentOfText, fitsMessage, type Message, type MessageFilter, sendContext } from "@/modules/message/mod.ts";
import { Audience, type RoomsRead } from "@/modules/room/mod.ts";
import type { Store } from "@/ports/store.ts";
import type { AgentTables, RunRow } from "../tables.ts";
import type { CallOperation } from "./context.ts";
import type { RunActors } from "./run_actor.ts";
import { RunStore } from "./store.ts";

type Reply = { text: string; type?: "notice" };
type Content = Reply & { fileIds?: string[]; metadata?: Message["metadata"] };
/** What is prepared for the transaction that posts it. */
export type PreparedPost = { content: Content; preparation: Preparation | undefined };

type Deps = {
  store: Store<AgentTables>;
  clock: Clock;
  actors: RunActors;
  filter: MessageFilter;
  callOperation: CallOperation;
  files: Pick<FileWriter, "write">;
};

export class RunPoster {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Prepares what a run posts, outside of the transaction that does. What fails here, or filters refuse, fails when it is posted. */
  async prepare(run: RunRow, reply: Reply, external?: Actor): Promise<PreparedPost> {
    const { store, actors, filter, callOperation } = this.#deps;
    const isFiltered = filter.appliesTo(run.tenant_id, run.room_id);
    const isLong = !fitsMessage(reply.text);
    if (reply.text === "" || !isFiltered && !isLong) return { content: reply, preparation: undefined };
    try {
      const actor = external ?? await actors.ofPost(run, store.db);
      if (isLong) return await this.#prepareLong(run, reply, actor, isFiltered);
      const preparation = await callOperation.prepare(actor, "message.send", draftOf(run, reply), {
        requestId: run.id,
      });
      return { content: reply, preparation };
    } catch (thrown) {
      return { content: reply, preparation: { thrown } };
    }
  }

  /** The beginning of a text that is too long for a message, and a file with all of it, as filters let it through. */
  async #prepareLong(run: RunRow, reply: Reply, actor: Actor, isFiltered: boolean): Promise<PreparedPost> {
    const { filter, files } = this.#deps;
    const filtered: Content = isFiltered
      ? await filter.apply(sendContext(actor, run.id), run.room_id, { ...reply, ...placeOf(run) })
      : reply;
    const { text, metadata } = filtered;
    const content = await contentOfText(files, actor, { text, roomId: run.room_id, fileName: "answer.md" });
    return {
      content: { ...reply, ...content, ...metadata === undefined ? {} : { metadata } },
      preparation: isFiltered ? NOTHING_PREPARED : undefined,
    };
  }

  /**
   * Returns the message; nothing if there is nothing to say; the Fault if it may not be posted: also if readers of the
   * room cannot see all that the run has read, since somebody joined one room or left another meanwhile.
   */
  async post(
    run: RunRow,
    { content, preparation }: PreparedPost,
    { actor: external, read = new Map() }: { actor?: Actor; read?: RoomsRead } = {},
  ): Promise<Message | Fault | undefined> {
    if (content.text === "") return undefined;
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
        if (preparation !== undefined && "thrown" in preparation) throw preparation.thrown;
        const draft = draftOf(run, content);
        const message: Message = await callOperation(actor, "message.send", draft, { requestId: run.id }, preparation);
        // While the room is locked, nobody joins it.
        await assertReadable();
        await new RunStore(inner.db).putSent({
          tenant_id: run.tenant_id,
          message_id: message.id,
          run_id: run.id,
          chain_depth: run.chain_depth,
          created_at: iso(clock.now()),
        });
        return message;
      });
    } catch (thrown) {
      if (thrown instanceof RetryTransaction || !(thrown instanceof Fault) || thrown.spec.retryable) throw thrown;
      return thrown;
    }
  }
}

/** What the gateway itself says in the name of the agent: no filter decides on it. */
export function noticeOf(text: string): PreparedPost {
  return { content: { text, type: "notice" }, preparation: NOTHING_PREPARED };
}

/** Input of `message.send`. */
function draftOf(run: RunRow, content: Content) {
  return {
    roomId: run.room_id,
    ...content,
    parseMentions: content.type !== "notice",
    ...placeOf(run),
    metadata: withHops({ ...content.metadata, runId: run.id }, run.chain_depth),
  };
}

/** Where a run speaks: in its thread, else in reply to the message that triggered it, unless the room is direct. */
export function placeOf(
  { thread_id: threadId, trigger_message_id: triggerId, trigger_kind: kind }: RunRow,
): { threadId?: string; replyToId?: string } {
  if (threadId !== "") return { threadId };
  return triggerId === null || kind === "direct" ? {} : { replyToId: triggerId };
}
