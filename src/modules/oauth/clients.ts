// Applications that ask for an authorization. The gateway stores none of them: a registration is sealed within the client id that
// it returns, and a client id that is an address names a document that is fetched (Client ID Metadata Documents).
import { z } from "@zod/zod";
import { type Clock, MINUTE_MS } from "@/core/time/clock.ts";
import type { Encryptor } from "@/core/crypto.ts";
import { INPUT_ERRORS } from "@/core/input/input_error.ts";
import { LruMap } from "@/core/lru_map.ts";
import { Slots } from "@/core/limit/slots.ts";
import { isDeeperThan } from "@/core/text/text.ts";
import { type Outbound, OutboundError } from "@/ports/outbound.ts";
import { OauthError } from "./error.ts";
import { isRedirectUri, REDIRECT_URI_MAX_CHARS, redirectHost } from "./redirect_uri.ts";

type Client = {
  name: string;
  /** Host that publishes the client's metadata; null where it registered itself, so that its name is only its own claim. */
  host: string | null;
  redirectUris: readonly string[];
};

const PREFIX = "dcr_";
const CONTEXT = "client";
const NAME_MAX_CHARS = 80;
const REDIRECT_URIS_MAX = 10;
const SEALED_MAX_CHARS = 2000;
export const CLIENT_ID_MAX_CHARS = 3000;
const CLIENT_URL_MAX_CHARS = 300;
const DOCUMENT_MAX_BYTES = 10 * 1024;
const DOCUMENT_DEPTH_MAX = 5;
const FETCH_MS = 5000;
const CACHED_MAX = 200;
const CACHE_MS = 10 * MINUTE_MS;
/** A document that cannot be fetched is not asked for again at once. */
const FAILURE_CACHE_MS = 30_000;
/** At once, in all and of one address: a stranger, whose documents may take as long as they like, leaves the others theirs. */
const FETCHES = { total: 32, perKey: [2] };

/** What is read of a registration and of a document; both may have much more. */
const Metadata = z.looseObject({
  client_name: z.string().max(1000).optional(),
  redirect_uris: z.array(z.string().max(REDIRECT_URI_MAX_CHARS)).min(1).max(REDIRECT_URIS_MAX),
});
const Sealed = z.strictObject({ name: z.string(), redirectUris: z.array(z.string()) });

type Deps = { encryptor: Encryptor; outbound: Outbound; clock: Clock };
type Cached = { client: Promise<Client>; until: number };

export class Clients {
  readonly #deps: Deps;
  readonly #documents = new LruMap<string, Cached>(CACHED_MAX);
  /** Fetches of client documents in progress, by address. */
  readonly #slots = new Slots({
    places: {
      ...FETCHES,
      full: () => new OauthError("invalid_client", "Too many metadata documents are being fetched; retry later"),
    },
  });

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Registers a client: returns its id, which contains all that is known of it. */
  register(metadata: unknown): { clientId: string; client: Client } {
    const client = clientOf(metadata, null);
    const sealed = JSON.stringify({ name: client.name, redirectUris: client.redirectUris });
    if (sealed.length > SEALED_MAX_CHARS) {
      throw new OauthError("invalid_client_metadata", "Expected fewer or shorter redirect_uris");
    }
    return { clientId: PREFIX + this.#deps.encryptor.encrypt(sealed, CONTEXT), client };
  }

  /** The client of an id, for a caller at an address; throws `invalid_client`. */
  async require(clientId: string, addressKey: string): Promise<Client> {
    if (clientId.length > CLIENT_ID_MAX_CHARS) throw new OauthError("invalid_client", "The client_id is too long");
    if (clientId.startsWith("https://")) return await this.#fetched(clientId, addressKey);
    const text = clientId.startsWith(PREFIX)
      ? this.#deps.encryptor.decrypt(clientId.slice(PREFIX.length), CONTEXT)
      : undefined;
    if (text === undefined) throw new OauthError("invalid_client", "The client is not registered");
    return { ...Sealed.parse(JSON.parse(text)), host: null };
  }

  async #fetched(url: string, addressKey: string): Promise<Client> {
    assertDocumentUrl(url);
    const now = this.#deps.clock.now();
    const cached = this.#documents.get(url);
    if (cached !== undefined && cached.until > now) return await cached.client;
    // Before it is stored as a failure of the document.
    this.#slots.assertPlace([addressKey]);
    const client = this.#fetch(url, addressKey);
    this.#documents.set(url, { client, until: now + CACHE_MS });
    try {
      return await client;
    } catch (thrown) {
      this.#documents.set(url, { client, until: now + FAILURE_CACHE_MS });
      throw thrown;
    }
  }

  async #fetch(url: string, addressKey: string): Promise<Client> {
    using _slot = await this.#slots.acquire([addressKey]);
    const options = { totalMs: FETCH_MS, bodyMaxBytes: DOCUMENT_MAX_BYTES };
    let text: string;
    try {
      const response = await this.#deps.outbound(url, { headers: { Accept: "application/json" } }, options);
      text = await response.text();
      if (response.status !== 200) throw new OauthError("invalid_client", "The metadata document is not available");
    } catch (thrown) {
      if (!(thrown instanceof OutboundError)) throw thrown;
      throw new OauthError("invalid_client", `The metadata document cannot be fetched: ${thrown.code}`);
    }
    const metadata = parseDocument(text);
    // Otherwise anybody's document could be another application's.
    if (metadata.client_id !== url) {
      throw new OauthError("invalid_client", "The metadata document has another client_id");
    }
    return clientOf(metadata, new URL(url).host);
  }
}

function parseDocument(text: string): Record<string, unknown> {
  try {
    if (isDeeperThan(text, DOCUMENT_DEPTH_MAX)) throw new SyntaxError("nested too deep");
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null) return value as Record<string, unknown>;
  } catch {
    // Below.
  }
  throw new OauthError("invalid_client", "The metadata document is not a JSON object");
}

function clientOf(metadata: unknown, host: string | null): Client {
  const parsed = Metadata.safeParse(metadata, INPUT_ERRORS);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    throw new OauthError("invalid_client_metadata", `${issue?.path.join(".") ?? "metadata"}: ${issue?.message}`);
  }
  const { client_name, redirect_uris } = parsed.data;
  const wrong = redirect_uris.find((uri) => !isRedirectUri(uri));
  if (wrong !== undefined) {
    const expected = "Expected redirect_uris with https, http on a loopback address, or an application's own scheme";
    throw new OauthError("invalid_redirect_uri", expected);
  }
  const name = client_name?.slice(0, NAME_MAX_CHARS).replaceAll(/[\p{C}\p{Z}]/gu, " ").trim();
  return { name: name || host || redirectHost(redirect_uris[0] ?? ""), host, redirectUris: redirect_uris };
}

/** Throws unless it is an address by which a client may identify itself: one spelling, a path, no credentials. */
function assertDocumentUrl(text: string): void {
  const isValid = text.length <= CLIENT_URL_MAX_CHARS && URL.canParse(text);
  const { href, pathname, hash, username, password } = isValid ? new URL(text) : { href: "" } as URL;
  if (href === text && pathname !== "/" && hash === "" && username === "" && password === "") return;
  throw new OauthError("invalid_client", "The client_id is not a valid address of a metadata document");
}
