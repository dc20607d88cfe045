// Who may open a socket at all: counts per address and for the node, kept until the socket itself is gone.
import type { MayActIn } from "../http/origin.ts";
import { limitKeyOf } from "../http/client.ts";
import type { ConnectionMeta } from "./connection.ts";
import type { WsLimits } from "./limits.ts";

type Counts = { open: number; unauthenticated: number };

/** `unheard`: refused before the upgrade, where no client shows why. `told`: accepted only to be told that it is one too many. */
export type Refusal = "unheard" | "told";

/** Sockets over a cap that may exist for as long as it takes to tell them. */
const REFUSED_MAX = 64;

/** Counts sockets, also those that were closed and linger: they hold memory. */
export class Admission {
  readonly #limits: WsLimits;
  readonly #addresses = new Map<string, Counts>();
  #open = 0;
  #refused = 0;

  constructor(limits: WsLimits) {
    this.#limits = limits;
  }

  /** A ticket for a socket from `ip`, or why there is none. */
  admit(ip: string): Ticket | Refusal {
    const { unauthenticatedPerAddress, connectionsPerAddress, connectionsPerNode } = this.#limits;
    const key = limitKeyOf(ip);
    const counts = this.#addresses.get(key) ?? { open: 0, unauthenticated: 0 };
    if (counts.unauthenticated >= (unauthenticatedPerAddress ?? Infinity)) return "unheard";
    if (counts.open >= (connectionsPerAddress ?? Infinity) || this.#open >= (connectionsPerNode ?? Infinity)) {
      return this.#refused < REFUSED_MAX ? "told" : "unheard";
    }
    this.#addresses.set(key, counts);
    counts.open++;
    counts.unauthenticated++;
    this.#open++;
    return new Ticket(ip, counts, () => {
      this.#open--;
      if (counts.open === 0 && this.#addresses.get(key) === counts) this.#addresses.delete(key);
    });
  }

  /** Counts a socket that exists only to be told no; call the result when it is gone. */
  refuse(): () => void {
    this.#refused++;
    let isGone = false;
    return () => {
      if (!isGone) this.#refused--;
      isGone = true;
    };
  }
}

/** One admitted socket; also what the hub is told of it. */
export class Ticket implements ConnectionMeta {
  readonly ip: string;
  legacyToken?: string;
  userAgent?: string;
  mayActIn?: MayActIn;
  readonly #counts: Counts;
  readonly #onGone: () => void;
  #isUnauthenticated = true;
  #isGone = false;

  constructor(ip: string, counts: Counts, onGone: () => void) {
    this.ip = ip;
    this.#counts = counts;
    this.#onGone = onGone;
  }

  onAuthenticated(): void {
    if (this.#isUnauthenticated) this.#counts.unauthenticated--;
    this.#isUnauthenticated = false;
    delete this.legacyToken;
  }

  /** The socket is gone; may be called twice. */
  gone(): void {
    if (this.#isGone) return;
    this.#isGone = true;
    this.onAuthenticated();
    this.#counts.open--;
    this.#onGone();
  }
}
