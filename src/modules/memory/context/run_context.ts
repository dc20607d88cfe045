// The context of a run: what the model of an agent reads before it responds, with facts and search results as background.
import { estimateTokens } from "@/core/text/tokens.ts";
import { type AssembleContext, systemText } from "@/modules/agent/mod.ts";
import type { ModelMessage } from "@/ports/model.ts";
import type { ScopeType } from "../schema.ts";
import type { ContextAssembler } from "./assembler.ts";
import { ITEM_TOKENS } from "./budget.ts";
import { type ModelFiles, withFiles } from "./run_files.ts";
import { BUDGET, type ContextItem, PREFIX_SECTIONS } from "./schema.ts";

type UserMessage = Extract<ModelMessage, { role: "user" }>;

/** Tokens for what separates the parts of a message. */
const MARGIN = 16;
const BETWEEN = "\n\n";
const OPENING: ModelMessage = {
  role: "user",
  text: "[Background] What was said before is not part of this conversation.",
};

/**
 * The stable prefix as one message for prompt caching, then the conversation, the background right before its last message: so
 * what comes before stays the same from run to run, and the model responds to the last message.
 */
export function runContext(contexts: () => ContextAssembler, source: ModelFiles): AssembleContext {
  return async ({ actor, agent, run, situation, budgetTokens, files }) => {
    const input = run.input === null ? [] : [run.input];
    const ownTokens = [situation, ...input].reduce((sum, text) => sum + estimateTokens(text) + ITEM_TOKENS, MARGIN);
    const isInThread = run.thread_id !== "";
    const { items } = await contexts().assemble({
      actor,
      requestId: run.id,
      access: { scope: "memory.read", room: "observer" },
      operation: "context.assemble",
      isReadOnly: true,
    }, {
      roomId: run.room_id,
      agentId: run.agent_id,
      instructions: systemText(agent),
      include: ["pinned", "thread", "room", "memory", "search"],
      budgetTokens: Math.min(BUDGET.max, Math.max(BUDGET.min, budgetTokens - ownTokens)),
      scopeTypes: JSON.parse(agent.memory_scopes_json) as ScopeType[], // as its schema stores them
      ...isInThread ? { threadId: run.thread_id } : {},
      ...run.input === null ? {} : { query: run.input },
      ...run.context_seq === null ? {} : { upToSeq: Number(run.context_seq) },
      askedSeq: Number(run.seq),
    });
    const isConversation = ({ section, source }: ContextItem): boolean =>
      section === "thread" || !isInThread && section === "room" && source?.type === "message";
    const prefix = items.filter(({ section }) => PREFIX_SECTIONS.has(section)).map(({ text }) => text);
    const background = items.filter((item) => !PREFIX_SECTIONS.has(item.section) && !isConversation(item));
    const conversation = await withFiles(source, { actor, files }, items.filter(isConversation));
    const asked = [...conversation.messages, ...input.map(userMessage)];
    // Some models refuse a prompt that ends with a message of their own.
    const last = asked.at(-1)?.role === "user" ? asked.slice(-1) : [];
    // Templates of many models refuse a conversation that begins with a message of theirs.
    const opening = asked[0]?.role === "assistant" ? [OPENING] : [];
    const messages = merged([
      ...opening,
      ...asked.slice(0, asked.length - last.length),
      ...[...background.map(({ text }) => text), situation].map(userMessage),
      ...last,
    ]);
    const { fileTokens } = conversation;
    return { messages: [{ role: "system", text: prefix.join("\n\n"), isCacheable: true }, ...messages], fileTokens };
  };
}

function userMessage(text: string): ModelMessage {
  return { role: "user", text };
}

/** Messages of one role after another as one: some models accept no others. */
function merged(messages: readonly ModelMessage[]): ModelMessage[] {
  const result: ModelMessage[] = [];
  for (const message of messages) {
    const last = result.at(-1);
    if (last?.role === "user" && message.role === "user") {
      result[result.length - 1] = joined(last, message);
    } else if (last?.role === message.role && last.role !== "tool" && message.role !== "tool") {
      result[result.length - 1] = { role: message.role, text: `${last.text}${BETWEEN}${message.text}` };
    } else result.push(message);
  }
  return result;
}

function joined(one: UserMessage, other: UserMessage): UserMessage {
  const start = one.text.length + BETWEEN.length;
  const moved = (other.images ?? []).map((image) => ({ ...image, at: start + image.at }));
  const images = [...one.images ?? [], ...moved];
  return {
    role: "user",
    text: `${one.text}${BETWEEN}${other.text}`,
    ...images.length === 0 ? {} : { images },
  };
}
