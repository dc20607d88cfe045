// Interactions: a person runs a command or presses a button, and a plugin, a webhook or an agent responds. Modules register what
// responds; the module `command` finds it, calls it and delivers the response.
import type { RoomRole } from "../actor.ts";
import type { Elements } from "./element.ts";
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
  threadId: string | null;
  expiresAt: string;
  signal: AbortSignal | undefined;
};

export type CommandCall = Interaction & { command: OfferedCommand; text: string; args: FormValues };

export type ActionCall = Interaction & {
  /** The sender of the message. */
  responderId: string;
  messageId: string;
  elementId: string;
  /** The value of the button, or what was selected. */
  value: string | undefined;
  values: FormValues;
};

type Format = "markdown" | "plain";

/**
 * `ephemeral`: only the caller sees it. `message`: the responder sends it to the room. `update`: the responder changes its message
 * that has the pressed button. `accepted`: the response follows.
 */
export type InteractionResponse =
  | { kind: "ephemeral"; text: string; format?: Format }
  | { kind: "message"; text: string; format?: Format; elements?: Elements | undefined }
  | { kind: "update"; text?: string | undefined; format?: Format | undefined; elements?: Elements | undefined }
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

/** Something whose messages have buttons, selects and forms. Other senders receive the event `action.invoked`. */
export type ActionTarget = {
  /** For the metric, as the kind of a source. */
  kind: string;
  /** What responds for messages of this principal; `undefined` if that is not of this kind. */
  find(tenantId: string, senderId: string): Promise<Responder | undefined>;
  /** Throws the Fault that the caller receives. */
  invoke(call: ActionCall): Promise<InteractionResponse>;
};
