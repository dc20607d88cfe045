// Interactions: a person runs a command or presses a button, and a plugin, a webhook or an agent responds. Modules register what
// responds; the module `command` finds it, calls it and delivers the response.
import type { RoomRole } from "./actor.ts";
import type { FormField, FormValues } from "./form.ts";

/** The principal that responds: it sends the messages, and may respond later. `scopes` limit it; absent = all of its role. */
export type Responder = { principalId: string; scopes?: ReadonlySet<string> | undefined };

/** A command as offered in a room. */
export type OfferedCommand = {
  name: string;
  description: string;
  /** The id of what offers it, within its kind of source: of a plugin, a webhook or an agent. */
  sourceId: string;
  /** Its name, for people. */
  sourceName: string;
  /** What it takes besides a text. */
  fields: readonly FormField[];
  /** Lowest room role that may run it; default `member`. */
  least?: RoomRole;
  responder: Responder;
};

/** One interaction under way. The response may follow until `expiresAt`. */
export type Interaction = {
  id: string;
  tenantId: string;
  roomId: string;
  /** Who ran the command or pressed the button. */
  callerId: string;
  callerName: string;
  /** Root message of the thread in which it was run. */
  threadRootId: string | null;
  expiresAt: string;
  signal: AbortSignal | undefined;
};

export type CommandCall = Interaction & { command: OfferedCommand; text: string; args: FormValues };

/** `ephemeral`: only the caller sees it. `message`: the responder sends it to the room. `accepted`: the response follows. */
export type InteractionResponse =
  | { kind: "ephemeral"; text: string; format?: "markdown" | "plain" }
  | { kind: "message"; text: string; format?: "markdown" | "plain" }
  | { kind: "accepted" };

/** Something that offers commands in rooms. */
export type CommandSource = {
  /** `plugin`, `webhook`, `agent`: the first part of the name of a source, as in `plugin:org.example.poll`. */
  kind: string;
  /** The commands of a room, the same for every caller who can read it. Must be cheap: it is called for each command that is run. */
  list(tenantId: string, roomId: string): Promise<readonly OfferedCommand[]>;
  /** Throws the Fault that the caller receives. */
  run(call: CommandCall): Promise<InteractionResponse>;
};
