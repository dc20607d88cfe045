// What a webhook may deliver: what its creator may read at this moment, within the token that created it.
import { type Actor, missingEventScope, scopesOf } from "@/core/actor.ts";
import type { EventFilterOf, EventView } from "@/core/event/event_view.ts";
import type { CredentialSnapshot } from "@/modules/identity/mod.ts";
import { hiddenUpTo, type RoomAccess } from "@/modules/room/mod.ts";
import type { WebhookRow } from "../tables.ts";

type Deps = {
  roomAccess: Pick<RoomAccess, "find">;
  /** The actor of a credential with its current rights; `undefined` if it is no longer valid. */
  revalidate: (credential: CredentialSnapshot) => Promise<Actor | undefined>;
  eventFilterOf: EventFilterOf;
};

export class WebhookReader {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** What may be delivered of a room now; `undefined` if nothing may. */
  async viewOf(row: WebhookRow, roomId: string): Promise<EventView | undefined> {
    const creator = await this.#deps.revalidate({
      tenantId: row.tenant_id,
      principalId: row.creator_id,
      role: row.creator_role,
      scopes: scopesOf(row.scopes),
      // A webhook outlives the token that created it; it ends with the rights of its creator.
      tokenId: undefined,
      expiresAt: undefined,
    });
    if (creator === undefined || missingEventScope(creator) !== undefined) return undefined;
    const grant = await this.#deps.roomAccess.find(creator, roomId);
    if (grant === undefined) return undefined;
    return { hiddenUpTo: hiddenUpTo(grant), filter: this.#deps.eventFilterOf(creator) };
  }
}
