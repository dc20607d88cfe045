// Whose eyes a search looks through. There is no search without one, and none that means "everything".
import type { Actor } from "@/core/actor.ts";
import { looksIntoPublic } from "@/modules/room/mod.ts";

export class SearchScope {
  readonly tenantId: string;
  readonly principalId: string;
  /** The owner whose rights bound an agent's; empty for everybody else. */
  readonly ownerId: string;
  /** Whether public rooms are seen without being a member. */
  readonly seesPublic: boolean;

  private constructor(actor: Pick<Actor, "tenantId" | "principalId" | "ownerId" | "role" | "kind">) {
    this.tenantId = actor.tenantId;
    this.principalId = actor.principalId;
    this.ownerId = actor.ownerId ?? "";
    this.seesPublic = looksIntoPublic(actor);
  }

  /** The scope of a caller. */
  static of(actor: Pick<Actor, "tenantId" | "principalId" | "ownerId" | "role" | "kind">): SearchScope {
    if (actor.tenantId === "" || actor.principalId === "") {
      throw new TypeError("Expected a tenant and a principal to search as, received none");
    }
    return new SearchScope(actor);
  }
}
