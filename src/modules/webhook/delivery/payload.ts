// The body of a delivery. What is too long is left out; ids remain, so that the receiver can read the resource.
import { Buffer } from "node:buffer";
import { hopsIn } from "@/core/agent_hops.ts";
import type { StoredEvent } from "@/core/event/event.ts";
import { BODY_MAX_BYTES } from "../schema.ts";

/** What is delivered: an event of a stream, or a gap in it. */
export type Payload = {
  id: string;
  type: string;
  body: string;
  /** How many agents led to the event. */
  agentHops?: number;
};

/** An event as it is delivered. The id is the same for each attempt. */
export function eventPayload(webhookId: string, event: StoredEvent): Payload {
  const { tenantId, stream, epoch, seq, type } = event;
  const { id, at, actor, agentHops = 0, data } = JSON.parse(event.json);
  const head = { type, timestamp: at, tenantId, roomId: roomIdOf(stream), stream, epoch, seq, id, actor };
  const whole = JSON.stringify({ ...head, data });
  const body = Buffer.byteLength(whole) <= BODY_MAX_BYTES
    ? whole
    : JSON.stringify({ ...head, data: idsIn(data), isThin: true });
  const hops = Math.max(agentHops, hopsIn(data?.message?.metadata));
  return { id: `${webhookId}:${epoch}:${stream}:${seq}`, type, body, agentHops: hops };
}

/** Announces that the events after `after` up to `floor` are no longer stored, or that the stream began again. */
export function gapPayload(
  webhookId: string,
  { tenantId, stream, epoch, after, floor, now }: {
    tenantId: string;
    stream: string;
    epoch: string;
    after: number;
    floor: number;
    now: string;
  },
): Payload {
  const type = "webhook.gap";
  const head = { type, timestamp: now, tenantId, roomId: roomIdOf(stream), stream, epoch, seq: floor };
  return {
    id: `${webhookId}:${epoch}:${stream}:gap:${after}:${floor}`,
    type,
    body: JSON.stringify({ ...head, data: { after, floor } }),
  };
}

export function roomIdOf(stream: string): string {
  return stream.slice(stream.indexOf(":") + 1);
}

/** The ids in the data of an event, in its first two levels. */
function idsIn(data: unknown, depth = 2): Record<string, unknown> {
  if (typeof data !== "object" || data === null || Array.isArray(data)) return {};
  const ids: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(data)) {
    if (typeof value === "string" && (name === "id" || name.endsWith("Id"))) ids[name] = value;
    const inner = depth > 1 ? idsIn(value, depth - 1) : {};
    if (Object.keys(inner).length > 0) ids[name] = inner;
  }
  return ids;
}
