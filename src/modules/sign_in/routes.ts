// The two addresses of signing in at the identity provider: one sends a browser there, the other receives it. Both redirect, also
// when something fails: the page that follows says what.
import type { Clock } from "@/core/clock.ts";
import type { Encryptor } from "@/core/crypto.ts";
import { Fault, type FaultCode, notFound } from "@/core/fault.ts";
import { failureOf, logOf } from "@/core/log.ts";
import { publicAddressOf } from "@/core/public_address.ts";
import type { Route, RouteCall } from "@/core/route.ts";
import { Slots } from "@/core/slots.ts";
import { readSignInCookie, SIGN_IN_RATE, type SignInCode, signInCookie } from "@/modules/invitation/mod.ts";
import type { Attempt, IdentityProvider } from "./provider.ts";

const PATH = "/v1/collaboration/auth";
const CALLBACK = `${PATH}/callback`;
/** How long a person may take at the provider. */
const ATTEMPT_SECONDS = 600;
const QUERY_MAX_CHARS = 8192;
/** Exchanges with the provider: so many at once, and so many that run or wait, each of all addresses and of one. */
const EXCHANGES = {
  total: 16,
  perKey: [4],
  places: { total: 1000, perKey: [100], full: () => new Fault("unavailable", "Too many people are signing in") },
};
/** What attempts are encrypted for. */
const ATTEMPT = "svc_sign_in";
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
          const expiresAt = deps.clock.now() + ATTEMPT_SECONDS * 1000;
          const sealed = deps.encryptor.encrypt(JSON.stringify({ ...attempt, expiresAt }), ATTEMPT);
          return { location: address, cookie: sealed };
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
          const claims = await provider.finish(new URL(`${base}${CALLBACK}${search}`), attempt);
          const { code, cookie } = await deps.createCode(claims);
          return { location: `${base}/#code=${code}`, cookie };
        }),
    },
  ];
}

/** Redirects where `next` says, or to the page with the reason of a failure. A cookie that is not set is removed. */
async function sendOn(
  { provider, publicUrl }: Deps,
  request: Request,
  next: (provider: IdentityProvider, base: string) => Promise<{ location: string; cookie: string }>,
): Promise<Response> {
  const base = publicAddressOf(request, publicUrl);
  if (provider === undefined || base === undefined) {
    throw notFound("identity provider to sign in at: SVC_OIDC_ISSUER and SVC_PUBLIC_URL name it and the way back");
  }
  let location: string;
  let cookie: string | undefined;
  try {
    ({ location, cookie } = await next(await provider(), base));
  } catch (thrown) {
    const fault = Fault.from(thrown);
    log.warn("signing in at the identity provider failed", { reason: fault.message, ...failureOf(thrown) });
    location = `${base}/#failed=${REASONS[fault.code] ?? "refused"}`;
  }
  const { protocol, pathname } = new URL(base);
  const attributes = [
    signInCookie(cookie ?? ""),
    `Path=${pathname === "/" ? "" : pathname}${PATH}`,
    `Max-Age=${cookie === undefined ? 0 : ATTEMPT_SECONDS}`,
    "HttpOnly",
    // The provider's redirect is a navigation from another site.
    "SameSite=Lax",
    ...protocol === "https:" ? ["Secure"] : [],
  ];
  return new Response(null, { status: 302, headers: { Location: location, "Set-Cookie": attributes.join("; ") } });
}

/** The attempt that this browser began; a link to the callback alone signs nobody in. */
function readAttempt({ encryptor, clock }: Deps, request: Request, search: string): Attempt {
  const text = encryptor.decrypt(readSignInCookie(request) ?? "", ATTEMPT);
  const attempt: SealedAttempt | undefined = text === undefined ? undefined : JSON.parse(text);
  const state = new URLSearchParams(search).get("state");
  if (
    attempt === undefined || attempt.expiresAt <= clock.now() || search.length > QUERY_MAX_CHARS ||
    state !== attempt.state
  ) {
    throw new Fault("token_expired", "The attempt to sign in is not the latest of this browser, or took too long");
  }
  return attempt;
}
