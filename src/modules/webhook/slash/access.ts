// Whether a command may be run: the principal responsible for it may still post in the room.
import { isAtLeast, ROOM_ROLES } from "@/core/actor.ts";
import type { IdentityService } from "@/modules/identity/mod.ts";
import type { RoomAccess } from "@/modules/room/mod.ts";
import type { Store } from "@/ports/store.ts";
import { type SlashCommandRow, SlashCommandStore, type SlashCommandTables } from "./store.ts";

type Deps = {
  store: Store<SlashCommandTables>;
  identity: Pick<IdentityService, "findEnabled" | "subject">;
  roomAccess: Pick<RoomAccess, "find">;
};

export class SlashCommandAccess {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** The command; `undefined` if it was deleted, or the principal responsible for it may not post in the room. */
  async findAllowed(tenantId: string, id: string): Promise<SlashCommandRow | undefined> {
    const { store, identity, roomAccess } = this.#deps;
    const row = await new SlashCommandStore(store.db).find(tenantId, id);
    if (row === undefined) return undefined;
    const ids = [row.responsible_id, row.principal_id];
    const enabled = await identity.findEnabled(tenantId, ids);
    if (ids.some((one) => !enabled.has(one))) return undefined;
    const grant = await roomAccess.find(await identity.subject(tenantId, row.responsible_id), row.room_id);
    const mayPost = grant !== undefined && isAtLeast(ROOM_ROLES, grant.role ?? "observer", "member");
    return mayPost ? row : undefined;
  }
}
