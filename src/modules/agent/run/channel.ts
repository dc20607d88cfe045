// The channel `run:<id>`: what a run says while it says it.
import { hasScope } from "@/core/actor.ts";
import type { ChannelKind } from "@/core/event/channel.ts";
import { Fault } from "@/core/fault.ts";
import type { RunAccess } from "./access.ts";
import { RunDelta, RunReset, RunStepNotice } from "./schema.ts";

export function runChannel(access: RunAccess): ChannelKind {
  return {
    prefix: "run",
    summary: "Text and steps of a run while it runs; get the run after subscribing, and continue its text",
    isDurable: false,
    presenceMax: 0,
    // A run may have read any room that all readers of its own room can see.
    spansStreams: true,
    async authorize(actor, id, intent) {
      if (intent === "publish") throw new Fault("forbidden", "Only the gateway publishes here; agents call run.append");
      if (!hasScope(actor, "run.read")) throw new Fault("scope_missing", "The token lacks the scope run.read");
      await access.findReadable(actor, id);
    },
    ephemeral: {},
    notices: {
      "run.delta": { summary: "The text of a step continues at an offset", data: RunDelta },
      "run.step": { summary: "A step began or ended", data: RunStepNotice },
      "run.reset": { summary: "The text of a step broke off and starts again", data: RunReset },
    },
  };
}
