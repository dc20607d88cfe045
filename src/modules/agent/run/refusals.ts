// What an agent says in the room when it takes no request: people learn why no response comes.
import { type Clock, MINUTE_MS } from "@/core/time/clock.ts";
import { Fault, RetryTransaction } from "@/core/fault.ts";
import { NOTHING_PREPARED } from "@/core/operation.ts";
import type { Store } from "@/ports/store.ts";
import type { AgentTables, RunRow } from "../tables.ts";
import type { CallOperation } from "./context.ts";
import type { RunFailure } from "./lifecycle.ts";
import { placeOf } from "./poster.ts";
import type { RunActors } from "./run_actor.ts";

/** It is said once in this time in a room or thread, however many ask. */
const REPEAT_MS = 10 * MINUTE_MS;

type Deps = { store: Store<AgentTables>; clock: Clock; actors: RunActors; callOperation: CallOperation };

export class RunRefusals {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /**
   * Part of the transaction that refuses the run. Returns the id of the notice; `undefined` if it was said before, or may not be
   * said: nobody waits for it.
   */
  async post(run: RunRow, { code, detail }: RunFailure): Promise<string | undefined> {
    const { store, clock, actors, callOperation } = this.#deps;
    try {
      return await store.enclose(async (tx) => {
        const message = await callOperation(
          await actors.ofPost(run, tx.db),
          "message.send",
          {
            roomId: run.room_id,
            text: `I cannot respond to this: ${detail}.`,
            type: "notice",
            ...placeOf(run),
            clientMessageId: `${code}:${run.thread_id}:${Math.floor(clock.now() / REPEAT_MS)}`,
          },
          { requestId: run.id },
          NOTHING_PREPARED,
        );
        return message.id as string;
      });
    } catch (thrown) {
      if (!(thrown instanceof Fault) || thrown instanceof RetryTransaction) throw thrown;
      return undefined;
    }
  }
}
