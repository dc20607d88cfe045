// Which addresses outbound calls may reach: public ones, and those that the operator or the caller allows.
import ipaddr from "ipaddr.js";
import { hostOf, OutboundError } from "@/ports/outbound.ts";
import { HostList } from "./host_list.ts";

/** Addresses of one name that are tried, one after the other. */
const ADDRESSES_MAX = 4;
const GLOBAL_UNICAST = ipaddr.parseCIDR("2000::/3");
const LOOPBACK = ["127.0.0.1", "::1"];
/** Names that public DNS never has, and those without a dot, which a search domain completes. */
const PRIVATE_NAME = /(?:^|\.)(?:localhost|local|internal|home\.arpa)$|^[^.]*$/;
const LOOPBACK_NAME = /(?:^|\.)localhost$/;

/** All addresses of a name. */
export type Resolve = (name: string) => Promise<readonly string[]>;

export class AddressPolicy {
  readonly #general: HostList;
  readonly #resolve: Resolve;

  /** `allow`: private services that everybody may call. */
  constructor(allow: readonly string[], resolve: Resolve) {
    this.#general = new HostList(allow);
    this.#resolve = resolve;
  }

  /**
   * Throws unless the URL may be called; `own` are private services that the caller allows. The addresses of a name are not known
   * yet, except that some are always private.
   */
  assertUrl(input: string | URL, own: readonly string[]): void {
    const url = URL.parse(input);
    if (url === null) throw new OutboundError("address_not_allowed", "Expected an absolute URL");
    if (url.username !== "" || url.password !== "") {
      throw new OutboundError("address_not_allowed", "Expected a URL without a user name and password");
    }
    const host = hostOf(url);
    const named = this.#isNamed(host, own);
    const isLiteral = ipaddr.isValid(host);
    if (isLiteral && !named) this.#assertAddresses([host], own);
    if (!isLiteral && !named) this.#assertName(host, own);
    if (url.protocol === "https:") return;
    const isAllowedHost = named || isLiteral && this.#isListed(host, own);
    if (url.protocol !== "http:" || !isAllowedHost) {
      throw new OutboundError(
        "scheme_not_allowed",
        "Expected a URL that starts with https://; http:// only for hosts that the operator of the gateway allows, in SVC_OUTBOUND_ALLOW",
      );
    }
  }

  /** The addresses of a host, all of them allowed; `limit` bounds the time of finding them. */
  async find(
    host: string,
    own: readonly string[],
    limit: { signal: AbortSignal; ms: number },
  ): Promise<readonly string[]> {
    if (ipaddr.isValid(host)) return [host];
    const addresses = await abortable(this.#resolve(host), limit).catch((cause) => {
      if (cause instanceof OutboundError || limit.signal.aborted) throw cause;
      throw new OutboundError("name_not_resolved", "The host name was not found", { cause });
    });
    if (addresses.length === 0) throw new OutboundError("name_not_resolved", "The host name has no address");
    if (!this.#isNamed(host, own)) this.#assertAddresses(addresses, own);
    return addresses.slice(0, ADDRESSES_MAX);
  }

  #isNamed(host: string, own: readonly string[]): boolean {
    return this.#general.hasName(host) || new HostList(own).hasName(host);
  }

  #isListed(address: string, own: readonly string[]): boolean {
    return this.#general.hasAddress(address) || new HostList(own).hasAddress(address);
  }

  #assertName(host: string, own: readonly string[]): void {
    if (!PRIVATE_NAME.test(host)) return;
    const isPossible = LOOPBACK_NAME.test(host)
      ? LOOPBACK.some((address) => this.#isListed(address, own))
      : this.#general.hasNetworks || new HostList(own).hasNetworks;
    if (!isPossible) throw notPublic();
  }

  /** All must be allowed: a name with a public and a private address is an attack or a mistake. */
  #assertAddresses(addresses: readonly string[], own: readonly string[]): void {
    if (addresses.every((address) => isPublic(address) || this.#isListed(address, own))) return;
    throw notPublic();
  }
}

function notPublic(): OutboundError {
  return new OutboundError(
    "address_not_allowed",
    "The address is not public; the operator of the gateway can allow its host, in SVC_OUTBOUND_ALLOW",
  );
}

/** What `work` resolves to, unless the signal aborts or it takes too long. */
async function abortable<Result>(
  work: Promise<Result>,
  { signal, ms }: { signal: AbortSignal; ms: number },
): Promise<Result> {
  const { promise, reject } = Promise.withResolvers<never>();
  const abort = (): void => reject(signal.reason);
  const timer = setTimeout(
    () => reject(new OutboundError("timed_out", `The host name was not found within ${ms} ms`)),
    ms,
  );
  signal.addEventListener("abort", abort, { once: true });
  try {
    signal.throwIfAborted();
    return await Promise.race([work, promise]);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", abort);
  }
}

/** Whether this is a public unicast address. One of IPv4 that is written as IPv6 counts as what it is. */
function isPublic(text: string): boolean {
  if (!ipaddr.isValid(text)) return false;
  const address = ipaddr.process(text);
  // Beyond this network there are only special ones, and the list of those is not the same everywhere.
  return address.range() === "unicast" && (address.kind() === "ipv4" || address.match(GLOBAL_UNICAST));
}
