// The commands of a room, from all modules that offer some.
import { isAtLeast, ROOM_ROLES, type RoomRole } from "@/core/actor.ts";
import { Fault, notFound } from "@/core/fault.ts";
import type { CommandSource, OfferedCommand } from "@/core/interaction/interaction.ts";
import type { Module } from "@/core/module.ts";
import type { Command } from "./schema.ts";
import { compareText } from "@/core/text/text.ts";

/** A command with what runs it. */
type FoundCommand = { source: CommandSource; command: OfferedCommand };

export class CommandCatalog {
  readonly #modules: readonly Module[];

  /** `modules` is complete once everything is built. */
  constructor(modules: readonly Module[]) {
    this.#modules = modules;
  }

  /** The commands that a member of this role can run, by name. */
  async list(tenantId: string, roomId: string, role: RoomRole | null): Promise<Command[]> {
    const all = await this.#offered(tenantId, roomId);
    const counts = new Map<string, number>();
    for (const { command: { name } } of all) counts.set(name, (counts.get(name) ?? 0) + 1);
    return all.filter(({ command }) => mayRun(role, command)).map((found) => ({
      name: found.command.name,
      description: found.command.description,
      source: sourceOf(found),
      sourceName: found.command.sourceName,
      ambiguous: (counts.get(found.command.name) ?? 0) > 1,
      fields: [...found.command.fields],
      role: leastOf(found.command),
    }));
  }

  /** The one command of a name, and of a source where it is given. */
  async find(
    tenantId: string,
    roomId: string,
    role: RoomRole | null,
    { name, source }: { name: string; source: string | undefined },
  ): Promise<FoundCommand> {
    const named = (await this.#offered(tenantId, roomId)).filter((found) =>
      found.command.name === name && (source === undefined || source === sourceOf(found))
    );
    const [found, second] = named;
    if (found === undefined) throw notFound("command in the room");
    if (second !== undefined) {
      const sources = named.map((one) => sourceOf(one)).join(", ");
      throw new Fault("command_ambiguous", `Several sources offer /${name}; name one of them as source: ${sources}`);
    }
    if (!mayRun(role, found.command)) {
      throw new Fault("forbidden", `/${name} requires the room role ${leastOf(found.command)}, the caller has ${role}`);
    }
    return found;
  }

  async #offered(tenantId: string, roomId: string): Promise<FoundCommand[]> {
    const sources = this.#modules.flatMap((module) => module.commands ?? []);
    const lists = await Promise.all(
      sources.map(async (source) => (await source.list(tenantId, roomId)).map((command) => ({ source, command }))),
    );
    return lists.flat().sort((a, b) => compareText(orderOf(a), orderOf(b)));
  }
}

export function sourceOf({ source, command }: FoundCommand): string {
  return `${source.kind}:${command.sourceId}`;
}

function orderOf(found: FoundCommand): string {
  return `${found.command.name} ${sourceOf(found)}`;
}

function leastOf({ least = "member" }: OfferedCommand): RoomRole {
  return least;
}

function mayRun(role: RoomRole | null, command: OfferedCommand): boolean {
  return role !== null && isAtLeast(ROOM_ROLES, role, leastOf(command));
}
