// To which agents and rooms skills are attached, and what an agent may therefore read.
import { type Actor, isAdmin } from "@/core/actor.ts";
import { type Clock, iso } from "@/core/time/clock.ts";
import { Fault, notFound } from "@/core/fault.ts";
import { asReadOnly, type Context } from "@/core/operation.ts";
import type { ScheduleTakeover } from "@/modules/agent/mod.ts";
import type { IdentityService } from "@/modules/identity/mod.ts";
import type { RoomAccess } from "@/modules/room/mod.ts";
import type { AnyTransaction, Store } from "@/ports/store.ts";
import { ATTACHMENTS_MAX, type Skill, type SkillDetach } from "./schema.ts";
import { SkillStore, type SkillTables, type Subject } from "./store.ts";

type Deps = {
  store: Store<SkillTables>;
  clock: Clock;
  roomAccess: RoomAccess;
  identity: IdentityService;
  takeover: Pick<ScheduleTakeover, "take">;
};

/** The agent or room that a skill is attached to. */
type Attachee = Pick<SkillDetach, "kind" | "subjectId">;

export class SkillAttachments {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Attaches an approved version; another version of the skill is replaced. */
  async attach(context: Context, { digest, name, ...of }: SkillDetach & { digest: string }): Promise<void> {
    const { store, clock } = this.#deps;
    const { tenantId, principalId } = context.actor;
    await store.write(async (tx) => {
      await this.#assertMayAttach(tx, context, of);
      const skills = new SkillStore(tx.db);
      const version = await skills.version(tenantId, name, digest);
      if (version === undefined) throw notFound("skill or version");
      if (version.state !== "approved") throw new Fault("skill_not_approved", "An admin approves the version first");
      const subject = subjectOf(of);
      const attached = await skills.attachmentsOf(tenantId, subject);
      if (attached.length >= ATTACHMENTS_MAX && attached.every(({ skill_name }) => skill_name !== name)) {
        throw new Fault("limit_reached", `An agent or a room has at most ${ATTACHMENTS_MAX} skills`);
      }
      if (attached.some((other) => other.skill_name === name && other.digest === digest)) return;
      await skills.attach({
        tenant_id: tenantId,
        ...subject,
        skill_name: name,
        digest,
        attached_by: principalId,
        attached_at: iso(clock.now()),
      });
      await this.#takeOverSchedule(tx, context.actor, of);
    });
  }

  async detach(context: Context, { name, ...of }: SkillDetach): Promise<void> {
    await this.#deps.store.write(async (tx) => {
      await this.#assertMayAttach(tx, context, of);
      const isAttached = await new SkillStore(tx.db).detach(context.actor.tenantId, subjectOf(of), name);
      if (!isAttached) throw notFound("attachment of the skill");
      await this.#takeOverSchedule(tx, context.actor, of);
    });
  }

  /** Names of the skills that are attached to an agent and a room that the caller may know of; `undefined` without either. */
  async namesOf(
    context: Context,
    { agentId, roomId }: { agentId: string | undefined; roomId: string | undefined },
  ): Promise<ReadonlySet<string> | undefined> {
    const { store, roomAccess, identity } = this.#deps;
    const { tenantId } = context.actor;
    const skills = new SkillStore(store.db);
    const lists: string[][] = [];
    const add = async (subject: Subject): Promise<void> => {
      lists.push((await skills.attachmentsOf(tenantId, subject)).map(({ skill_name }) => skill_name));
    };
    if (agentId !== undefined) {
      await identity.read(context.actor, agentId);
      await add({ kind: "agent", subject_id: agentId });
    }
    if (roomId !== undefined) {
      await roomAccess.require(asReadOnly(context), roomId, { least: "observer" });
      await add({ kind: "room", subject_id: roomId });
    }
    const [first, second] = lists;
    if (first === undefined) return undefined;
    return new Set(second === undefined ? first : first.filter((name) => second.includes(name)));
  }

  /** The attachments of a skill that the caller may know of: all for admins, else those of its agents and rooms. */
  async visible({ actor }: Context, name: string): Promise<Skill["attachments"]> {
    const { store, roomAccess, identity } = this.#deps;
    const rows = await new SkillStore(store.db).attachments(actor.tenantId, name);
    const ofKind = (kind: string) => rows.filter((row) => row.kind === kind).map(({ subject_id }) => subject_id);
    // An admin knows of no room that it is not in.
    const rooms = await roomAccess.findMany(actor, ofKind("room"));
    const agents = new Set(
      isAdmin(actor) ? ofKind("agent") : await identity.agentsOf(actor.tenantId, actor.principalId),
    );
    return rows.filter(({ kind, subject_id }) =>
      kind === "room" ? rooms.has(subject_id) : agents.has(subject_id) || subject_id === actor.principalId
    ).map(({ kind, subject_id: subjectId, digest }) => ({ kind, subjectId, digest }));
  }

  async purgeRoom(tenantId: string, roomId: string): Promise<void> {
    await this.#deps.store.write((tx) => new SkillStore(tx.db).detach(tenantId, { kind: "room", subject_id: roomId }));
  }

  /** Skills of an agent are part of its instructions; those of a room are what its moderators say there. */
  async #takeOverSchedule(tx: AnyTransaction, actor: Actor, { kind, subjectId }: Attachee): Promise<void> {
    if (kind === "agent") await this.#deps.takeover.take(tx, actor, subjectId);
  }

  /** The owner of an agent and admins decide about the agent, moderators about their room. */
  async #assertMayAttach(tx: AnyTransaction, context: Context, { kind, subjectId }: Attachee): Promise<void> {
    const { roomAccess, identity } = this.#deps;
    const { actor } = context;
    if (kind === "room") return void await roomAccess.requireForUpdate(tx, context, subjectId);
    const found = (await identity.findEnabledFor(actor, [subjectId], tx.db)).get(subjectId);
    if (found?.kind !== "agent") throw notFound("agent");
    if (found.owner_id === actor.principalId || isAdmin(actor)) return;
    throw new Fault("forbidden", "Skills of an agent are attached by its owner or an admin");
  }
}

function subjectOf({ kind, subjectId }: Attachee): Subject {
  return { kind, subject_id: subjectId };
}
