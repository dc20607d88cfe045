// Incoming hooks of rooms: addresses to which other programs post, each with a principal of its own.
import { chargedId, textOfScopes } from "@/core/actor.ts";
import { type Clock, iso } from "@/core/time/clock.ts";
import { type Encryptor, hashText } from "@/core/crypto.ts";
import { roomEvent } from "@/core/event/event.ts";
import { notFound } from "@/core/fault.ts";
import { newId, newSecret } from "@/core/id.ts";
import type { Context } from "@/core/operation.ts";
import type { Cursors, Page } from "@/core/page.ts";
import { assertVersion, flagOf, patchedOr } from "@/core/patch.ts";
import { type FileAttachments, sweepJob } from "@/modules/file/mod.ts";
import { addHookPrincipal, changeProfile, HOOK_PREFIX } from "@/modules/identity/mod.ts";
import { profileJob, type RoomAccess, type RoomMembers } from "@/modules/room/mod.ts";
import type { AnyTransaction, Store } from "@/ports/store.ts";
import { RoomHooks } from "../room_hooks.ts";
import { secretContext } from "../secrets.ts";
import {
  type Hook,
  HOOK_PATH,
  type HookCreate,
  type HookList,
  HOOKS_PER_ROOM,
  type HookUpdate,
  type NewHook,
} from "./schema.ts";
import { type HookRow, HookStore, type HookTables } from "./store.ts";

const SIGNING_SECRET_BYTES = 24;

type Deps = {
  store: Store<HookTables>;
  clock: Clock;
  cursors: Cursors;
  encryptor: Encryptor;
  roomAccess: RoomAccess;
  members: Pick<RoomMembers, "addCreated" | "remove">;
  pictures: Pick<FileAttachments, "lockPicture">;
};

export class HookService {
  readonly #deps: Deps;
  readonly #hooks: RoomHooks<HookRow>;

