// Commands of rooms that an endpoint handles: created and deleted by moderators.
import { chargedId } from "@/core/actor.ts";
import { type Clock, iso } from "@/core/clock.ts";
import { roomStream } from "@/core/event.ts";
import type { Encryptor } from "@/core/crypto.ts";
import { Fault, notFound } from "@/core/fault.ts";
import { newId } from "@/core/id.ts";
import type { Context } from "@/core/operation.ts";
import type { Cursors, Page } from "@/core/page.ts";
import { addHookPrincipal, changeHookPrincipal, HOOK_PREFIX } from "@/modules/identity/mod.ts";
import type { RoomAccess, RoomMembers } from "@/modules/room/mod.ts";
import { type Outbound, OutboundError } from "@/ports/outbound.ts";
import type { AnyTransaction, Store } from "@/ports/store.ts";
import { newSigningSecret } from "../signature.ts";
import {
  type NewSlashCommand,
  SLASH_COMMANDS_PER_ROOM,
  type SlashCommand,
  type SlashCommandCreate,
  type SlashCommandList,
} from "./schema.ts";
import { type SlashCommandRow, SlashCommandStore, type SlashCommandTables } from "./store.ts";

type Deps = {
  store: Store<SlashCommandTables>;
  clock: Clock;
  cursors: Cursors;
  outbound: Pick<Outbound, "assertAllowed">;
  encryptor: Encryptor;
  roomAccess: RoomAccess;
  members: Pick<RoomMembers, "addCreated" | "remove">;
};

export class SlashCommandService {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Creates a command with a principal that posts its responses. Its secret is returned only here. */
  async create(context: Context, input: SlashCommandCreate): Promise<NewSlashCommand> {
    const { store, clock, encryptor, roomAccess, members } = this.#deps;
    const { actor } = context;
    const { tenantId } = actor;
    this.#assertAddress(input.url);
    return await store.write(async (tx) => {
      const { room } = await roomAccess.requireForUpdate(tx, context, input.roomId, "moderator");
      if (room.kind === "direct") throw new Fault("conflict", "A direct room has no commands of its own");
      const commands = new SlashCommandStore(tx.db);
      if (
        (await commands.list(tenantId, room.id, undefined, SLASH_COMMANDS_PER_ROOM)).length >= SLASH_COMMANDS_PER_ROOM
      ) {
        throw new Fault("limit_reached", `A room has at most ${SLASH_COMMANDS_PER_ROOM} commands of its own`);
      }
      const id = newId("slash");
      const secret = newSigningSecret();
      const row: SlashCommandRow = {
        tenant_id: tenantId,
        id,
        room_id: room.id,
        name: input.name,
        description: input.description,
        url: input.url,
        display_name: input.displayName,
        principal_id: `${HOOK_PREFIX}${id}`,
        responsible_id: chargedId(actor),
        secret_encrypted: encryptor.encrypt(secret, contextOf(tenantId, id)),
        created_at: iso(clock.now()),
      };
      if (!await commands.add(row)) throw new Fault("conflict", `The room has a command /${input.name}`);
      const profile = { displayName: input.displayName, avatarFileId: null };
      const principal = await addHookPrincipal(tx as AnyTransaction, clock, {
        tenantId,
        id: row.principal_id,
        ...profile,
      });
      await members.addCreated(tx as AnyTransaction, context, room.id, principal);
      await publish(tx, context, row, "slash_command.created");
      return { ...present(row), secret };
    });
  }

  async list(context: Context, { roomId, limit, cursor }: SlashCommandList): Promise<Page<SlashCommand>> {
    const { store, cursors, roomAccess } = this.#deps;
    const { tenantId, principalId } = context.actor;
    await roomAccess.require(context, roomId);
    const bind = ["slash_command.list", tenantId, principalId, roomId];
    const after = cursors.decode(cursor, bind)?.[0]?.toString();
    const rows = await new SlashCommandStore(store.db).list(tenantId, roomId, after, limit + 1);
    return cursors.page(rows, limit, bind, (row) => [row.id], present);
  }

  /** Deletes a command; its principal leaves the room. */
  async delete(context: Context, id: string): Promise<void> {
    const { store, clock, roomAccess, members } = this.#deps;
    const { tenantId } = context.actor;
    await store.write(async (tx) => {
      const commands = new SlashCommandStore(tx.db);
      const found = await commands.find(tenantId, id);
      if (found === undefined || await roomAccess.find(context.actor, found.room_id, tx.db) === undefined) {
        throw notFound("command");
      }
      await roomAccess.requireForUpdate(tx, context, found.room_id, "moderator");
      if (await commands.find(tenantId, id) === undefined) throw notFound("command");
      await commands.remove(tenantId, id);
      const principalId = found.principal_id;
      await changeHookPrincipal(tx as AnyTransaction, clock, { tenantId, id: principalId }, { isDisabled: true });
      await members.remove(context, { id: found.room_id, principalId, ban: false }).catch((thrown) => {
        // Somebody removed it from the room before.
        if (!(thrown instanceof Fault) || thrown.code !== "not_found") throw thrown;
      });
      await publish(tx, context, found, "slash_command.deleted");
    });
  }

  async purgeRoom(tenantId: string, roomId: string): Promise<void> {
    await this.#deps.store.write((tx) => new SlashCommandStore(tx.db).removeOfRoom(tenantId, roomId));
  }

  #assertAddress(url: string): void {
    try {
      this.#deps.outbound.assertAllowed(url);
    } catch (error) {
      if (!(error instanceof OutboundError)) throw error;
      throw Fault.forField("/url", error.code, error.message, "address_not_allowed");
    }
  }
}

/** What an encrypted secret belongs to. */
export function contextOf(tenantId: string, id: string): string {
  return `${tenantId}/${id}`;
}

async function publish(tx: AnyTransaction, { actor }: Context, row: SlashCommandRow, type: string): Promise<void> {
  const data = { roomId: row.room_id, slashCommandId: row.id, name: row.name };
  await tx.emit({ tenantId: row.tenant_id, stream: roomStream(row.room_id), type, actor, data });
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
    createdAt: row.created_at,
  };
}
