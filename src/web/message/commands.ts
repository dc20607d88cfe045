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

const commandsOf = new Map<string, Promise<readonly Command[]>>();

export function readCommands(roomId: string): Promise<readonly Command[]> {
  const known = commandsOf.get(roomId);
  if (known !== undefined) return known;
  // Without them a slash is text like any other.
  const read = get<{ items: Command[] }>("v1/collaboration/commands", { roomId }).then(({ items }) => items, () => []);
  commandsOf.set(roomId, read);
  setTimeout(() => commandsOf.delete(roomId), CACHED_MS);
  return read;
}

/** Runs a text as a command; returns whether the room has such a command. */
export async function runCommand(roomId: string, text: string, threadId: string | undefined): Promise<boolean> {
  const name = /^\/([a-z0-9_-]+)/.exec(text)?.[1];
  if (name === undefined || !(await readCommands(roomId)).some((one) => one.name === name)) return false;
  showResponse(
    await post<Result>("v1/collaboration/commands/run", {
      roomId,
      text,
      clientMessageId: createId(),
      ...threadId === undefined ? {} : { threadRootId: threadId },
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
