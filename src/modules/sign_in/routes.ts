// Signing in at the identity provider: one address sends a browser there, the next receives it, and the last ends what it began.
// All redirect, also when something fails: the page that follows says what.
import type { Clock } from "@/core/time/clock.ts";
import { Cookie, COOKIE_MAX_CHARS } from "@/core/http/cookie.ts";
import type { Encryptor } from "@/core/crypto.ts";
import { Fault, type FaultCode, notFound } from "@/core/fault.ts";
import { failureOf, logOf } from "@/core/log.ts";
import { publicAddressOf } from "@/core/http/public_address.ts";
import type { Route, RouteCall } from "@/core/http/route.ts";
import { Slots } from "@/core/limit/slots.ts";
import { SIGN_IN_COOKIE, SIGN_IN_RATE, SIGN_IN_SECONDS, type SignInCode } from "@/modules/invitation/mod.ts";
import type { Attempt, IdentityProvider } from "./provider.ts";

const PATH = "/v1/collaboration/auth";
const CALLBACK = `${PATH}/callback`;
const QUERY_MAX_CHARS = 8192;
/** Exchanges with the provider: so many at once, and so many that run or wait, each of all addresses and of one. */
const EXCHANGES = {
  total: 16,
  perKey: [4],
  places: { total: 1000, perKey: [100], full: () => new Fault("unavailable", "Too many people are signing in") },
};
/** The ID token of the session at the provider, which no other site can end. */
const SESSION_COOKIE = new Cookie({ name: "svc_signed_in", path: PATH, sameSite: "Strict" });
/** What the page says of a failure. Names only: a text in an address could be anybody's. */
const REASONS: Partial<Record<FaultCode, string>> = {
  forbidden: "denied",
  token_revoked: "disabled",
  token_expired: "expired",
  unavailable: "unavailable",
};

type Deps = {
  provider: (() => Promise<IdentityProvider>) | undefined;
  encryptor: Encryptor;
  clock: Clock;
  publicUrl: string | undefined;
  /** A code that starts the session of the person with these claims. */
  createCode(claims: Readonly<Record<string, unknown>>): Promise<SignInCode>;
};
type SealedAttempt = Attempt & { expiresAt: number };
/** Where a browser is sent, and the cookies that it gets. */
type Departure = { location: string; cookies?: readonly string[] };
type Next = (provider: IdentityProvider, base: string) => Promise<Departure>;

const log = logOf("identity");

export function signInRoutes(deps: Deps): Route[] {
  const exchanges = new Slots(EXCHANGES);
  const shared = {
    tag: "auth",
    method: "GET",
    auth: "public",
    rate: SIGN_IN_RATE,
    faults: ["not_found", "rate_limited"],
  } as const;
  return [
    {
      ...shared,
      name: "sign_in.start",
      summary: "Sign in to the browser client at the identity provider",
      description: "For browsers: open it as a page. Not found without a provider (`SVC_OIDC_ISSUER`).",
      path: `${PATH}/sign-in`,
      document: { responses: { "302": { description: "To the identity provider" } } },
      handle: (request: Request) =>
        sendOn(deps, request, async (provider, base) => {
          const { address, attempt } = await provider.begin(`${base}${CALLBACK}`);
          const expiresAt = deps.clock.now() + SIGN_IN_SECONDS * 1000;
          const sealed = seal(deps, SIGN_IN_COOKIE, JSON.stringify({ ...attempt, expiresAt }));
          return { location: address, cookies: [SIGN_IN_COOKIE.store(sealed, base)] };
        }),
    },
    {
      ...shared,
      name: "sign_in.finish",
      summary: "Return from the identity provider",
      description:
        "The provider sends browsers here. The page that follows exchanges a code for a token, with the cookie.",
      path: CALLBACK,
      document: {
        responses: { "302": { description: "To the browser client, with a code or the reason of a failure" } },
      },
      handle: (request: Request, { addressKey }: RouteCall) =>
        sendOn(deps, request, async (provider, base) => {
          const { search } = new URL(request.url);
          const attempt = readAttempt(deps, request, search);
          using _slot = await exchanges.acquire([addressKey]);
          const { claims, idToken } = await provider.finish(new URL(`${base}${CALLBACK}${search}`), attempt);
          const { code, cookie } = await deps.createCode(claims);
          const sealed = seal(deps, SESSION_COOKIE, idToken);
          const cookies = [SIGN_IN_COOKIE.store(cookie, base), SESSION_COOKIE.store(sealed, base)];
          return { location: `${base}/#code=${code}`, cookies };
        }),
    },
    {
      ...shared,
      name: "sign_in.end",
      summary: "Sign out at the identity provider, if the browser was signed in there",
      description:
        "For browsers, after `POST /v1/collaboration/auth/logout`. The provider sends them back to the page.",
      path: `${PATH}/sign-out`,
      document: { responses: { "302": { description: "To the identity provider, or to the browser client" } } },
      handle: (request: Request) =>
        sendOn(deps, request, async (provider, base) => {
          const idToken = unseal(deps, SESSION_COOKIE, request);
          const location = idToken === undefined ? undefined : await provider.end(idToken, `${base}/`);
          // A link of another site has no cookie with it, and ends none: signing out later would leave the session at the provider.
          const isSent = SESSION_COOKIE.read(request) !== undefined;
          return { location: location ?? `${base}/`, cookies: isSent ? [SESSION_COOKIE.remove(base)] : [] };
        }),
    },
  ];
}

/** Redirects where `next` says, or to the page with the reason of a failure, which ends the attempt. */
async function sendOn({ provider, publicUrl }: Deps, request: Request, next: Next): Promise<Response> {
  const base = publicAddressOf(request, publicUrl);
  if (provider === undefined || base === undefined) {
    throw notFound("identity provider to sign in at: SVC_OIDC_ISSUER and SVC_PUBLIC_URL name it and the way back");
  }
  let departure: Departure;
  try {
    departure = await next(await provider(), base);
  } catch (thrown) {
    const fault = Fault.from(thrown);
    log.warn("signing in at the identity provider failed", { reason: fault.message, ...failureOf(thrown) });
    departure = {
      location: `${base}/#failed=${REASONS[fault.code] ?? "refused"}`,
      cookies: [SIGN_IN_COOKIE.remove(base)],
    };
  }
  const { location, cookies = [] } = departure;
  const headers = new Headers({ Location: location });
  for (const cookie of cookies) headers.append("Set-Cookie", cookie);
  return new Response(null, { status: 302, headers });
}

/** The text as a cookie that only the gateway reads; of one that is too long, only that there is one. */
function seal({ encryptor }: Deps, { name }: Cookie, text: string): string {
  const sealed = encryptor.encrypt(text, name);
  return sealed.length > COOKIE_MAX_CHARS ? encryptor.encrypt("", name) : sealed;
}

function unseal({ encryptor }: Deps, cookie: Cookie, request: Request): string | undefined {
  return encryptor.decrypt(cookie.read(request) ?? "", cookie.name);
}

/** The attempt that this browser began; a link to the callback alone signs nobody in. */
function readAttempt(deps: Deps, request: Request, search: string): Attempt {
  const text = unseal(deps, SIGN_IN_COOKIE, request);
  const attempt: SealedAttempt | undefined = text === undefined ? undefined : JSON.parse(text);
  const state = new URLSearchParams(search).get("state");
  if (
    attempt === undefined || attempt.expiresAt <= deps.clock.now() || search.length > QUERY_MAX_CHARS ||
    state !== attempt.state
  ) {
    throw new Fault("token_expired", "The attempt to sign in is not the latest of this browser, or took too long");
  }
  return attempt;
}
