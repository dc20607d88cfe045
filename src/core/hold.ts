// Legal holds, for code that deletes permanently: what is under a hold must stay. That code does not know which module has them.
import { type Clock, DAY_MS } from "./time/clock.ts";
import { Fault } from "./fault.ts";
import type { JobDraft } from "./job.ts";
import type { AnyDatabase } from "./migration.ts";

/** A room with all that is in it, or a principal with all that it has written. */
type HoldSubject = { roomId: string } | { principalId: string };
/** Whether a hold is on the subject, or on its tenant, in what `db` sees. Without a subject: on the tenant. */
export type IsHeld = (db: AnyDatabase, tenantId: string, subject?: HoldSubject) => Promise<boolean>;

/** The subject of a resource that is in a room, or in none: then its creator. */
export function holdSubjectOf({ room_id, created_by }: { room_id: string | null; created_by: string }): HoldSubject {
  return room_id === null ? { principalId: created_by } : { roomId: room_id };
}

/** What a change replaces: the state of a resource before it. */
export type HeldState = {
  tenantId: string;
  subject: HoldSubject;
  type: string;
  id: string;
  version: number;
  state: unknown;
  /** Who replaced it; absent: the gateway. */
  replacedBy: string | undefined;
};
/** Stores a state that is replaced. */
export type KeepState = (db: AnyDatabase, state: HeldState) => Promise<void>;

type HoldSource = { isHeld?: IsHeld; keepState?: KeepState };
/** The transaction of a job that is about to delete. */
type Tx = { db: AnyDatabase; enqueue(...drafts: JobDraft[]): Promise<void> };

/** `what` cannot be done, such as "The room cannot be purged". */
export function heldFault(what: string): Fault {
  return new Fault(
    "legal_hold",
    `${what} while a legal hold is on it; an administrator of the tenant can release that`,
  );
}

export class Holds {
  readonly #modules: readonly HoldSource[];
  readonly #clock: Clock;

  /** `modules` are read when something is asked, so they may be added later. */
  constructor(modules: readonly HoldSource[], clock: Clock) {
    this.#modules = modules;
    this.#clock = clock;
  }

  readonly isHeld: IsHeld = async (...of) => {
    for (const module of this.#modules) if (await module.isHeld?.(...of) === true) return true;
    return false;
  };

  /** Throws if there is a hold; `what` cannot be done then, such as "The room cannot be purged". */
  async assertNotHeld(what: string, ...of: Parameters<IsHeld>): Promise<void> {
    if (await this.isHeld(...of)) throw heldFault(what);
  }

  /** Stores what a change replaces, if there is a hold; `stateOf` is asked only then. */
  async keepState(
    db: AnyDatabase,
    { stateOf, ...of }: Omit<HeldState, "state"> & { stateOf: () => unknown },
  ): Promise<void> {
    if (!await this.isHeld(db, of.tenantId, of.subject)) return;
    const state = { ...of, state: stateOf() };
    for (const module of this.#modules) await module.keepState?.(db, state);
  }

  /** Whether a job must not delete the subject; then it is enqueued for the next day. */
  async postpones(tx: Tx, job: JobDraft, subject: HoldSubject): Promise<boolean> {
    const isHeld = await this.isHeld(tx.db, job.tenantId, subject);
    if (isHeld) await tx.enqueue({ ...job, runAt: this.#clock.now() + DAY_MS });
    return isHeld;
  }
}
