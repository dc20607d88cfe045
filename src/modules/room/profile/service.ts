// Profiles: the new name or picture of somebody, told in the rooms they are in.
import { nextTurn } from "@/core/clock.ts";
import { roomStream } from "@/core/event.ts";
import type { JobDraft } from "@/core/job.ts";
import { byPages } from "@/core/page.ts";
import type { Store } from "@/ports/store.ts";
import { looksOf } from "../presenter.ts";
import { ProfileStore, type ProfileTables } from "./store.ts";

export const PROFILE_JOB = "room.profile";
const ROOMS_AT_ONCE = 10;

/** The job to be promised in the transaction that changes what a principal is called or looks like. */
export function profileJob(tenantId: string, principalId: string): JobDraft {
  return { tenantId, kind: PROFILE_JOB, payload: { principalId }, key: principalId };
}

/**
 * A job, and in it a transaction per room, so that a change is quick however many rooms somebody is in. A room is told what
 * is so by then: of several changes in a row it hears the last, and from a run that is repeated nothing twice.
 */
export class RoomProfiles {
  readonly #store: Store<ProfileTables>;

  constructor(store: Store<ProfileTables>) {
    this.#store = store;
  }

  /** Tells every room that somebody is a member of, unless it has heard. Safe to repeat. */
  async tell(tenantId: string, principalId: string): Promise<void> {
    const read = (last = "") => new ProfileStore(this.#store.db).behind(tenantId, principalId, last, ROOMS_AT_ONCE);
    for await (const roomIds of byPages(ROOMS_AT_ONCE, read)) {
      // Side by side, since writers that come together share a commit.
      await Promise.all(roomIds.map((roomId) => this.#tellIn(tenantId, roomId, principalId)));
      // Nor do those who write meanwhile wait for all of the rooms.
      await nextTurn();
    }
  }

  async #tellIn(tenantId: string, roomId: string, principalId: string): Promise<void> {
    await this.#store.write(async (tx) => {
      // With the line held, what is read now is the newest that anybody could tell here; who was leaving just now has left.
      await tx.reserve(tenantId, roomStream(roomId), 0);
      const profiles = new ProfileStore(tx.db);
      const profile = await profiles.untold(tenantId, principalId, roomId);
      if (profile === undefined) return;
      await profiles.markTold(tenantId, principalId, roomId, profile.version);
      const { role, member_count: memberCount } = profile;
      const data = { roomId, principalId, role, memberCount, ...looksOf(profile) };
      await tx.emit({ tenantId, stream: roomStream(roomId), type: "member.updated", data });
    });
  }
}
