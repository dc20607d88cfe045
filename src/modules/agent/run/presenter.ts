// Runs and steps as clients see them. Their texts are for readers who can see all that the run has read.
import { scopesOf } from "@/core/actor.ts";
import type { RoomsRead } from "@/modules/room/mod.ts";
import type { RunRow, StepRow } from "../tables.ts";
import type { RecordedStep, Run } from "./schema.ts";

/** `hasReply`: for those who may read the words of the model provider. */
export function presentRun(row: RunRow, hasTexts = true, hasReply = false): Run {
  return {
    id: row.id,
    agentId: row.agent_id,
    roomId: row.room_id,
    threadId: row.thread_id === "" ? null : row.thread_id,
    trigger: row.trigger_kind,
    triggerMessageId: row.trigger_message_id,
    askerIds: askersOf(row),
    scopes: scopesOf(row.scopes)?.values().toArray() ?? null,
    chainDepth: row.chain_depth,
    status: row.status,
    attempt: row.attempt,
    step: row.step,
    text: hasTexts ? row.text : "",
    question: hasTexts ? row.question : null,
    model: row.model,
    usage: {
      inputTokens: Number(row.input_tokens),
      cachedTokens: Number(row.cached_tokens),
      outputTokens: Number(row.output_tokens),
      costMicros: Number(row.cost),
    },
    outputMessageId: row.output_message_id,
    error: errorOf(row, hasReply),
    createdAt: row.created_at,
    startedAt: row.started_at,
    finishedAt: row.finished_at,
  };
}

function errorOf({ error_code: code, error_detail, error_reply }: RunRow, hasReply: boolean): Run["error"] {
  if (code === null) return null;
  return { code, detail: [error_detail, hasReply ? error_reply : null].filter(Boolean).join(": ") };
}

export function presentStep(row: StepRow, hasTexts: boolean): RecordedStep {
  return {
    step: row.n,
    kind: row.kind,
    status: row.status,
    text: hasTexts ? row.text : null,
    tool: row.tool,
    callId: row.call_id,
    input: hasTexts ? row.input : null,
    result: hasTexts ? row.result : null,
    startedAt: row.started_at,
    endedAt: row.ended_at,
  };
}

/** The principals on whose behalf a run acts. */
export function askersOf({ asker_ids_json }: Pick<RunRow, "asker_ids_json">): string[] {
  return JSON.parse(asker_ids_json);
}

/** What a run has read; its own room is always part of it. */
export function roomsReadBy({ room_id, read_rooms_json }: Pick<RunRow, "room_id" | "read_rooms_json">): RoomsRead {
  const stored: string[] | Record<string, number> = JSON.parse(read_rooms_json);
  // Earlier versions, which may still run on other nodes, store the rooms alone: they may have been read from the beginning.
  const read = Array.isArray(stored) ? stored.map((id) => [id, 0] as const) : Object.entries(stored);
  return new Map([[room_id, Number.MAX_SAFE_INTEGER], ...read]);
}

/** The same with what was read besides: of a room that was read twice, from the earlier position on. */
export function withRoomsRead(run: Pick<RunRow, "room_id" | "read_rooms_json">, more: RoomsRead): RoomsRead {
  const read = new Map(roomsReadBy(run));
  for (const [id, floor] of more) read.set(id, Math.min(floor, read.get(id) ?? floor));
  return read;
}

/** Its column `read_rooms_json`. */
export function roomsReadJson(read: RoomsRead): string {
  return JSON.stringify(Object.fromEntries(read));
}
