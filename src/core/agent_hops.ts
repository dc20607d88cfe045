// How many agents led to a call or a message, one after the other. Other services receive it as a member of W3C `baggage`,
// which programs with tracing pass on by themselves: so agents that start each other through them are counted as well.

import type { PrincipalKind } from "./actor.ts";

/** A person starts at 0: so many agents start each other before a person has to. */
export const AGENT_HOPS_MAX = 3;
const MEMBER = "agent-hops";
/** More than any chain may have. */
const HOPS_MAX = 99;
/** As the specification of `baggage` bounds it. */
const BAGGAGE_MAX_CHARS = 8192;

/** The number in `baggage`, of a header or of the metadata of MCP; 0 if there is none. */
export function hopsOf(baggage: unknown): number {
  if (typeof baggage !== "string" || baggage.length > BAGGAGE_MAX_CHARS) return 0;
  const values = baggage.split(",").flatMap((member) => {
    const [name, value] = member.split(/[=;]/, 2);
    return name?.trim() === MEMBER ? [Number(value)] : [];
  });
  return countOf(values[0]);
}

/** A `baggage` header; none if no agent led to it. */
export function baggageOf(hops: number): { baggage?: string } {
  return hops === 0 ? {} : { baggage: `${MEMBER}=${hops}` };
}

/** The number in the metadata of a message. */
export function hopsIn(metadata: unknown): number {
  return countOf((metadata as { agentHops?: unknown } | null | undefined)?.agentHops);
}

/** How many agents led to what a message starts; its sender passes no number on, if that is an agent outside that acts by itself. */
export function hopsAfterMessage(metadata: unknown, senderKind: PrincipalKind): number {
  return Math.max(hopsIn(metadata), senderKind === "agent" ? 1 : 0);
}

/** Metadata with the number, unless it has a greater one. */
export function withHops<Metadata extends Record<string, unknown>>(metadata: Metadata, hops: number): Metadata {
  return hopsIn(metadata) >= hops ? metadata : { ...metadata, agentHops: hops };
}

function countOf(value: unknown): number {
  return typeof value === "number" && value > 0 && Number.isInteger(value) ? Math.min(value, HOPS_MAX) : 0;
}
