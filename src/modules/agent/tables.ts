// The tables of agents, their runs, approvals and grants.
import type { RunStatus, RunTrigger } from "./run/schema.ts";

export type AgentRow = {
  tenant_id: string;
  /** The id of its principal. */
  id: string;
  model: string | null;
  instructions: string;
  tools_json: string;
  ask_first_json: string;
  memory_scopes_json: string;
  triggers_json: string;
  schedule_json: string | null;
  max_steps: number;
  max_output_tokens: number;
  tokens_per_day: number | null;
  is_paused: number;
  version: number;
  created_by: string;
  created_at: string;
  updated_at: string;
};

export type RunRow = {
  tenant_id: string;
  id: string;
  agent_id: string;
  room_id: string;
  /** Root message of the thread; empty for the room itself. */
  thread_id: string;
  /** Position in the room that the run is about: readers from whom it is hidden do not see the run. */
  seq: number;
  trigger_kind: RunTrigger;
  trigger_message_id: string | null;
  /** The principals on whose behalf it runs. */
  asker_ids_json: string;
  /** What all tokens with which they asked allow, see `textOfScopes`. */
  scopes: string | null;
  chain_depth: number;
  input: string | null;
  status: RunStatus;
  /** Whether an agent outside executes it, and no node. */
  is_external: number;
  /** Agent, room and thread of a run that has not started and takes further triggers. */
  queue_key: string | null;
  /** Newest position of the room that it reads, since its start. */
  context_seq: number | null;
  lease_owner: string | null;
  lease_until: string | null;
  /** How often a node began to execute it. */
  attempt: number;
  /** The current step, and its text so far. */
  step: number;
  text: string;
  active_ms: number;
  /** The rooms that it has read. */
  read_rooms_json: string;
  model: string | null;
  input_tokens: number;
  cached_tokens: number;
  output_tokens: number;
  cost: number;
  /** The question that it waits for a reply to. */
  question: string | null;
  output_message_id: string | null;
  error_code: string | null;
  error_detail: string | null;
  /** Why the model provider refused a request, in its words, which may quote the request. */
  error_reply: string | null;
  heartbeat_at: string;
  created_at: string;
  queued_at: string;
  started_at: string | null;
  finished_at: string | null;
  /** Whether its texts were removed. */
  is_trimmed: number;
};

export type StepStatus = "started" | "waiting" | "succeeded" | "failed" | "denied" | "outcome_unknown";

export type StepRow = {
  tenant_id: string;
  run_id: string;
  n: number;
  kind: "model" | "tool" | "external";
  status: StepStatus;
  text: string | null;
  /** Why the model ended its response. */
  reason: string | null;
  /** The tools that the model calls, each with the id of its call. */
  calls_json: string | null;
  tool: string | null;
  call_id: string | null;
  input: string | null;
  result: string | null;
  started_at: string;
  ended_at: string | null;
};

/** Messages that runs sent, so that what they trigger is known to be a consequence. */
export type SentRow = {
  tenant_id: string;
  message_id: string;
  run_id: string;
  chain_depth: number;
  created_at: string;
};

/** Messages that triggered agents: a job that runs again triggers none again. */
type TriggerRow = { tenant_id: string; message_id: string; agent_id: string; created_at: string };

type ApprovalStatus = "pending" | "approved" | "denied" | "void";

export type ApprovalRow = {
  tenant_id: string;
  id: string;
  run_id: string;
  call_id: string;
  agent_id: string;
  /** Room of the run. */
  room_id: string;
  /** Room that the call changes. */
  target_room_id: string;
  /** Others who will read what the call writes, and cannot see all that the run has read. */
  reader_ids_json: string;
  seq: number;
  tool: string;
  input: string;
  reason: string;
  status: ApprovalStatus;
  decided_by: string | null;
  decided_at: string | null;
  comment: string | null;
  created_at: string;
  expires_at: string;
};

export type GrantRow = {
  tenant_id: string;
  id: string;
  agent_id: string;
  tool: string;
  room_id: string;
  target_room_id: string;
  /** As in the approval. */
  reader_ids_json: string;
  /** Empty unless it holds for one run only. */
  run_id: string;
  effect: "allow" | "deny";
  created_by: string;
  /** Role in the room of the run that the decision was based on. */
  maker_role: "member" | "moderator";
  created_at: string;
  expires_at: string;
};

export type AgentTables = {
  agent: AgentRow;
  agent_run: RunRow;
  agent_step: StepRow;
  agent_sent: SentRow;
  agent_trigger: TriggerRow;
  agent_approval: ApprovalRow;
  agent_grant: GrantRow;
};
