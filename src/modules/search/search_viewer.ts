// The viewer of a search. Every search has one; there is no unrestricted search.
import { type Actor, isGuest } from "@/core/actor.ts";
import { canBrowsePublic } from "@/modules/room/mod.ts";

export class SearchViewer {
  readonly tenantId: string;
  readonly principalId: string;
  /** The owner whose permissions limit an agent's; empty for other principals. */
  readonly ownerId: string;
  /** Whether public rooms are visible without membership. */
  readonly canBrowsePublic: boolean;
  readonly isGuest: boolean;
  /** All rooms that an agent on behalf of others may read, with their history starts; `undefined` for other viewers. */
  readonly rooms: ReadonlyMap<string, number> | undefined;

  private constructor(actor: Pick<Actor, "tenantId" | "principalId" | "ownerId" | "role" | "kind" | "bounds">) {
    this.tenantId = actor.tenantId;
    this.principalId = actor.principalId;
    this.ownerId = actor.ownerId ?? "";
    this.canBrowsePublic = canBrowsePublic(actor);
    this.isGuest = isGuest(actor);
    this.rooms = actor.bounds?.rooms();
  }

  static of(actor: Pick<Actor, "tenantId" | "principalId" | "ownerId" | "role" | "kind" | "bounds">): SearchViewer {
    if (actor.tenantId === "" || actor.principalId === "") {
      throw new TypeError("Expected a tenant and a principal to search as, received none");
    }
    return new SearchViewer(actor);
  }
}
