// Commands of rooms that an endpoint handles: created, changed and deleted by moderators.
import { type Actor, chargedId, intersectScopes, scopesOf, textOfScopes } from "@/core/actor.ts";
import { type Clock, iso } from "@/core/time/clock.ts";
import { roomEvent } from "@/core/event/event.ts";
import { Fault } from "@/core/fault.ts";
import { newId } from "@/core/id.ts";
import type { Context } from "@/core/operation.ts";
import type { Cursors, Page } from "@/core/page.ts";
import { assertVersion } from "@/core/patch.ts";
import { addHookPrincipal, changeProfile, HOOK_PREFIX } from "@/modules/identity/mod.ts";
import { profileJob, type RoomAccess, type RoomMembers } from "@/modules/room/mod.ts";
import { assertAddressAllowed, type Outbound } from "@/ports/outbound.ts";
import type { AnyTransaction, Store } from "@/ports/store.ts";
import { RoomHooks } from "../room_hooks.ts";
import type { Secrets } from "../secrets.ts";
import {
  type NewSlashCommand,
  SLASH_COMMANDS_PER_ROOM,
  type SlashCommand,
  type SlashCommandCreate,
  type SlashCommandList,
  type SlashCommandUpdate,
} from "./schema.ts";
import { type SlashCommandRow, SlashCommandStore, type SlashCommandTables } from "./store.ts";

type Deps = {
  store: Store<SlashCommandTables>;
  clock: Clock;
  cursors: Cursors;
  outbound: Pick<Outbound, "assertAllowed">;
  secrets: Secrets;
  roomAccess: RoomAccess;
  members: Pick<RoomMembers, "addCreated" | "remove">;
};

export class SlashCommandService {
  readonly #deps: Deps;
  readonly #hooks: RoomHooks<SlashCommandRow>;

  constructor(deps: Deps) {
    this.#deps = deps;
    this.#hooks = new RoomHooks(deps, {
      one: "command",
      many: "commands of its own",
      listOperation: "slash_command.list",
      max: SLASH_COMMANDS_PER_ROOM,
      rowsIn: (db) => new SlashCommandStore(db),
    });
  }

  /** Creates a command with a principal that posts its responses. Its secret is returned only here. */
  async create(context: Context, input: SlashCommandCreate): Promise<NewSlashCommand> {
    const { store, clock, outbound, secrets, members } = this.#deps;
    const { actor } = context;
    const { tenantId } = actor;
    assertAddressAllowed(outbound, input.url, "/url");
    return await store.write(async (tx) => {
      const room = await this.#hooks.requireRoom(tx, context, input.roomId);
      const id = newId("slash");
      const { secret, encrypted } = secrets.create({ tenant_id: tenantId, id });
      const now = iso(clock.now());
      const row: SlashCommandRow = {
        tenant_id: tenantId,
        id,
        room_id: room.id,
        name: input.name,
        description: input.description,
        url: input.url,
        display_name: input.displayName,
        principal_id: `${HOOK_PREFIX}${id}`,
        ...responsible(actor),
        secret_encrypted: encrypted,
        previous_secret_encrypted: null,
        previous_until: null,
        version: 1,
        created_at: now,
        updated_at: now,
      };
      if (!await new SlashCommandStore(tx.db).add(row)) throw nameTaken(input.name);
      const profile = { displayName: input.displayName, avatarFileId: null };
      const principal = await addHookPrincipal(tx, clock, { tenantId, id: row.principal_id, ...profile });
      await members.addCreated(tx, context, room.id, principal);
      await publish(tx, context, row, "slash_command.created");
      return { ...present(row), secret };
    });
  }

  list(context: Context, input: SlashCommandList): Promise<Page<SlashCommand>> {
    return this.#hooks.list(context, input, present);
  }

  async update(context: Context, { id, version, ...input }: SlashCommandUpdate): Promise<SlashCommand> {
    const { clock, outbound } = this.#deps;
    if (input.url !== undefined) assertAddressAllowed(outbound, input.url, "/url");
    return await this.#change(context, id, async (tx, row) => {
      assertVersion("command", row.version, version);
      const after = await this.#store(tx, context, {
        ...row,
        name: input.name ?? row.name,
        description: input.description ?? row.description,
        ...input.url === undefined || input.url === row.url ? {} : responsible(context.actor),
        url: input.url ?? row.url,
        display_name: input.displayName ?? row.display_name,
      });
      if (after.display_name !== row.display_name) {
        const { tenant_id: tenantId, principal_id: principalId } = row;
        await changeProfile(tx, clock, { tenantId, id: principalId }, { displayName: after.display_name });
        await tx.enqueue(profileJob(tenantId, principalId));
      }
      return present(after);
    });
  }

  /**
   * Replaces the secret; the one before signs as well for 24 hours. The caller becomes responsible for the command, which has no more
   * scopes for that: another token gave it its address.
   */
  async rotate(context: Context, id: string): Promise<NewSlashCommand> {
    const { clock, secrets } = this.#deps;
    return await this.#change(context, id, async (tx, row) => {
      const { secret, columns } = secrets.rotate(row, clock.now());
      const { actor } = context;
      const scopes = textOfScopes(intersectScopes(scopesOf(row.scopes), actor.scopes));
      const after = { ...row, ...columns, responsible_id: chargedId(actor), scopes };
      return { ...present(await this.#store(tx, context, after)), secret };
    });
  }

  /** Deletes a command; its principal leaves the room. */
  async delete(context: Context, id: string): Promise<void> {
    await this.#change(context, id, async (tx, row) => {
      await this.#hooks.remove(tx, context, row);
      await publish(tx, context, row, "slash_command.deleted");
    });
  }

  purgeRoom(tenantId: string, roomId: string): Promise<void> {
    return this.#hooks.purgeRoom(tenantId, roomId);
  }

  async #change<Result>(
    context: Context,
    id: string,
    work: (tx: AnyTransaction, row: SlashCommandRow) => Promise<Result>,
  ): Promise<Result> {
    return await this.#deps.store.write(async (tx) =>
      await work(tx, await this.#hooks.requireForUpdate(tx, context, id))
    );
  }

  async #store(tx: AnyTransaction, context: Context, row: SlashCommandRow): Promise<SlashCommandRow> {
    const after = { ...row, version: row.version + 1, updated_at: iso(this.#deps.clock.now()) };
    if (!await new SlashCommandStore(tx.db).update(after)) throw nameTaken(row.name);
    await publish(tx, context, after, "slash_command.updated");
    return after;
  }
}

/** A caller that sets the address is responsible for what comes from there. */
function responsible(actor: Actor): Pick<SlashCommandRow, "responsible_id" | "scopes"> {
  return { responsible_id: chargedId(actor), scopes: textOfScopes(actor.scopes) };
}

function nameTaken(name: string): Fault {
  return new Fault("conflict", `The room has a command /${name}`);
}

async function publish(tx: AnyTransaction, { actor }: Context, row: SlashCommandRow, type: string): Promise<void> {
  const data = { roomId: row.room_id, slashCommandId: row.id, name: row.name };
  await tx.emit(roomEvent(actor, row.room_id, type, data));
}

function present(row: SlashCommandRow): SlashCommand {
  return {
    id: row.id,
    roomId: row.room_id,
    name: row.name,
    description: row.description,
    url: row.url,
    displayName: row.display_name,
    principalId: row.principal_id,
    responsibleId: row.responsible_id,
    version: row.version,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  };
}
