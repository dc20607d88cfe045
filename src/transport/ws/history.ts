// The `history` command: a page of a stream in either direction.
import { Buffer } from "node:buffer";
import { measureCpu, nextTurn } from "@/core/caller.ts";
import type { StoredEvent } from "@/core/event/event.ts";
import { type EventView, redactFor } from "@/core/event/event_view.ts";
import type { EventLog } from "@/ports/store.ts";
import { type CommandOf, encodePublication, ERRORS, ProtocolError } from "./protocol.ts";
import type { WsLimits } from "../shared/socket_limits.ts";
import { PAGE_SIZE } from "./recovery_cache.ts";

/** Reads pages; the caller has authorized the request. */
export class History {
  readonly #log: EventLog;
  readonly #limits: WsLimits;

  constructor(log: EventLog, limits: WsLimits) {
    this.#log = log;
    this.#limits = limits;
  }

  /** The encoded result, of events after `view.hiddenUpTo`. `since` is exclusive; without a limit only the position is returned. */
  async read(tenantId: string, request: CommandOf<"history">["body"], view: EventView): Promise<string> {
    const { channel, since, reverse } = request;
    const { hiddenUpTo } = view;
    const { replyMaxEvents, replyMaxBytes } = this.#limits;
    const { epoch, head, floor } = await this.#log.position(tenantId, channel);
    if (since !== undefined && since.epoch !== "" && since.epoch !== epoch) {
      throw new ProtocolError(ERRORS.unrecoverable);
    }
    const limit = request.limit < 0 ? replyMaxEvents : Math.min(request.limit, replyMaxEvents);
    const after = Math.max(since?.offset ?? floor, hiddenUpTo);
    if (limit > 0 && !reverse && after < floor) throw new ProtocolError(ERRORS.unrecoverable);
    const from = reverse ? Math.min(since?.offset ?? Infinity, head + 1) : after;
    const publications: string[] = [];
    let [bytes, last] = [0, from];
    const add = (event: StoredEvent): boolean => {
      // Events after the position belong to a later page; events trimmed since then leave a gap.
      const isGap = !reverse && event.seq !== last + 1 && (since !== undefined || publications.length > 0);
      if (isGap || event.seq <= hiddenUpTo || event.seq > head) return false;
      last = event.seq;
      const { json, seq } = redactFor(event, view);
      const publication = encodePublication(json, seq);
      bytes += Buffer.byteLength(publication);
      // A page that would be too large is shortened: the client continues from its last offset.
      if (bytes > replyMaxBytes && publications.length > 0) return false;
      publications.push(publication);
      return true;
    };
    for await (const page of this.#pages(tenantId, channel, { from, reverse, limit })) {
      if (!measureCpu(() => page.every(add))) break;
    }
    const isTrimmed = !reverse && since !== undefined && limit > 0 && after < head && publications.length === 0;
    if (isTrimmed) throw new ProtocolError(ERRORS.unrecoverable);
    return `{"publications":[${publications.join(",")}],"epoch":${JSON.stringify(epoch)},"offset":${head}}`;
  }

  /** Up to `limit` events beyond a position, read on demand. Others have their turn in between. */
  async *#pages(
    tenantId: string,
    channel: string,
    { from, reverse, limit }: { from: number; reverse: boolean; limit: number },
  ): AsyncGenerator<readonly StoredEvent[]> {
    for (let left = limit, last = from; left > 0; left -= PAGE_SIZE) {
      const size = Math.min(PAGE_SIZE, left);
      await nextTurn();
      const page = reverse
        ? await this.#log.readBackward(tenantId, channel, last, size)
        : await this.#log.read(tenantId, channel, last, size);
      yield page;
      if (page.length < size) return;
      last = page.at(-1)?.seq ?? last;
    }
  }
}
