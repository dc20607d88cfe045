// Creates, changes and erases facts. People decide: what an agent or a service says is a proposal, and none retires a fact.
import { type Actor, chargedId } from "@/core/actor.ts";
import { type Clock, iso } from "@/core/time/clock.ts";
import { heldFault, type Holds } from "@/core/hold.ts";
import { Fault, notVisible } from "@/core/fault.ts";
import { newId } from "@/core/id.ts";
import type { Context } from "@/core/operation.ts";
import { assertVersion, flagOf, patchedOr } from "@/core/patch.ts";
import type { IdentityService } from "@/modules/identity/mod.ts";
import type { MessageAccess } from "@/modules/message/mod.ts";
import type { Store, Transaction } from "@/ports/store.ts";
import { isHeldFact, type MemoryAccess } from "./access.ts";
import { isExpired, presentMemory, type ReadableFact, textKeyOf } from "./presenter.ts";
import { FACTS_PER_MESSAGE_MAX, type Memory, type MemoryCreate, type MemoryUpdate } from "./schema.ts";
import {
  type Fact,
  type MemoryRow,
  type MemoryScope,
  MemoryStore,
  type MemoryTables,
  type SourceRow,
} from "./store.ts";
import type { MemoryWriter } from "./writer.ts";

type Tx = Transaction<MemoryTables>;
type Deps = {
  store: Store<MemoryTables>;
  clock: Clock;
  access: MemoryAccess;
  messageAccess: MessageAccess;
  identity: Pick<IdentityService, "assertVisible">;
  writer: MemoryWriter;
  holds: Holds;
};

export class MemoryService {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Creates a fact, or returns the one of the scope that says the same. */
  create(
    context: Context,
    input: MemoryCreate,
    { isProposal = context.actor.kind !== "human" } = {},
  ): Promise<{ memory: Memory; isNew: boolean }> {
    const { actor } = context;
    const { store, clock, access, identity, writer } = this.#deps;
    return store.write(async (tx) => {
      await identity.assertVisible(actor, input.subjectIds, "/subjectIds", tx.db);
      const scope = access.resolveScope(context, input.scope);
      const roomIds = scope.type === "room"
        ? []
        : (await this.#sources(tx, actor, scope, input)).map((one) => one.room_id);
      await access.lockToWrite(tx, context, scope, roomIds);
      // Read again under the locks: a message is not deleted from here on until the commit.
      const sources = await this.#sources(tx, actor, scope, input);
      if (actor.kind === "agent" && sources.length === 0) {
        throw Fault.forField("/sourceMessageIds", "required", "an agent must name the messages that the fact is from");
      }
      const old = input.supersedes === undefined
        ? undefined
        : await this.#replaceable(tx, actor, scope, input.supersedes);
      if (old === undefined) {
        const found = await new MemoryStore(tx.db).findByText(actor.tenantId, scope, textKeyOf(input.text));
        const [same] = await access.filterReadable(actor, found, tx);
        if (same !== undefined) return { memory: presentMemory(same), isNew: false };
      }
      const now = iso(clock.now());
      const row = newRow(actor, scope, input, { now, sources, old, isProposal });
      assertTimes(row, now);
      const subjectIds = [...new Set(input.subjectIds)].sort();
      const fact = await writer.add(tx, actor, {
        row,
        sources: sources.map((source) => ({ ...source, memory_id: row.id })),
        subjectIds,
      });
      if (actor.kind === "human" && old !== undefined) await this.#supersede(tx, actor, old, row.id);
      return { memory: presentMemory({ ...fact, visibleSources: fact.sources }), isNew: true };
    });
  }

  update(context: Context, { id, version, status, ...input }: MemoryUpdate): Promise<Memory> {
    const { actor } = context;
    const { store, clock, writer, access, identity } = this.#deps;
    return store.write(async (tx) => {
      await identity.assertVisible(actor, input.subjectIds ?? [], "/subjectIds", tx.db);
      const fact = await this.#lockReadable(
        tx,
        context,
        id,
        (found) => access.lockToWrite(tx, context, { type: found.row.scope_type, id: found.row.scope_id }),
      );
      const { row } = fact;
      assertSourcesKnown(actor, fact);
      if (row.status === "superseded") throw new Fault("already_superseded", "The fact was replaced by a newer one");
      assertMayDecide(actor, fact, status === undefined);
      assertVersion("fact", row.version, version);
      const isActivated = status !== undefined && row.status === "proposed";
      const after: MemoryRow = {
        ...row,
        status: status ?? row.status,
        text: input.text ?? row.text,
        text_key: input.text === undefined ? row.text_key : textKeyOf(input.text),
        kind: input.kind ?? row.kind,
        confidence: input.confidence ?? row.confidence,
        valid_from: patchedOr(input.validFrom, row.valid_from),
        valid_to: patchedOr(input.validTo, row.valid_to),
        expires_at: patchedOr(input.expiresAt, row.expires_at),
        pinned: flagOf(input.pinned) ?? row.pinned,
      };
      const subjectIds = input.subjectIds === undefined ? fact.subjectIds : [...new Set(input.subjectIds)].sort();
      if (JSON.stringify([after, subjectIds]) === JSON.stringify([row, fact.subjectIds])) return presentMemory(fact);
      assertTimes(after, iso(clock.now()));
      // Its subjects may erase it, and so does its expiry.
      const isNewSubject = subjectIds.includes(actor.principalId) && !fact.subjectIds.includes(actor.principalId);
      if (isNewSubject || after.expires_at !== row.expires_at) await access.lockToForget(tx, context, fact);
      if (isActivated && row.supersedes !== null) {
        const scope = { type: row.scope_type, id: row.scope_id };
        await this.#supersede(tx, actor, await this.#replaceable(tx, actor, scope, row.supersedes), id);
      }
      const saved = await writer.save(tx, actor, { ...fact, row: after, subjectIds }, "updated");
      return presentMemory({ ...saved, visibleSources: fact.visibleSources });
    });
  }

