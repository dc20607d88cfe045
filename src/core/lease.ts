// Leases: work that one node has until a time, and renews meanwhile.

/** The leases of one kind of work, for the host: what a node had that stopped, others get soon after. */
export type Leases = {
  /** Who holds leases now, by the names that `leaseOwner` gives. */
  owners(): Promise<string[]>;
  /** Ends the leases of these owners, so that any node may claim their work; resolves to how many there were. */
  expire(owners: readonly string[]): Promise<number>;
};

/** The owner of a lease as stored: the node, if there may be others, and a name of this claim. */
export function leaseOwner(nodeId: string | undefined, claim: string): string {
  return nodeId === undefined ? claim : `${nodeId}:${claim}`;
}

/** The node of an owner. */
export function nodeOf(owner: string): string | undefined {
  const end = owner.indexOf(":");
  return end === -1 ? undefined : owner.slice(0, end);
}
