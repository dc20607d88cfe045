// An identity provider of the tests: OpenID Connect with one person, who agrees at once to everything.
import { createHash } from "node:crypto";
import { exportJWK, generateKeyPair, SignJWT } from "jose";

const keys = { published: await generateKeyPair("RS256"), other: await generateKeyPair("RS256") };
const jwks = { keys: [{ ...await exportJWK(keys.published.publicKey), kid: "k1", alg: "RS256", use: "sig" }] };

type Issued = { challenge: string; nonce: string; redirectUri: string };

export class FakeProvider {
  readonly clientId = "gateway";
  readonly #server: Deno.HttpServer<Deno.NetAddr>;
  /** Codes that were not exchanged yet. */
  readonly #codes = new Map<string, Issued>();
  readonly #accessTokens = new Set<string>();
  /** Every secret that was sent to or from it. */
  readonly secrets = new Set<string>();
  /** What clients have to send; empty: nothing but the verifier. */
  clientSecret = "the secret of the gateway";
  person: Record<string, unknown> = { sub: "ada", name: "Ada" };
  userInfo: Record<string, unknown> = {};
  /** How often a code was exchanged, or somebody tried to. */
  exchanges = 0;
  /** The error that it sends back instead of a code. */
  deny = "";
  /** Claims of the ID token that differ from what they should be. */
  claims: Record<string, unknown> = {};
  signsWithAnotherKey = false;
  tokenStatus = 200;
  discoveryStatus = 200;
  /** Whether people can sign out at it. */
  endsSessions = true;
  /** How often somebody did. */
  ended = 0;
  /** What codes are exchanged after. */
  held: Promise<void> = Promise.resolve();

  constructor() {
    this.#server = Deno.serve(
      { hostname: "127.0.0.1", port: 0, onListen() {} },
      async (request) => Response.json(...await this.#answer(request)),
    );
  }

  get issuer(): string {
    return `http://127.0.0.1:${this.#server.addr.port}/realms/team`;
  }

  /** As it was opened, but for the person. */
  reset(): void {
    this.clientSecret = "the secret of the gateway";
    this.deny = "";
    this.claims = {};
    this.signsWithAnotherKey = false;
    this.tokenStatus = 200;
    this.discoveryStatus = 200;
    this.endsSessions = true;
  }

  /** What a browser is redirected to that opens this address, once the person has signed in. */
  authorize(address: string): string {
    const { searchParams } = new URL(address);
    const given = (name: string): string => searchParams.get(name) ?? "";
    const back = new URL(given("redirect_uri"));
    back.searchParams.set("state", given("state"));
    if (this.deny === "") {
      const code = `code-${crypto.randomUUID()}`;
      this.#codes.set(code, {
        challenge: given("code_challenge"),
        nonce: given("nonce"),
        redirectUri: given("redirect_uri"),
      });
      this.secrets.add(code);
      back.searchParams.set("code", code);
    } else {
      back.searchParams.set("error", this.deny);
    }
    return back.href;
  }

  async #answer(request: Request): Promise<[unknown, ResponseInit?]> {
    const { pathname, search } = new URL(request.url);
    const path = pathname.replace("/realms/team", "");
    if (path === "/.well-known/openid-configuration") return [this.#configuration(), { status: this.discoveryStatus }];
    if (path === "/keys") return [jwks];
    if (path === "/authorize") {
      return [{}, { status: 302, headers: { location: this.authorize(`${this.issuer}${path}${search}`) } }];
    }
    if (path === "/logout") {
      this.ended++;
      return [{}, {
        status: 302,
        headers: { location: new URLSearchParams(search).get("post_logout_redirect_uri") ?? "" },
      }];
    }
    if (path === "/userinfo") return this.#userInfo(request);
    if (path === "/token") return await this.#exchange(request);
    return [{}, { status: 404 }];
  }

  #configuration(): Record<string, unknown> {
    const { issuer } = this;
    return {
      issuer,
      authorization_endpoint: `${issuer}/authorize`,
      token_endpoint: `${issuer}/token`,
      userinfo_endpoint: `${issuer}/userinfo`,
      ...this.endsSessions ? { end_session_endpoint: `${issuer}/logout` } : {},
      jwks_uri: `${issuer}/keys`,
      response_types_supported: ["code"],
      subject_types_supported: ["public"],
      id_token_signing_alg_values_supported: ["RS256"],
    };
  }

  async #exchange(request: Request): Promise<[unknown, ResponseInit?]> {
    this.exchanges++;
    const form = new URLSearchParams(await request.text());
    await this.held;
    if (this.tokenStatus !== 200) return [{}, { status: this.tokenStatus }];
    const given = (request.headers.get("authorization") ?? "").replace("Basic ", "");
    const [, secret = ""] = atob(given).split(":").map((part) => decodeURIComponent(part.replaceAll("+", " ")));
    if (secret !== this.clientSecret) return [{ error: "invalid_client" }, { status: 401 }];
    const code = form.get("code") ?? "";
    const issued = this.#codes.get(code);
    this.#codes.delete(code);
    const challenge = createHash("sha256").update(form.get("code_verifier") ?? "").digest("base64url");
    if (issued?.challenge !== challenge || issued.redirectUri !== form.get("redirect_uri")) {
      return [{ error: "invalid_grant" }, { status: 400 }];
    }
    const accessToken = crypto.randomUUID();
    this.#accessTokens.add(accessToken);
    const idToken = await this.#idToken(issued.nonce);
    for (const token of [accessToken, idToken, form.get("code_verifier") ?? ""]) this.secrets.add(token);
    return [{ access_token: accessToken, token_type: "Bearer", expires_in: 60, id_token: idToken }];
  }

  #idToken(nonce: string): Promise<string> {
    const now = Math.floor(Date.now() / 1000);
    const claims = { iss: this.issuer, aud: this.clientId, iat: now, exp: now + 60, nonce };
    return new SignJWT({ ...claims, ...this.person, ...this.claims }).setProtectedHeader({ alg: "RS256", kid: "k1" })
      .sign(this.signsWithAnotherKey ? keys.other.privateKey : keys.published.privateKey);
  }

  #userInfo(request: Request): [unknown, ResponseInit?] {
    const token = (request.headers.get("authorization") ?? "").replace("Bearer ", "");
    if (!this.#accessTokens.has(token)) return [{}, { status: 401 }];
    return [{ sub: this.person.sub, ...this.userInfo }];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.shutdown();
  }
}
