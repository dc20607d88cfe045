// Commands: texts that begin with a slash, and what they respond.
import { createId, get, post } from "../core/api.ts";
import { notifyUntilDismissed } from "../core/notice.ts";
import { onEvent } from "../core/live.ts";

type Command = { name: string; description: string; sourceName: string };
type Result = {
  id: string;
  response: { kind: "ephemeral"; text: string } | { kind: "message" } | { kind: "accepted" };
};

const CACHED_MS = 60_000;
const COMMAND = /^\/([\w-]+)(?:\s|$)/;

const commandsOf = new Map<string, Promise<readonly Command[] | undefined>>();

/** `undefined` if the caller may not run commands. */
export function readCommands(roomId: string): Promise<readonly Command[] | undefined> {
  const known = commandsOf.get(roomId);
  if (known !== undefined) return known;
  const read = get<{ items: Command[] }>("v1/collaboration/commands", { roomId })
    .then(({ items }) => items, (error) => {
      if (error.status === 403) return undefined;
      commandsOf.delete(roomId);
      throw error;
    });
  commandsOf.set(roomId, read);
  setTimeout(() => commandsOf.delete(roomId), CACHED_MS);
  return read;
}

/** Runs a text as a command; returns whether it is one. Throws if the room has no such command. */
export async function runCommand(roomId: string, text: string, threadId: string | undefined): Promise<boolean> {
  const name = COMMAND.exec(text)?.[1]?.toLowerCase();
  if (name === undefined) return false;
  const isOfRoom = async () => (await readCommands(roomId))?.some((one) => one.name === name);
  // What was read before may lack a new one.
  if (commandsOf.has(roomId) && await isOfRoom() !== true) commandsOf.delete(roomId);
  const isCommand = await isOfRoom();
  // Who may run none writes a slash as text.
  if (isCommand === undefined) return false;
  // A command that is misspelled may contain what is not for everybody.
  if (!isCommand) throw new Error(`This room has no command /${name}. A space before it sends it as a message.`);
  showResponse(
    await post<Result>("v1/collaboration/commands/run", {
      roomId,
      text,
      clientMessageId: createId(),
      threadId,
    }),
  );
  return true;
}

/** What only the caller sees is a notice; messages arrive by themselves. */
export function showResponse({ response }: Result): void {
  if (response.kind === "ephemeral") notifyUntilDismissed(response.text);
}

onEvent(({ type, data }) => {
  if (type === "interaction.responded") showResponse(data);
});
