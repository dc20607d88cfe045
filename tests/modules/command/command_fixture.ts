// A source of commands that a test scripts.
import type {
  CommandCall,
  CommandSource,
  InteractionResponse,
  OfferedCommand,
} from "@/core/interaction/interaction.ts";
import type { Module } from "@/core/module.ts";
import type { FormField } from "@/core/interaction/form.ts";

type Respond = (call: CommandCall) => InteractionResponse | Promise<InteractionResponse>;

export const FIELDS: readonly FormField[] = [
  { kind: "text", name: "title", label: "Title", required: true, maxLength: 20, multiline: false },
  { kind: "number", name: "days", label: "Days", required: false, min: 1, max: 7 },
  { kind: "boolean", name: "loud", label: "Loud", required: false },
  {
    kind: "select",
    name: "colour",
    label: "Colour",
    required: false,
    multiple: false,
    options: [{ value: "red", label: "Red" }, { value: "blue", label: "Blue" }],
  },
];

export class ScriptedCommands implements CommandSource {
  readonly kind: string;
  readonly calls: CommandCall[] = [];
  offered: readonly OfferedCommand[];
  respond: Respond = ({ text, callerId }) => ({ kind: "ephemeral", text: `${callerId}: ${text}` });

  constructor(kind: string, ...offered: (Pick<OfferedCommand, "name"> & Partial<OfferedCommand>)[]) {
    this.kind = kind;
    this.offered = offered.map((command) => ({
      description: `Does ${command.name}`,
      sourceId: "one",
      sourceName: "One",
      fields: [],
      responder: { principalId: "robot" },
      ...command,
    }));
  }

  list(): Promise<readonly OfferedCommand[]> {
    return Promise.resolve(this.offered);
  }

  async run(call: CommandCall): Promise<InteractionResponse> {
    this.calls.push(call);
    return await this.respond(call);
  }

  /** The module that offers them. */
  module(): Module {
    return { name: `commands of ${this.kind}`, operations: [], commands: this };
  }
}
