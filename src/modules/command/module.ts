// The command module: commands in rooms, and the buttons and forms of messages.
import { FIELDS_MAX } from "@/core/interaction/form.ts";
import type { Module } from "@/core/module.ts";
import type { Context } from "@/core/operation.ts";
import type { IdentityService } from "@/modules/identity/mod.ts";
import type { MessageFilter, MessageSender, MessageService } from "@/modules/message/mod.ts";
import type { RoomAccess } from "@/modules/room/mod.ts";
import type { Platform } from "@/ports/platform.ts";
import { ActionService } from "./actions.ts";
import { commandApi } from "./api.ts";
import { CommandCatalog } from "./catalog.ts";
import { ResponseDelivery } from "./delivery.ts";
import { Interactions } from "./interactions.ts";
import { migrations } from "./migrations.ts";
import { erases } from "./principal_erasure.ts";
import { COMMAND_TEXT_MAX, RESPONSE_MINUTES } from "./schema.ts";
import { CommandService } from "./service.ts";

type Deps = {
  roomAccess: RoomAccess;
  identity: IdentityService;
  sender: MessageSender;
  messages: Pick<MessageService, "read" | "update">;
  filter: MessageFilter;
};

type CommandModule = Module & { interactions: Interactions };

export function commandModule(
  { store, clock, metrics, modules, timeoutFactor }: Platform,
  { roomAccess, identity, sender, messages, filter }: Deps,
): CommandModule {
  const interactions = new Interactions({
    store,
    clock,
    timeoutFactor,
    roomAccess,
    delivery: new ResponseDelivery({ identity, roomAccess, sender, messages, filter }),
    metrics,
  });
  const readMessage = (context: Context, id: string) => messages.read(context, id);
  const commands = new CommandService({ catalog: new CommandCatalog(modules), interactions, roomAccess, readMessage });
  const actions = new ActionService({ modules, interactions, identity, readMessage });
  return {
    name: "command",
    migrations,
    erases,
    ...commandApi({ commands, actions, interactions }),
    purgeRoom: (tenantId, roomId) => interactions.purgeRoom(tenantId, roomId),
    maintenance: { interactions: () => interactions.purgeExpired() },
    capability: () => ({ textCharacters: COMMAND_TEXT_MAX, fields: FIELDS_MAX, responseMinutes: RESPONSE_MINUTES }),
    interactions,
  };
}
