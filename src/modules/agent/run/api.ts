// Operations on runs.
import { exampleId } from "@/core/id.ts";
import { defineOperation, type Operation, Outcome, type Rates } from "@/core/operation.ts";
import { pageSchema } from "@/core/page.ts";
import { Run, RunCancel, RunCreate, RunDetail, RunList, RunRead, RunReply } from "./schema.ts";
import { AGENT } from "../api.ts";
import type { RunService } from "./service.ts";

export const RUN_PATH = "/v1/collaboration/ai/runs";
export const ROOM = exampleId("room");
export const RUN = exampleId("run");
const CREATE_RATE: Rates = { human: { perSecond: 0.5, burst: 30 } };

export function runOperations(runs: RunService): Operation[] {
  return [
    defineOperation({
      name: "run.create",
      summary: "Start a run of an agent in a room",
      description:
        "Mentions, direct messages, replies and commands start runs, too, if the token of the message has the scope " +
        "`message.read`. A run has at most the permissions of those who asked for it, and the scopes of their tokens. An " +
        "agent outside starts a run of its own to report it with `run.append` and `run.finish`.",
      access: { scope: "run.write", room: "member" },
      http: { method: "POST", path: RUN_PATH, status: 202, hasLocation: true },
      rate: CREATE_RATE,
      input: RunCreate,
      output: Run,
      faults: ["not_found", "room_archived", "agent_paused", "limit_reached", "conflict"],
      example: { agentId: AGENT, roomId: ROOM, input: "Summarize what is open." },
      async run(context, input) {
        const run = await runs.create(context, input);
        return new Outcome(run, { location: `${RUN_PATH}/${run.id}` });
      },
    }),
    defineOperation({
      name: "run.list",
      summary: "List the runs in a room, newest first",
      access: { scope: "run.read", room: "observer" },
      http: { method: "GET", path: RUN_PATH, status: 200 },
      input: RunList,
      output: pageSchema(Run),
      faults: ["not_found", "invalid_cursor"],
      example: { roomId: ROOM },
      run: (context, input) => runs.list(context, input),
    }),
    defineOperation({
      name: "run.read",
      summary: "Get a run with its steps",
      description:
        "To follow its text, subscribe to `run:<id>` on `/ws`, then get it, and apply the deltas that continue its " +
        "text. If one begins after its end, keep it and get the run again: its text is stored each second. " +
        "`run.stream` does all of that. A day after its end a run has no texts. A caller who cannot see all that it " +
        "has read gets it without texts, and may not subscribe.",
      access: { scope: "run.read", room: "observer" },
      http: { method: "GET", path: `${RUN_PATH}/:id`, status: 200 },
      input: RunRead,
      output: RunDetail,
      faults: ["not_found"],
      example: { id: RUN },
      run: (context, { id, wait }) => runs.read(context, id, wait),
    }),
    defineOperation({
      name: "run.cancel",
      summary: "Cancel a run",
      description:
        "The run ends at once, and its approvals are void. Requires having asked for it, being its agent, or the room role moderator.",
      access: { scope: "run.write", room: "observer", archived: true },
      audited: true,
      http: { method: "POST", path: `${RUN_PATH}/:id/cancel`, status: 202 },
      input: RunCancel,
      output: Run,
      faults: ["not_found", "run_finished"],
      example: { id: RUN, reason: "It reads the wrong document." },
      run: (context, input) => runs.cancel(context, input),
    }),
    defineOperation({
      name: "run.reply",
      summary: "Reply to the question of a run, which then continues",
      access: { scope: "run.write", room: "member" },
      http: { method: "POST", path: `${RUN_PATH}/:id/reply`, status: 202 },
      input: RunReply,
      output: Run,
      faults: ["not_found", "room_archived", "run_finished", "conflict", "plugin_refused", "plugin_unavailable"],
      example: { id: RUN, text: "The second one." },
      prepare: (context, input) => runs.prepareReply(context, input),
      run: (context, input, preparation) => runs.reply(context, input, preparation),
    }),
  ];
}