  /** Erases a fact; the facts that it replaced stay superseded. */
  async forget(context: Context, id: string): Promise<void> {
    const { store, writer, access, holds } = this.#deps;
    await store.write(async (tx) => {
      const fact = await this.#lockReadable(tx, context, id, (found) => access.lockToForget(tx, context, found));
      assertMayDecide(context.actor, fact, true);
      if (await isHeldFact(holds, tx.db, fact)) throw heldFault("The fact cannot be erased");
      await writer.erase(tx, context.actor, fact);
    });
  }

  /** A fact that the caller may read, not erased: locked, and read again under the lock. */
  async #lockReadable(
    tx: Tx,
    { actor }: Context,
    id: string,
    lock: (fact: Fact) => Promise<void>,
  ): Promise<ReadableFact> {
    const { access, clock } = this.#deps;
    const find = async (): Promise<ReadableFact> => {
      const fact = await new MemoryStore(tx.db).find(actor.tenantId, id);
      const isLive = fact !== undefined && fact.row.status !== "forgotten" && !isExpired(fact.row, iso(clock.now()));
      const [readable] = isLive ? await access.filterReadable(actor, [fact], tx) : [];
      if (readable === undefined) throw notVisible("fact");
      return readable;
    };
    await lock(await find());
    return await find();
  }

  /** An active fact of the scope that the caller may read and so may replace. */
  async #replaceable(tx: Tx, actor: Actor, scope: MemoryScope, id: string): Promise<Fact> {
    const fact = await new MemoryStore(tx.db).find(actor.tenantId, id);
    const isOfScope = fact !== undefined && fact.row.scope_type === scope.type && fact.row.scope_id === scope.id;
    const [readable] = isOfScope ? await this.#deps.access.filterReadable(actor, [fact], tx) : [];
    if (readable === undefined || readable.row.status === "forgotten") throw notVisible("fact to supersede");
    if (readable.row.status === "superseded") {
      throw new Fault("already_superseded", "The fact was replaced by a newer one; supersede that one");
    }
    if (readable.row.status === "proposed") {
      throw new Fault("conflict", "The fact is a proposal; activate or forget it");
    }
    return readable;
  }

  async #supersede(tx: Tx, actor: Actor, old: Fact, id: string): Promise<void> {
    const row: MemoryRow = {
      ...old.row,
      status: "superseded",
      superseded_by: id,
      pinned: 0,
      valid_to: old.row.valid_to ?? iso(this.#deps.clock.now()),
    };
    await this.#deps.writer.save(tx, actor, { ...old, row }, "superseded", { supersededBy: id });
  }

  /** The sources of an input: messages that the caller may read. */
  async #sources(
    tx: Tx,
    actor: Actor,
    scope: MemoryScope,
    { sourceMessageIds }: MemoryCreate,
  ): Promise<Omit<SourceRow, "memory_id">[]> {
    const ids = [...new Set(sourceMessageIds)];
    const messages = await this.#deps.messageAccess.findVisible(actor, ids, tx.db);
    const counts = await new MemoryStore(tx.db).countBySource(actor.tenantId, ids);
    return ids.map((id) => {
      const message = messages.get(id);
      if (message === undefined) throw notVisible("source message");
      if (scope.type === "room" && message.room_id !== scope.id) {
        throw Fault.forField(
          "/sourceMessageIds",
          "other_room",
          "the fact of a room has messages of that room as sources",
        );
      }
      if ((counts.get(id) ?? 0) >= FACTS_PER_MESSAGE_MAX) {
        throw new Fault("limit_reached", `A message is the source of at most ${FACTS_PER_MESSAGE_MAX} facts`);
      }
      return { tenant_id: actor.tenantId, message_id: id, room_id: message.room_id, seq: Number(message.seq) };
    });
  }
}

