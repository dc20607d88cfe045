// Claims: a worker takes a task for a while, and nobody else can until it lets go or the time is over.
import { createHash } from "node:crypto";
import { type Clock, iso } from "@/core/clock.ts";
import { Fault } from "@/core/fault.ts";
import { newSecret } from "@/core/id.ts";
import type { Context } from "@/core/operation.ts";
import { isClaimed } from "./presenter.ts";
import type { Task, TaskClaim, TaskLease, TaskRelease } from "./schema.ts";
import type { TaskRow } from "./tables.ts";
import type { TaskWriter } from "./writer.ts";

type Deps = { clock: Clock; writer: TaskWriter };

export class TaskClaims {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Takes a task that nobody holds, or prolongs the lease of `leaseToken`. Two workers of one principal are two workers. */
  claim(context: Context, { id, leaseSeconds, leaseToken }: TaskClaim): Promise<TaskLease> {
    const { clock, writer } = this.#deps;
    return writer.hold(context, id, async ({ tx, row }) => {
      const now = clock.now();
      if (row.is_open === 0) throw new Fault("conflict", `${row.key} is ${row.status}; there is nothing to claim`);
      if (leaseToken !== undefined || isClaimed(row, now)) checkLease(row, leaseToken, now);
      const token = leaseToken ?? newSecret(18);
      const expiresAt = iso(now + leaseSeconds * 1000);
      const saved = await writer.save(context, tx, row, {
        ...row,
        claimed_by: context.actor.principalId,
        lease_hash: hashOf(token),
        lease_expires_at: expiresAt,
      });
      return { leaseToken: token, expiresAt, task: writer.present(saved) };
    });
  }

  /** Lets a task go. A task that nobody holds is answered as it is. */
  release(context: Context, { id, leaseToken }: TaskRelease): Promise<Task> {
    const { clock, writer } = this.#deps;
    return writer.hold(context, id, async ({ tx, row, entry }) => {
      if (!isClaimed(row, clock.now())) return writer.present(row);
      const mayForce = entry.role === "moderator" || entry.role === "owner";
      if (leaseToken !== undefined || !mayForce) checkLease(row, leaseToken, clock.now());
      return writer.present(await writer.save(context, tx, row, unclaimed(row)));
    });
  }
}

/** Throws unless the lease of this token still holds the task. */
export function checkLease(row: TaskRow, token: string | undefined, now: number): void {
  if (token !== undefined && isClaimed(row, now) && row.lease_hash === hashOf(token)) return;
  throw new Fault(
    "already_claimed",
    isClaimed(row, now)
      ? `${row.key} is claimed by ${row.claimed_by} until ${row.lease_expires_at}`
      : `The claim on ${row.key} has ended; claim it again`,
  );
}

/** The task with nobody at it. */
export function unclaimed(row: TaskRow): TaskRow {
  return { ...row, claimed_by: null, lease_hash: null, lease_expires_at: null };
}

function hashOf(token: string): string {
  return createHash("sha256").update(token).digest("hex");
}
