// Legal holds, for code that deletes permanently: what is under a hold must stay. That code does not know which module has them.
import { type Clock, DAY_MS } from "./time/clock.ts";
import { Fault } from "./fault.ts";
import type { JobDraft } from "./job.ts";
import type { AnyDatabase } from "./migration.ts";

/** A room with all that is in it, or a principal with all that it has written. */
export type HoldSubject = { roomId: string } | { principalId: string };
/** Whether a hold is on the subject, or on its tenant, in what `db` sees. Without a subject: on the tenant. */
export type IsHeld = (db: AnyDatabase, tenantId: string, subject?: HoldSubject) => Promise<boolean>;

/** Of a resource that is in a room, or in none: then with its creator. */
export function holdSubjectOf({ room_id, created_by }: { room_id: string | null; created_by: string }): HoldSubject {
  return room_id === null ? { principalId: created_by } : { roomId: room_id };
}

type HoldSource = { isHeld?: IsHeld };
/** The transaction of a job that is about to delete. */
type Tx = { db: AnyDatabase; enqueue(...drafts: JobDraft[]): Promise<void> };

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
    if (!await this.isHeld(...of)) return;
    throw new Fault(
      "legal_hold",
      `${what} while a legal hold is on it; an administrator of the tenant can release that`,
    );
  }

  /** Whether a job must not delete the subject; then it is enqueued for the next day. */
  async postpones(tx: Tx, job: JobDraft, subject: HoldSubject): Promise<boolean> {
    const isHeld = await this.isHeld(tx.db, job.tenantId, subject);
    if (isHeld) await tx.enqueue({ ...job, runAt: this.#clock.now() + DAY_MS });
    return isHeld;
  }
}