function newRow(
  actor: Actor,
  scope: MemoryScope,
  input: MemoryCreate,
  { now, sources, old, isProposal }: {
    now: string;
    sources: readonly Pick<SourceRow, "seq">[];
    old: Fact | undefined;
    isProposal: boolean;
  },
): MemoryRow {
  return {
    tenant_id: actor.tenantId,
    id: newId("mem"),
    scope_type: scope.type,
    scope_id: scope.id,
    kind: input.kind,
    text: input.text,
    text_key: textKeyOf(input.text),
    confidence: input.confidence,
    valid_from: input.validFrom,
    valid_to: input.validTo,
    expires_at: input.expiresAt,
    pinned: input.pinned ? 1 : 0,
    status: isProposal ? "proposed" : "active",
    position: Math.max(0, ...sources.map(({ seq }) => seq)),
    supersedes: old?.row.id ?? null,
    superseded_by: null,
    version: 1,
    created_by: actor.principalId,
    owner_id: chargedId(actor),
    created_at: now,
    updated_at: now,
  };
}

/** People decide about facts; agents and services may correct and withdraw what they proposed themselves. */
function assertMayDecide({ kind, principalId }: Actor, { row }: Fact, isOwnEnough: boolean): void {
  if (kind === "human" || isOwnEnough && row.status === "proposed" && row.created_by === principalId) return;
  throw new Fault("forbidden", "Only people change, activate and erase facts; an agent or a service may propose one");
}

/**
 * A principal that sees any source of a fact may read it. So on behalf of others, an agent changes only a fact whose
 * sources are all in rooms that it may read: what it writes is for the readers of these.
 */
function assertSourcesKnown({ bounds }: Actor, { row, sources, visibleSources }: ReadableFact): void {
  if (bounds === undefined || row.scope_type === "room" || visibleSources.length === sources.length) return;
  throw new Fault("forbidden", "The fact has sources that some of those who asked, or who read the room, cannot see");
}

function assertTimes({ valid_from, valid_to, expires_at }: MemoryRow, now: string): void {
  if (valid_from !== null && valid_to !== null && valid_to <= valid_from) {
    throw Fault.forField("/validTo", "too_early", "expected a time after validFrom");
  }
  if (expires_at !== null && expires_at <= now) {
    throw Fault.forField("/expiresAt", "too_early", "expected a time in the future");
  }
}
