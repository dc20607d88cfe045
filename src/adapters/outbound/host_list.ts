// A list of hosts of private services that an operator allows: names, addresses and networks.
import ipaddr from "ipaddr.js";

const NAME = /^(?=.{1,253}$)[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?)*$/i;

type Network = [ipaddr.IPv4 | ipaddr.IPv6, number];

export class HostList {
  readonly #names = new Set<string>();
  readonly #networks: Network[] = [];

  constructor(hosts: readonly string[]) {
    for (const host of hosts) {
      const network = parseNetwork(host);
      if (network === undefined) this.#names.add(host.toLowerCase());
      else this.#networks.push(network);
    }
  }

  /** Whether addresses are allowed, which any name may have. */
  get hasNetworks(): boolean {
    return this.#networks.length > 0;
  }

  hasName(name: string): boolean {
    return this.#names.has(name);
  }

  hasAddress(text: string): boolean {
    if (this.#networks.length === 0 || !ipaddr.isValid(text)) return false;
    const address = ipaddr.process(text);
    return this.#networks.some((network) => address.kind() === network[0].kind() && address.match(network));
  }
}

/** Whether this is a name, an address or a network. */
export function isHost(text: string): boolean {
  // What looks like an address and is none would never match.
  return /^[\d./:]+$/.test(text) || text.includes(":") ? parseNetwork(text) !== undefined : NAME.test(text);
}

function parseNetwork(text: string): Network | undefined {
  const { IPv4, IPv6 } = ipaddr;
  if (IPv4.isValidCIDRFourPartDecimal(text) || IPv6.isValidCIDR(text)) return ipaddr.parseCIDR(text);
  if (!IPv4.isValidFourPartDecimal(text) && !IPv6.isValid(text)) return undefined;
  const address = ipaddr.process(text);
  return [address, address.kind() === "ipv4" ? 32 : 128];
}
