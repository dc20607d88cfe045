// The `history` command: a page of a stream's log in either direction.
import { shownTo } from "@/core/event.ts";
import type { EventLog } from "@/ports/store.ts";
import { type CommandOf, encodePublication, ERRORS, WireFault } from "./frame.ts";
import type { WsLimits } from "./limits.ts";

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
    const { replyMaxEvents } = this.#limits;
    const { epoch, head, floor } = await this.#log.position(tenantId, channel);
    if (since !== undefined && since.epoch !== "" && since.epoch !== epoch) throw new WireFault(ERRORS.unrecoverable);
    const limit = request.limit < 0 ? replyMaxEvents : Math.min(request.limit, replyMaxEvents);
    const publications: string[] = [];
    if (limit > 0) {
      const after = Math.max(since?.offset ?? floor, hiddenUpTo);
      if (!reverse && after < floor) throw new WireFault(ERRORS.unrecoverable);
      const events = reverse
        ? await this.#log.readBack(tenantId, channel, since === undefined ? head + 1 : since.offset, limit)
        : await this.#log.read(tenantId, channel, after, limit);
      let size = 0;
      for (const event of events) {
        if (event.seq <= hiddenUpTo) break;
        const { json, seq } = shownTo(event, hiddenUpTo);
        size += json.length;
        // A page that would be too heavy is a shorter page: the client goes on from its last offset.
        if (size > this.#limits.replyMaxBytes && publications.length > 0) break;
        publications.push(encodePublication(json, seq));
      }
    }
    return `{"publications":[${publications.join(",")}],"epoch":${JSON.stringify(epoch)},"offset":${head}}`;
  }
}
