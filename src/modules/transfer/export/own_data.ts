// What a gateway has of one person, for that person: what lists of the API show as their own, with the rights that they have now,
// and all that they wrote and reacted to, also in rooms that they have left.
import type { Actor } from "@/core/actor.ts";
import { nextSlice } from "@/core/caller.ts";
import type { Clock } from "@/core/time/clock.ts";
import type { Dispatcher } from "@/core/dispatch.ts";
import { Fault, isFault } from "@/core/fault.ts";
import { NOTHING_PREPARED, type Operation, type OwnData } from "@/core/operation.ts";
import { paginate } from "@/core/page.ts";
import type { IdentityService } from "@/modules/identity/mod.ts";
import { MessageArchiveStore, type MessageRow } from "@/modules/message/mod.ts";
import { type RoomAccess, RoomArchiveStore, type RoomRow } from "@/modules/room/mod.ts";
import type { Store } from "@/ports/store.ts";
import { ArchiveFault } from "../fault.ts";
import type { ExportRow, TransferTables } from "../store.ts";

/** Items of a list that are read at once, and positions of a room. */
const PAGE = 200;
const SEQS_AT_ONCE = 1000;
const ROOMS_AT_ONCE = 500;
const READ = { via: "export", isCpuAccounted: true, hasTurn: true, preparation: NOTHING_PREPARED } as const;

export type OwnDataDeps = {
  store: Store<TransferTables>;
  clock: Clock;
  identity: IdentityService;
  roomAccess: RoomAccess;
  dispatch: Dispatcher;
  /** All of the gateway, by name. */
  operations: () => ReadonlyMap<string, Operation>;
};

type Item = Readonly<Record<string, unknown>>;

export class OwnDataReader {
  readonly #deps: OwnDataDeps;
  readonly #row: ExportRow;

  constructor(deps: OwnDataDeps, row: ExportRow) {
    this.#deps = deps;
    this.#row = row;
  }

  /** What lists of the API show as the person's own, as `{ type, ...item }`. */
  async *items(): AsyncGenerator<Item[]> {
    for (const operation of this.#deps.operations().values()) {
      if (operation.ownData === undefined) continue;
      try {
        yield* this.#itemsOf(operation, operation.ownData);
      } catch (thrown) {
        // The person's role does not allow it, or the gateway does not have it.
        if (!(thrown instanceof Fault) || thrown.spec.retryable) throw thrown;
      }
    }
  }

  /** Messages of the person, with the reactions of the person to those of others, room by room. */
  async *messages(recordOf: (row: MessageRow) => Promise<Item>): AsyncGenerator<Item[]> {
    const { tenant_id: tenantId, requested_by: principalId } = this.#row;
    const { store, roomAccess } = this.#deps;
    const messages = new MessageArchiveStore(store.db);
    const read = (last?: RoomRow) => new RoomArchiveStore(store.db).roomsAfter(tenantId, last?.id ?? "", ROOMS_AT_ONCE);
    for await (const rooms of paginate(ROOMS_AT_ONCE, read)) {
      const visible = await roomAccess.findMany(await this.#actor(), rooms.map(({ id }) => id));
      for (const { id: roomId } of rooms) {
        const of = { roomId, roomName: visible.get(roomId)?.room.name ?? null };
        const end = await messages.lastSeq(tenantId, roomId);
        for (let after = 0; after < end; after += SEQS_AT_ONCE) {
          const part = [tenantId, roomId, principalId, after, after + SEQS_AT_ONCE] as const;
          for (const row of await messages.messagesBy(...part)) yield [{ ...await recordOf(row), ...of }];
          yield (await messages.reactionsBy(...part)).map(({ message_id, key, created_at }) => ({
            ...{ type: "reaction", ...of, messageId: message_id, key, at: created_at },
          }));
          await nextSlice();
        }
      }
    }
  }

  async *#itemsOf(operation: Operation, { inputs, isOwn, readBy }: OwnData): AsyncGenerator<Item[]> {
    const [type] = operation.name.split(".");
    const seen = new Set<unknown>();
    for (const input of inputs?.(this.#deps.clock.now()) ?? [{}]) {
      let cursor: unknown;
      do {
        const page = await this.#call(operation, { ...input, ...pageOf(operation, cursor) });
        const items = Array.isArray(page["items"]) ? page["items"] as readonly Item[] : [page];
        const own = items.filter((item) => !seen.has(item["id"]) && (isOwn?.(item, this.#row.requested_by) ?? true));
        for (const item of own) {
          if (item["id"] !== undefined) seen.add(item["id"]);
          const more = readBy === undefined ? {} : await this.#readItem(readBy, item);
          if (more !== undefined) yield [{ ...item, ...more, type }];
        }
        cursor = page["nextCursor"] ?? undefined;
        await nextSlice();
      } while (cursor !== undefined);
    }
  }

  /** `undefined` if it was deleted meanwhile. */
  async #readItem(name: string, { id }: Item): Promise<Item | undefined> {
    const operation = this.#deps.operations().get(name);
    if (operation === undefined) throw new TypeError(`Expected an operation, received ${name}`);
    try {
      return await this.#call(operation, { id });
    } catch (thrown) {
      if (isFault(thrown, "not_found")) return undefined;
      throw thrown;
    }
  }

  async #call(operation: Operation, input: Item): Promise<Item> {
    const call = { actor: await this.#actor(), input, requestId: this.#row.id, ...READ };
    return (await this.#deps.dispatch(operation, call)).output as Item;
  }

  /** With the rights of now. */
  async #actor(): Promise<Actor> {
    const { tenant_id: tenantId, requested_by: principalId } = this.#row;
    const subject = await this.#deps.identity.subject(tenantId, principalId).catch((thrown) => {
      if (!isFault(thrown, "not_found")) throw thrown;
      throw new ArchiveFault("requester_disabled", "The person was disabled or erased while the copy was written");
    });
    return { ...subject, displayName: principalId, scopes: undefined, tokenId: undefined, expiresAt: undefined };
  }
}

/** Not all lists have pages. */
function pageOf({ input }: Operation, cursor: unknown): Item {
  const { shape = {} } = input as { shape?: Item };
  return { ..."limit" in shape ? { limit: PAGE } : {}, ...cursor === undefined ? {} : { cursor } };
}
