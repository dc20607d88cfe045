// Publishes the changed name, handle, picture or status of a principal in its rooms, and that it was disabled or enabled.
import { nextSlice } from "@/core/caller.ts";
import type { Clock } from "@/core/time/clock.ts";
import { roomEvent, roomStream } from "@/core/event/event.ts";
import type { JobDraft } from "@/core/job.ts";
import { paginate } from "@/core/page.ts";
import type { Store } from "@/ports/store.ts";
import { profileFields } from "./presenter.ts";
import { ProfileStore, type ProfileTables } from "./profile_store.ts";

export const PROFILE_JOB = "room.profile";
const ROOMS_AT_ONCE = 10;

/** The job to enqueue in the transaction that changes a profile. */
export function profileJob(tenantId: string, principalId: string): JobDraft {
  return { tenantId, kind: PROFILE_JOB, payload: { principalId }, key: principalId };
}

/**
 * A job with one transaction per room, so that the change itself is quick however many rooms there are. It publishes the
 * current profile: of several changes only the last, and nothing twice when a run is repeated.
 */
export class MemberProfileSync {
  readonly #store: Store<ProfileTables>;
  readonly #clock: Clock;

  constructor({ store, clock }: { store: Store<ProfileTables>; clock: Clock }) {
    this.#store = store;
    this.#clock = clock;
  }

  /** Publishes the profile in every room of the principal where it is pending. Safe to repeat. */
  async propagate(tenantId: string, principalId: string): Promise<void> {
    const read = (last = "") =>
      new ProfileStore(this.#store.db).pendingRooms(tenantId, principalId, last, ROOMS_AT_ONCE);
    for await (const roomIds of paginate(ROOMS_AT_ONCE, read)) {
      // Concurrently, since concurrent writers share a commit.
      await Promise.all(roomIds.map((roomId) => this.#propagateTo(tenantId, roomId, principalId)));
      // Other writers must not wait for all of the rooms.
      await nextSlice();
    }
  }

  async #propagateTo(tenantId: string, roomId: string, principalId: string): Promise<void> {
    await this.#store.write(async (tx) => {
      // With the stream locked, what is read now stays the newest until the commit, and the membership does not end.
      await tx.lock(tenantId, roomStream(roomId));
      const profiles = new ProfileStore(tx.db);
      const profile = await profiles.pending(tenantId, principalId, roomId);
      if (profile === undefined) return;
      await profiles.markPublished(tenantId, principalId, roomId, profile.version);
      const { role, member_count: memberCount } = profile;
      const data = { roomId, principalId, role, memberCount, ...profileFields(profile, this.#clock.now()) };
      await tx.emit(roomEvent({ tenantId }, roomId, "member.updated", data));
    });
  }
}
