// Operations for agents outside, which report their own runs.
import { defineOperation, type Operation, type Rates } from "@/core/operation.ts";
import { RUN, RUN_PATH } from "./api.ts";
import type { OutsideRuns } from "./outside.ts";
import { Run, RunAppend, RunFinish, RunPosition, RunReport } from "./schema.ts";

const APPEND_RATE: Rates = { human: { perSecond: 20, burst: 100 } };
const WRITE = { scope: "run.write" } as const;

export function outsideOperations(runs: OutsideRuns): Operation[] {
  return [
    defineOperation({
      name: "run.append",
      summary: "Append to the text of the caller's own run",
      description:
        "Watchers of `run:<id>` receive the text at once. With the same offset it can be repeated. After two minutes " +
        "without a report the run expires, and its text is posted; so it also needs the scope `message.write`.",
      access: WRITE,
      http: { method: "POST", path: `${RUN_PATH}/:id/append`, status: 200, bodyMaxBytes: 512 * 1024 },
      rate: APPEND_RATE,
      input: RunAppend,
      output: RunPosition,
      faults: ["not_found", "run_finished", "offset_mismatch", "limit_reached", "agent_muted"],
      example: { id: RUN, step: 0, offset: 0, text: "The release moved to " },
      run: (context, input) => runs.append(context, input),
    }),
    defineOperation({
      name: "run.step",
      summary: "End a step of an own run, and begin the next one",
      access: WRITE,
      http: { method: "POST", path: `${RUN_PATH}/:id/steps`, status: 200, bodyMaxBytes: 512 * 1024 },
      rate: APPEND_RATE,
      input: RunReport,
      output: RunPosition,
      faults: ["not_found", "run_finished", "offset_mismatch", "limit_reached", "agent_muted"],
      example: { id: RUN, step: 0, tool: "weather", input: '{"city":"Oslo"}', result: "Snow" },
      run: (context, input) => runs.step(context, input),
    }),
    defineOperation({
      name: "run.finish",
      summary: "Post the text of an own run as a message, and end it",
      description: "Posting a message also requires the scope `message.write`.",
      access: WRITE,
      http: { method: "POST", path: `${RUN_PATH}/:id/finish`, status: 200, bodyMaxBytes: 512 * 1024 },
      input: RunFinish,
      output: Run,
      faults: [
        "not_found",
        "run_finished",
        "room_archived",
        "agent_muted",
        "conflict",
        "plugin_refused",
        "plugin_unavailable",
      ],
      example: { id: RUN, status: "succeeded" },
      prepare: (context, input) => runs.prepareFinish(context, input),
      run: (context, input, prepared) => runs.finish(context, input, prepared),
    }),
  ];
}
