// Runs and steps as clients see them.
import type { RunRow, StepRow } from "../tables.ts";
import type { Run, RunStep } from "./schema.ts";

export function presentRun(row: RunRow): Run {
  return {
    id: row.id,
    agentId: row.agent_id,
    roomId: row.room_id,
    threadId: row.thread_id === "" ? null : row.thread_id,
    trigger: row.trigger_kind,
    triggerMessageId: row.trigger_message_id,
    askerIds: askersOf(row),
    chainDepth: row.chain_depth,
    status: row.status,
    attempt: row.attempt,
    step: row.step,
    text: row.text,
    question: row.question,
    model: row.model,
    usage: {
      inputTokens: Number(row.input_tokens),
      cachedTokens: Number(row.cached_tokens),
      outputTokens: Number(row.output_tokens),
      costMicros: Number(row.cost),
    },
    outputMessageId: row.output_message_id,
    error: row.error_code === null ? null : { code: row.error_code, detail: row.error_detail ?? "" },
    createdAt: row.created_at,
    startedAt: row.started_at,
    finishedAt: row.finished_at,
  };
}

export function presentStep(row: StepRow): RunStep {
  return {
    step: row.n,
    kind: row.kind,
    status: row.status,
    text: row.text,
    tool: row.tool,
    callId: row.call_id,
    input: row.input,
    result: row.result,
    startedAt: row.started_at,
    endedAt: row.ended_at,
  };
}

/** The principals on whose behalf a run acts. */
export function askersOf({ asker_ids_json }: Pick<RunRow, "asker_ids_json">): string[] {
  return JSON.parse(asker_ids_json);
}
