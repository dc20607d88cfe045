// Runs of agents in rooms: what they are writing, what they wait for, and what they did.
import { signal } from "@preact/signals";
import { get, listAll } from "../core/api.ts";
import { follow, onEvent, unfollow } from "../core/live.ts";

type RunStatus =
  | "queued"
  | "running"
  | "waiting_approval"
  | "waiting_input"
  | "succeeded"
  | "failed"
  | "cancelled"
  | "expired";
export type Run = {
  id: string;
  agentId: string;
  roomId: string;
  threadId: string | null;
  status: RunStatus;
  step: number;
  text?: string;
  model: string | null;
  usage: { inputTokens: number; outputTokens: number; costMicros: number };
  error: { code: string; detail: string } | null;
  createdAt: string;
  finishedAt: string | null;
};
export type Approval = {
  id: string;
  runId: string;
  roomId: string;
  targetRoomId: string;
  readerIds: readonly string[];
  tool: string;
  /** As JSON; empty for who may not see all that the run has read. */
  input: string;
  reason: string;
};

const UNFINISHED: readonly RunStatus[] = ["queued", "running", "waiting_approval", "waiting_input"];

/** Runs that have not finished, of rooms that were opened. */
export const runs = signal<ReadonlyMap<string, Run>>(new Map());
export const approvals = signal<ReadonlyMap<string, Approval>>(new Map());
/** What a run has written since its last message. */
export const texts = signal<ReadonlyMap<string, string>>(new Map());

const ended = new Set<string>();

/** Reads the unfinished runs of a room, and follows what they write. */
export async function openRuns(roomId: string): Promise<void> {
  const before = new Set(runs.value.keys());
  const unfinished = await listAll<Run>("v1/collaboration/ai/runs", { roomId, status: UNFINISHED }, 50);
  const ids = new Set(unfinished.map(({ id }) => id));
  // Those that ended unseen.
  runs.value = new Map([...runs.value].filter(([id, run]) => run.roomId !== roomId || ids.has(id) || !before.has(id)));
  for (const run of unfinished) put(run);
  if ([...runs.value.values()].some((run) => run.roomId === roomId && run.status === "waiting_approval")) {
    await readApprovals(roomId);
  }
}

async function readApprovals(roomId: string): Promise<void> {
  const pending = await listAll<Approval>("v1/collaboration/ai/approvals", { roomId, status: "pending" }, 50);
  approvals.value = new Map([...approvals.value, ...pending.map((one) => [one.id, one] as const)]);
}

export function readRun(id: string): Promise<Run & { steps: Step[] }> {
  return get(`v1/collaboration/ai/runs/${encodeURIComponent(id)}`);
}

export type Step = {
  step: number;
  kind: string;
  status: string;
  text: string | null;
  tool: string | null;
  input: string | null;
  result: string | null;
};

function put(run: Run): void {
  const next = new Map(runs.value);
  if (UNFINISHED.includes(run.status)) {
    // A list may have been read before the end, and arrive after it.
    if (ended.has(run.id)) return;
    next.set(run.id, { ...next.get(run.id), ...run });
    if (!texts.value.has(run.id)) void followText(run.id);
  } else {
    ended.add(run.id);
    next.delete(run.id);
    unfollow(`run:${run.id}`);
    approvals.value = new Map([...approvals.value].filter(([, { runId }]) => runId !== run.id));
  }
  runs.value = next;
}

/** What was written before the subscription is read; what follows is published. */
async function followText(id: string): Promise<void> {
  setText(id, "");
  const subscription = follow({ channel: `run:${id}` });
  try {
    await subscription?.ready();
    const run = await readRun(id);
    // Once a step has ended, as before its tools are called, its text is there only.
    const text = run.text || run.steps.findLast((step) => step.text)?.text || "";
    if (text.trim().length > (texts.value.get(id) ?? "").trim().length) setText(id, text);
  } catch {
    // The words that follow are shown, and the message in the end.
  }
}

function setText(id: string, text: string): void {
  texts.value = new Map(texts.value).set(id, text);
}

onEvent(({ type, data }) => {
  if (type === "run.started" || type === "run.waiting" || type === "run.finished") put(data.run);
  else if (type === "run.delta") {
    // A delta says where it belongs, so one that is missing leaves a gap and not a wrong order.
    const before = texts.value.get(data.runId) ?? "";
    setText(data.runId, before.slice(0, data.offset).padEnd(data.offset) + data.text);
  } else if (type === "run.reset") setText(data.runId, "");
  else if (type === "approval.requested") {
    // The event is for everybody in the room, and so without the arguments.
    readApprovals(data.approval.roomId).catch(() => undefined);
  } else if (type === "approval.decided") {
    const next = new Map(approvals.value);
    next.delete(data.approvalId);
    approvals.value = next;
  }
});
