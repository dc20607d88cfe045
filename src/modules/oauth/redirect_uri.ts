// Where a browser may be sent with an authorization code.

export const REDIRECT_URI_MAX_CHARS = 300;
const LOOPBACK_HOSTS: ReadonlySet<string> = new Set(["127.0.0.1", "[::1]", "localhost"]);
/** Schemes of desktop applications without a dot. All others are refused: a browser would run some of them as a script. */
const APPLICATION_SCHEMES: ReadonlySet<string> = new Set([
  "claude:",
  "cursor:",
  "vscode:",
  "vscode-insiders:",
  "windsurf:",
]);

/**
 * Whether the text is an address to which codes may be sent: https, http on the machine of the user, or the private scheme of an
 * application, which has a dot (RFC 8252) or is well known.
 */
export function isRedirectUri(text: string): boolean {
  if (text.length > REDIRECT_URI_MAX_CHARS || !URL.canParse(text)) return false;
  const { protocol, hostname, hash, username, password } = new URL(text);
  if (hash !== "" || text.endsWith("#") || username !== "" || password !== "") return false;
  if (protocol === "https:") return true;
  if (protocol === "http:") return LOOPBACK_HOSTS.has(hostname);
  return protocol.includes(".") || APPLICATION_SCHEMES.has(protocol);
}

/** Whether it is one of the registered ones: exactly, except for the port of a loopback address (RFC 8252). */
export function matchesRedirectUri(given: string, registered: readonly string[]): boolean {
  return registered.some((one) => one === given || isLoopbackTwin(one, given));
}

/** Where a redirect leads, for people: a host, or the scheme of an application. */
export function redirectHost(uri: string): string {
  const { protocol, host } = new URL(uri);
  return protocol === "https:" || protocol === "http:" ? host : protocol;
}

function isLoopbackTwin(registered: string, given: string): boolean {
  if (!isRedirectUri(registered) || !isRedirectUri(given)) return false;
  const [one, other] = [new URL(registered), new URL(given)];
  if (one.protocol !== "http:" || other.protocol !== "http:" || one.hostname !== other.hostname) return false;
  return one.pathname === other.pathname && one.search === other.search;
}
