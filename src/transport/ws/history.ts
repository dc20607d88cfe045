// The `history` command: a page of a stream's log in either direction.
import { Buffer } from "node:buffer";
import { shownTo, type StoredEvent } from "@/core/event.ts";
import type { EventLog } from "@/ports/store.ts";
import { type CommandOf, encodePublication, ERRORS, WireFault } from "./frame.ts";
import type { WsLimits } from "./limits.ts";
import { PAGE } from "./pages.ts";

/** Reads pages. The caller has checked the right to. */
export class History {
  readonly #log: EventLog;
  readonly #limits: WsLimits;

  constructor(log: EventLog, limits: WsLimits) {
    this.#log = log;
    this.#limits = limits;
  }

  /** The encoded result, of what lies after `hiddenUpTo`. `since` is exclusive; without a limit only the position is told. */
  async read(tenantId: string, request: CommandOf<"history">["body"], hiddenUpTo: number): Promise<string> {
    const { channel, since, reverse } = request;
    const { replyMaxEvents, replyMaxBytes } = this.#limits;
    const { epoch, head, floor } = await this.#log.position(tenantId, channel);
    if (since !== undefined && since.epoch !== "" && since.epoch !== epoch) throw new WireFault(ERRORS.unrecoverable);
    const limit = request.limit < 0 ? replyMaxEvents : Math.min(request.limit, replyMaxEvents);
    const after = Math.max(since?.offset ?? floor, hiddenUpTo);
    if (limit > 0 && !reverse && after < floor) throw new WireFault(ERRORS.unrecoverable);
    const from = reverse ? Math.min(since?.offset ?? Infinity, head + 1) : after;
    const publications: string[] = [];
    let [bytes, last] = [0, from];
    for await (const event of this.#events(tenantId, channel, { from, reverse, limit })) {
      // What came after the position was read is behind it; what was trimmed since then leaves a hole.
      const isHole = !reverse && event.seq !== last + 1 && (since !== undefined || publications.length > 0);
      if (isHole || event.seq <= hiddenUpTo || event.seq > head) break;
      last = event.seq;
      const { json, seq } = shownTo(event, hiddenUpTo);
      const publication = encodePublication(json, seq);
      bytes += Buffer.byteLength(publication);
      // A page that would be too heavy is a shorter page: the client goes on from its last offset.
      if (bytes > replyMaxBytes && publications.length > 0) break;
      publications.push(publication);
    }
    const isGone = !reverse && since !== undefined && limit > 0 && after < head && publications.length === 0;
    if (isGone) throw new WireFault(ERRORS.unrecoverable);
    return `{"publications":[${publications.join(",")}],"epoch":${JSON.stringify(epoch)},"offset":${head}}`;
  }

  /** At most `limit` events beyond a place, read as they are asked for. */
  async *#events(
    tenantId: string,
    channel: string,
    { from, reverse, limit }: { from: number; reverse: boolean; limit: number },
  ): AsyncGenerator<StoredEvent> {
    for (let left = limit, last = from; left > 0; left -= PAGE) {
      const size = Math.min(PAGE, left);
      const page = reverse
        ? await this.#log.readBack(tenantId, channel, last, size)
        : await this.#log.read(tenantId, channel, last, size);
      yield* page;
      if (page.length < size) return;
      last = page.at(-1)?.seq ?? last;
    }
  }
}
