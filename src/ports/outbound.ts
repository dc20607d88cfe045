// Outbound HTTP: the one way by which a call leaves the gateway, to addresses of people and to those of the operator. Only the
// database and Redis have connections of their own. Lint refuses other ways.
//
// - The host name is resolved once, every address it has must be public unicast, or allowed by the operator, and the connection
//   uses an address that was checked.
// - Only https; http for hosts that are allowed. No credentials in the address.
// - Redirects are not followed: their response is returned as it is.
// - Bodies that are streams are streamed, in both directions, as fast as the other side reads them.
// - Connecting, the whole call and the response's body are bounded. A stream that is cancelled or aborted ends the connection.
// - What a part of JSON with bounds of its own causes in its tick is charged to the caller's account, and it is read slowly while
//   that has no time left.
// - What is refused or fails before a response throws an `OutboundError`; its message names no secret and may be shown to the
//   person who configured the address.

import { Fault } from "@/core/fault.ts";

export type OutboundOptions = {
  /** Hosts of private services that are allowed for this caller, besides those of `SVC_OUTBOUND_ALLOW`: names or CIDRs. */
  allow?: readonly string[];
  /** Limit of the whole call in ms, body included; default 15 000. `Infinity`: the caller bounds it by its signal. */
  totalMs?: number;
  /** Longest response body in bytes; default 64 KiB. It is a stream, read no faster than its reader reads. */
  bodyMaxBytes?: number;
  /** Bounds of that body for callers that parse it as JSON, or as server-sent events with JSON. */
  json?: JsonBounds;
};

/** Bounds of a JSON body; of each event, if the body is a stream of server-sent events. */
export type JsonBounds = { bytesMax: number; depthMax: number; valuesMax: number };

/** Options of `fetch`; others than these are ignored. */
type OutboundInit = { [Name in "method" | "headers" | "body" | "signal"]?: RequestInit[Name] | undefined };

/** A `fetch` with bounds. */
export interface Outbound {
  (url: string | URL, init?: OutboundInit, options?: OutboundOptions): Promise<Response>;
  /** Throws where the address alone says that a call would be refused: so a wrong one is refused when it is configured. */
  assertAllowed(url: string | URL, options?: Pick<OutboundOptions, "allow">): void;
}

/** The name or address of a URL, without brackets and the dot that ends an absolute name. */
export function hostOf({ hostname }: URL): string {
  return hostname.replace(/^\[|\]$/g, "").replace(/\.$/, "").toLowerCase();
}

/** For an address that the operator configured: its host is allowed, and nothing else that is private. */
export function allowHostOf(url: string): Pick<OutboundOptions, "allow"> {
  return { allow: [hostOf(new URL(url))] };
}

/**
 * Throws the Fault of an input whose address, at `pointer`, would be refused as it is written. Its name is resolved, and its
 * addresses are checked, at each call.
 */
export function assertAddressAllowed(
  outbound: Pick<Outbound, "assertAllowed">,
  url: string,
  pointer: string,
  options?: Pick<OutboundOptions, "allow">,
): void {
  try {
    outbound.assertAllowed(url, options);
  } catch (thrown) {
    if (!(thrown instanceof OutboundError)) throw thrown;
    const { code, message } = thrown;
    throw Fault.forField(pointer, code, message.charAt(0).toLowerCase() + message.slice(1), "address_not_allowed");
  }
}

export type OutboundErrorCode =
  | "address_not_allowed"
  | "name_not_resolved"
  | "scheme_not_allowed"
  | "response_too_large"
  | "timed_out"
  | "connection_failed";

export class OutboundError extends Error {
  readonly code: OutboundErrorCode;

  constructor(code: OutboundErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "OutboundError";
    this.code = code;
  }
}
