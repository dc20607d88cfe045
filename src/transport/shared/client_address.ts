// The address and scheme of the client; proxy headers count from trusted proxies only.
import ipaddr from "ipaddr.js";
import { LIST_HEADER_MAX_CHARS } from "@/core/http/request.ts";

/** The client as seen through trusted proxies. */
export type Client = { ip: string; isHttps: boolean };

type Address = ReturnType<typeof ipaddr.process>;

/**
 * Builds the resolver of clients; `trusted` are CIDR ranges or single addresses. The gateway itself serves plain TCP, and a
 * client chooses the scheme of an absolute-form request line, so only a trusted proxy makes a request https.
 */
export function createClientResolver(trusted: readonly string[]): (request: Request, peer: string) => Client {
  const ranges = trusted.map(rangeOf);
  const isTrusted = (address: Address): boolean =>
    ranges.some(([range, bits]) => range.kind() === address.kind() && address.match(range, bits));
  return function clientOf(request, peer) {
    if (ranges.length === 0) return { ip: peer, isHttps: false };
    const nearest = addressOf(peer);
    if (nearest === undefined || !isTrusted(nearest)) return { ip: peer, isHttps: false };
    const proto = request.headers.get("X-Forwarded-Proto")?.slice(-LIST_HEADER_MAX_CHARS).split(",").at(-1);
    return {
      // Only the end, which the nearest proxies appended: a client may send a value of any length.
      ip: clientAddress(nearest, request.headers.get("X-Forwarded-For")?.slice(-LIST_HEADER_MAX_CHARS), isTrusted),
      isHttps: proto?.trim().toLowerCase() === "https",
    };
  };
}

/** Whether this is a full address or network: short forms such as 10/8 are parsed unexpectedly. */
export function isAddressRange(text: string): boolean {
  const { IPv4, IPv6 } = ipaddr;
  return text.includes("/")
    ? IPv4.isValidCIDRFourPartDecimal(text) || IPv6.isValidCIDR(text)
    : IPv4.isValidFourPartDecimal(text) || IPv6.isValid(text);
}

/** The rate-limit key of an address: an IPv6 customer has a /64. */
export function addressLimitKey(ip: string): string {
  const address = ip.includes(":") ? addressOf(ip) : undefined;
  if (address === undefined) return ip;
  return address instanceof ipaddr.IPv6
    ? `${address.parts.slice(0, 4).map((part) => part.toString(16)).join(":")}::`
    : address.toString();
}

/** Walks the proxies from the nearest one to the first address that is not trusted. */
function clientAddress(
  nearest: Address,
  forwardedFor: string | undefined,
  isTrusted: (address: Address) => boolean,
): string {
  let client = nearest;
  for (const hop of (forwardedFor ?? "").split(",").reverse()) {
    const address = addressOf(hop.trim());
    if (address === undefined) break;
    client = address;
    if (!isTrusted(address)) break;
  }
  return client.toString();
}

/** Parses an address with or without a port; IPv4-mapped IPv6 becomes IPv4. */
function addressOf(text: string): Address | undefined {
  const bare = /^\[([^\]]+)\](?::\d+)?$/.exec(text)?.[1] ?? /^([\d.]+):\d+$/.exec(text)?.[1] ?? text;
  return ipaddr.isValid(bare) ? ipaddr.process(bare) : undefined;
}

function rangeOf(text: string): [Address, number] {
  if (text.includes("/")) return ipaddr.parseCIDR(text);
  const address = ipaddr.process(text);
  return [address, address.kind() === "ipv4" ? 32 : 128];
}
