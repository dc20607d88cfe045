// Where a run comes from: on whose behalf the message speaks that starts it, and how many agents led to that message.
import { AGENT_HOPS_MAX } from "@/core/agent_hops.ts";
import type { IdentityService } from "@/modules/identity/mod.ts";
import type { AgentTrigger } from "@/modules/message/mod.ts";
import type { AnyTransaction } from "@/ports/store.ts";
import { OriginStore } from "./origin_store.ts";
import { askersOf } from "./presenter.ts";
import { RunStore } from "./store.ts";

/** A person starts at 1; each run that another one started is one further. */
export const CHAIN_MAX = AGENT_HOPS_MAX;

type Origin = { askerIds: readonly string[]; chainDepth: number };
type TriggerMessage = Pick<AgentTrigger["message"], "id" | "senderId" | "senderKind" | "agentHops">;

/** On whose behalf a message speaks: a person for itself, an agent for those who asked it, and for its owner as well if it was edited. */
export async function originOf(
  tx: AnyTransaction,
  identity: Pick<IdentityService, "findEnabled">,
  tenantId: string,
  { id, senderId, senderKind, isEdit, agentHops }: TriggerMessage & { isEdit?: boolean },
): Promise<Origin> {
  if (senderKind !== "agent") return { askerIds: [senderId], chainDepth: 1 + agentHops };
  const runs = new RunStore(tx.db);
  const sent = await runs.findSent(tenantId, id);
  const run = sent === undefined ? undefined : await runs.find(tenantId, sent.run_id);
  const ownerId = (await identity.findEnabled(tenantId, [senderId], tx.db)).get(senderId)?.owner_id;
  const owners = ownerId === null || ownerId === undefined ? [] : [ownerId];
  const chainDepth = Math.max(await depthAfter(tx, tenantId, { id, sender_kind: senderKind }), 1 + agentHops);
  if (run === undefined) return { askerIds: [senderId, ...owners], chainDepth };
  return { askerIds: [...new Set([...askersOf(run), ...isEdit === true ? owners : []])], chainDepth };
}

/** The depth of a run that a message starts. An agent outside that sends messages without a run is as deep as what it responds to. */
async function depthAfter(
  tx: AnyTransaction,
  tenantId: string,
  { id, sender_kind }: { id: string; sender_kind: TriggerMessage["senderKind"] },
  causesLeft = CHAIN_MAX,
): Promise<number> {
  if (sender_kind !== "agent") return 1;
  const sent = await new RunStore(tx.db).findSent(tenantId, id);
  if (sent !== undefined) return sent.chain_depth + 1;
  const cause = causesLeft === 0 ? undefined : await new OriginStore(tx.db).findCause(tenantId, id);
  return 1 + (cause === undefined ? 1 : await depthAfter(tx, tenantId, cause, causesLeft - 1));
}
