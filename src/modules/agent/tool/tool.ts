// Tools of agents from elsewhere: plugins, servers of tools, skills. Operations of the gateway are tools by themselves.

/** One call. `key` is the same when a call is repeated, and no other call has it. */
export type ToolCall = {
  tenantId: string;
  agentId: string;
  roomId: string;
  runId: string;
  key: string;
  /** How many agents led to it, itself included: for services that may start agents. */
  agentHops: number;
  input: Record<string, unknown>;
  signal: AbortSignal;
};

export type AgentTool = {
  /** `^[a-z_]{1,64}$`, unique among the tools of an agent. */
  name: string;
  description: string;
  /** JSON Schema of an object. */
  inputSchema: Record<string, unknown>;
  /** Whether a call whose outcome is unknown may be repeated. */
  isIdempotent: boolean;
  /** Whether each call needs an approval, unless it was granted; default true, since what it is given leaves the gateway. */
  needsApproval?: boolean;
  /** Scope of the tokens of those who ask, without which each call needs an approval in any case. */
  scope?: string;
  /** Returns what the model reads. The model reads a Fault and `ToolFailed`; of another error, it learns that there was one. */
  call(call: ToolCall): Promise<string>;
};

/** A call that the tool itself says has failed; the model reads the message. */
export class ToolFailed extends Error {
  override readonly name = "ToolFailed";
}

/** Offers tools to agents that have them in their configuration. */
export type ToolSource = {
  /** Those of these names that it has, in this tenant; and those that the agent has in this room without naming them. */
  toolsOf(tenantId: string, agentId: string, names: readonly string[], roomId: string): Promise<readonly AgentTool[]>;
  /** Names that its tools may have in this tenant; one that ends with `*` is any name that begins like it. */
  patternsOf(tenantId: string): readonly string[] | Promise<readonly string[]>;
};
