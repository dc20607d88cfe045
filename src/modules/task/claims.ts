// Claims: a worker leases a task exclusively until it releases the task or the lease expires.
import { type Clock, iso } from "@/core/time/clock.ts";
import { hashText } from "@/core/crypto.ts";
import { Fault } from "@/core/fault.ts";
import { newSecret } from "@/core/id.ts";
import type { Context } from "@/core/operation.ts";
import type { Store } from "@/ports/store.ts";
import { isClaimed } from "./presenter.ts";
import type { Task, TaskClaim, TaskLease, TaskRelease } from "./schema.ts";
import type { TaskRow, TaskTables } from "./tables.ts";
import type { TaskWriter } from "./writer.ts";

type Deps = { store: Store<TaskTables>; clock: Clock; writer: TaskWriter };

export class TaskClaims {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Claims a free task, or extends the lease of `leaseToken`. Workers of one principal exclude each other as well. */
  claim(context: Context, { id, leaseSeconds, leaseToken }: TaskClaim): Promise<TaskLease> {
    const { store, clock, writer } = this.#deps;
    return store.write(async (tx) => {
      const { row } = await writer.requireForUpdate(tx, context, id);
      const now = clock.now();
      if (row.is_open === 0) throw new Fault("conflict", `${row.key} is ${row.status} and cannot be claimed`);
      if (leaseToken !== undefined || isClaimed(row, now)) assertLease(row, leaseToken, now);
      const token = leaseToken ?? newSecret(18);
      const expiresAt = iso(now + leaseSeconds * 1000);
      const saved = await writer.save(tx, context, row, {
        ...row,
        claimed_by: context.actor.principalId,
        lease_hash: hashText(token),
        lease_expires_at: expiresAt,
      });
      return { leaseToken: token, expiresAt, task: writer.present(saved) };
    });
  }

  /** Releases a task; a task without a claim stays as it is. */
  release(context: Context, { id, leaseToken }: TaskRelease): Promise<Task> {
    const { store, clock, writer } = this.#deps;
    return store.write(async (tx) => {
      const { row, grant } = await writer.requireForUpdate(tx, context, id);
      if (!isClaimed(row, clock.now())) return writer.present(row);
      const mayForce = grant.role === "moderator" || grant.role === "owner";
      if (leaseToken !== undefined || !mayForce) assertLease(row, leaseToken, clock.now());
      return writer.present(await writer.save(tx, context, row, withoutClaim(row)));
    });
  }
}

/** Throws unless this token has the current lease of the task. */
export function assertLease(row: TaskRow, token: string | undefined, now: number): void {
  if (token !== undefined && isClaimed(row, now) && row.lease_hash === hashText(token)) return;
  throw new Fault(
    "already_claimed",
    isClaimed(row, now)
      ? `${row.key} is claimed by ${row.claimed_by} until ${row.lease_expires_at}`
      : `The claim on ${row.key} has expired; claim it again`,
  );
}

export function withoutClaim(row: TaskRow): TaskRow {
  return { ...row, claimed_by: null, lease_hash: null, lease_expires_at: null };
}
