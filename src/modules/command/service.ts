// Runs commands: finds the one that is meant, checks what it is given, and calls its source.
import { Fault } from "@/core/fault.ts";
import { checkValues } from "@/core/interaction/form.ts";
import { asReadOnly, type Context } from "@/core/operation.ts";
import type { Message } from "@/modules/message/mod.ts";
import type { RoomAccess } from "@/modules/room/mod.ts";
import { type CommandCatalog, sourceOf } from "./catalog.ts";
import type { Interactions } from "./interactions.ts";
import { type Command, CommandName, type CommandRun, type InteractionResult } from "./schema.ts";

type Deps = {
  catalog: CommandCatalog;
  interactions: Interactions;
  roomAccess: RoomAccess;
  readMessage: (context: Context, id: string) => Promise<Pick<Message, "roomId" | "threadId">>;
};

export class CommandService {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  async list(context: Context, roomId: string): Promise<Command[]> {
    const { role } = await this.#deps.roomAccess.require(context, roomId);
    return await this.#deps.catalog.list(context.actor.tenantId, roomId, role);
  }

  async run(context: Context, input: CommandRun): Promise<InteractionResult> {
    const { catalog, interactions, roomAccess } = this.#deps;
    const { tenantId } = context.actor;
    const { role } = await roomAccess.require(context, input.roomId);
    const { name, text } = input.text === undefined ? { name: input.name ?? "", text: "" } : parseText(input.text);
    const found = await catalog.find(tenantId, input.roomId, role, { name, source: input.source });
    const { source, command } = found;
    // Typed commands have one text; their source reads it as it likes.
    const args = input.name === undefined ? {} : checkValues(command.fields, input.args ?? {}, "/args");
    if (input.threadId !== undefined) await this.#assertThread(context, input.roomId, input.threadId);
    const draft = {
      roomId: input.roomId,
      kind: "command" as const,
      source: source.kind,
      name,
      responder: command.responder,
      threadId: input.threadId,
      clientMessageId: input.clientMessageId,
      content: { source: sourceOf(found), name, text, args, threadId: input.threadId },
    };
    return await interactions.run(context, draft, (interaction) => source.run({ ...interaction, command, text, args }));
  }

  /** A response in a thread needs its root message, visible to the caller. */
  async #assertThread(context: Context, roomId: string, threadId: string): Promise<void> {
    const root = await this.#deps.readMessage(
      { ...asReadOnly(context), access: { scope: null, room: "observer" } },
      threadId,
    );
    if (root.roomId !== roomId || root.threadId !== null) {
      throw Fault.forField("/threadId", "not_root", "expected the root message of a thread in the room");
    }
  }
}

/** `/name`, then a text. */
function parseText(typed: string): { name: string; text: string } {
  const trimmed = typed.trim();
  const end = trimmed.search(/\s/);
  const word = end < 0 ? trimmed : trimmed.slice(0, end);
  const name = word.slice(1).toLowerCase();
  if (!word.startsWith("/") || !CommandName.safeParse(name).success) {
    throw Fault.forField("/text", "not_a_command", "expected /name, then a text");
  }
  return { name, text: end < 0 ? "" : trimmed.slice(end).trim() };
}
