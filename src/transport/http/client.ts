// Who is at the other end: address and https-ness of the client, believing proxy headers from trusted proxies only.
import ipaddr from "ipaddr.js";

/** The client as seen through trusted proxies. */
export type Client = { ip: string; isHttps: boolean };

type Address = ReturnType<typeof ipaddr.process>;

/** Builds the reader of client addresses; `trusted` are CIDR ranges or single addresses. */
export function createClientOf(trusted: readonly string[]): (request: Request, peer: string) => Client {
  const ranges = trusted.map(rangeOf);
  const isTrusted = (address: Address): boolean =>
    ranges.some(([range, bits]) => range.kind() === address.kind() && address.match(range, bits));
  return function clientOf(request, peer) {
    const isHttps = request.url.startsWith("https:");
    if (ranges.length === 0) return { ip: peer, isHttps };
    const near = addressOf(peer);
    if (near === undefined || !isTrusted(near)) return { ip: peer, isHttps };
    const proto = request.headers.get("X-Forwarded-Proto")?.split(",").at(-1)?.trim().toLowerCase();
    return {
      ip: farthest(near, request.headers.get("X-Forwarded-For"), isTrusted),
      isHttps: isHttps || proto === "https",
    };
  };
}

/** Whether this is an address or a network in full: short forms such as 10/8 mean something else than they seem to. */
export function isAddressRange(text: string): boolean {
  const { IPv4, IPv6 } = ipaddr;
  return text.includes("/")
    ? IPv4.isValidCIDRFourPartDecimal(text) || IPv6.isValidCIDR(text)
    : IPv4.isValidFourPartDecimal(text) || IPv6.isValid(text);
}

/** The key under which an address is limited: one IPv6 customer has a whole /64. */
export function limitKeyOf(ip: string): string {
  const address = ip.includes(":") ? addressOf(ip) : undefined;
  if (address === undefined) return ip;
  return address instanceof ipaddr.IPv6
    ? `${address.parts.slice(0, 4).map((part) => part.toString(16)).join(":")}::`
    : address.toString();
}

/** Walks the proxies from the nearest on, and stops at the first address that is not a trusted one. */
function farthest(near: Address, forwardedFor: string | null, isTrusted: (address: Address) => boolean): string {
  let client = near;
  for (const hop of (forwardedFor ?? "").split(",").reverse()) {
    const address = addressOf(hop.trim());
    if (address === undefined) break;
    client = address;
    if (!isTrusted(address)) break;
  }
  return client.toString();
}

/** An address with or without port; IPv4 inside IPv6 as IPv4. */
function addressOf(text: string): Address | undefined {
  const bare = /^\[([^\]]+)\](?::\d+)?$/.exec(text)?.[1] ?? /^([\d.]+):\d+$/.exec(text)?.[1] ?? text;
  return ipaddr.isValid(bare) ? ipaddr.process(bare) : undefined;
}

function rangeOf(text: string): [Address, number] {
  if (text.includes("/")) return ipaddr.parseCIDR(text);
  const address = ipaddr.process(text);
  return [address, address.kind() === "ipv4" ? 32 : 128];
}