  constructor(deps: Deps) {
    this.#deps = deps;
    this.#hooks = new RoomHooks(deps, {
      one: "hook",
      many: "hooks",
      listOperation: "hook.list",
      max: HOOKS_PER_ROOM,
      rowsIn: (db) => new HookStore(db),
    });
  }

  /** Creates a hook, whose principal becomes a member of the room. Its address and secret are returned only here. */
  async create(context: Context, input: HookCreate): Promise<NewHook> {
    const { store, clock, members, pictures } = this.#deps;
    const { actor } = context;
    const { tenantId } = actor;
    return await store.write(async (tx) => {
      if (input.avatarFileId !== null) await pictures.lockPicture(tx, actor, input.avatarFileId);
      const room = await this.#hooks.requireRoom(tx, context, input.roomId);
      const now = iso(clock.now());
      const id = newId("hook");
      const token = newSecret();
      const isSigned = input.signed || input.signingSecret !== undefined;
      const signingSecret = isSigned ? input.signingSecret ?? newSecret(SIGNING_SECRET_BYTES) : null;
      const row: HookRow = {
        tenant_id: tenantId,
        id,
        room_id: room.id,
        principal_id: `${HOOK_PREFIX}${id}`,
        responsible_id: chargedId(actor),
        scopes: textOfScopes(actor.scopes),
        display_name: input.displayName,
        avatar_file_id: input.avatarFileId,
        description: input.description,
        hash: hashOf(token),
        signing_secret_encrypted: this.#encrypt({ tenant_id: tenantId, id }, signingSecret),
        may_mention_all: input.mayMentionAll ? 1 : 0,
        is_enabled: input.enabled ? 1 : 0,
        version: 1,
        created_at: now,
        updated_at: now,
      };
      const principal = await addHookPrincipal(tx, clock, { tenantId, id: row.principal_id, ...input });
      await members.addCreated(tx, context, room.id, principal);
      await new HookStore(tx.db).add(row);
      await this.#publish(tx, context, row, "hook.created");
      return { ...present(row), path: pathOf(token), signingSecret };
    });
  }

  list(context: Context, input: HookList): Promise<Page<Hook>> {
    return this.#hooks.list(context, input, present);
  }

  async read(context: Context, id: string): Promise<Hook> {
    const { store, roomAccess } = this.#deps;
    const row = await new HookStore(store.db).find(context.actor.tenantId, id);
    if (row === undefined || await roomAccess.find(context.actor, row.room_id) === undefined) throw notFound("hook");
    await roomAccess.require(context, row.room_id);
    return present(row);
  }

  async update(context: Context, { id, version, signingSecret, ...input }: HookUpdate): Promise<Hook> {
    const { clock } = this.#deps;
    return await this.#change(context, id, async (tx, row) => {
      assertVersion("hook", row.version, version);
      const after: HookRow = {
        ...row,
        display_name: input.displayName ?? row.display_name,
        avatar_file_id: patchedOr(input.avatarFileId, row.avatar_file_id),
        description: patchedOr(input.description, row.description),
        may_mention_all: flagOf(input.mayMentionAll) ?? row.may_mention_all,
        is_enabled: flagOf(input.enabled) ?? row.is_enabled,
        signing_secret_encrypted: signingSecret === undefined
          ? row.signing_secret_encrypted
          : this.#encrypt(row, signingSecret),
      };
      if (input.displayName !== undefined || input.avatarFileId !== undefined) {
        const profile = { displayName: after.display_name, avatarFileId: after.avatar_file_id };
        await changeProfile(tx, clock, { tenantId: row.tenant_id, id: row.principal_id }, profile);
        await tx.enqueue(profileJob(row.tenant_id, row.principal_id));
        if (row.avatar_file_id !== after.avatar_file_id) await tx.enqueue(sweepJob(row.tenant_id, clock.now()));
      }
      return present(await this.#store(tx, context, after));
    }, input.avatarFileId ?? null);
  }

  /** Gives it another address. The caller becomes responsible for it. */
  async rotate(context: Context, id: string): Promise<NewHook> {
    return await this.#change(context, id, async (tx, row) => {
      const token = newSecret();
      const signingSecret = row.signing_secret_encrypted === null ? null : newSecret(SIGNING_SECRET_BYTES);
      const after = await this.#store(tx, context, {
        ...row,
        hash: hashOf(token),
        responsible_id: chargedId(context.actor),
        scopes: textOfScopes(context.actor.scopes),
        signing_secret_encrypted: this.#encrypt(row, signingSecret),
      });
      return { ...present(after), path: pathOf(token), signingSecret };
    });
  }

  /** Deletes a hook. Its messages remain; its principal is disabled and leaves the room. */
  async delete(context: Context, id: string): Promise<void> {
    await this.#change(context, id, async (tx, row) => {
      await this.#hooks.remove(tx, context, row);
      const roomId = row.room_id;
      await tx.emit(roomEvent(context.actor, roomId, "hook.deleted", { hookId: id, roomId }));
    });
  }

  purgeRoom(tenantId: string, roomId: string): Promise<void> {
    return this.#hooks.purgeRoom(tenantId, roomId);
  }

  /** Loads a hook and locks its room, for a moderator; before that its new picture. */
  async #change<Result>(
    context: Context,
    id: string,
    work: (tx: AnyTransaction, row: HookRow) => Promise<Result>,
    avatarFileId: string | null = null,
  ): Promise<Result> {
    const { store, pictures } = this.#deps;
    return await store.write(async (tx) => {
      if (avatarFileId !== null) await pictures.lockPicture(tx, context.actor, avatarFileId);
      return await work(tx, await this.#hooks.requireForUpdate(tx, context, id));
    });
  }

  async #store(tx: AnyTransaction, context: Context, row: HookRow): Promise<HookRow> {
    const after = { ...row, version: row.version + 1, updated_at: iso(this.#deps.clock.now()) };
    await new HookStore(tx.db).update(after);
    await this.#publish(tx, context, after, "hook.updated");
    return after;
  }

  async #publish(tx: AnyTransaction, { actor }: Context, row: HookRow, type: string): Promise<void> {
    await tx.emit(roomEvent(actor, row.room_id, type, { hook: present(row) }));
  }

  #encrypt(hook: Pick<HookRow, "tenant_id" | "id">, secret: string | null): string | null {
    return secret === null ? null : this.#deps.encryptor.encrypt(secret, secretContext(hook));
  }
}

export function hashOf(token: string): string {
  return hashText(token, "base64url");
}

function pathOf(token: string): string {
  return `${HOOK_PATH}/${token}`;
}

function present(row: HookRow): Hook {
  return {
    id: row.id,
    roomId: row.room_id,
    principalId: row.principal_id,
    displayName: row.display_name,
    avatarFileId: row.avatar_file_id,
    description: row.description,
    mayMentionAll: row.may_mention_all === 1,
    signed: row.signing_secret_encrypted !== null,
    enabled: row.is_enabled === 1,
    responsibleId: row.responsible_id,
    version: row.version,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  };
}
