// Helpers of the tests of refresh tokens.
import type { ApiResponse, Harness } from "../../harness.ts";
import { ok } from "../fixtures.ts";

export const TOKENS = "/v1/collaboration/tokens";
export const REFRESH = "/v1/collaboration/auth/refresh";
export const ME = "/v1/collaboration/me";
export const SECOND = 1000;
export const DAY = 86_400_000;

export type TokenPair = { accessToken: string; refreshToken: string; expiresAt: string; refreshExpiresAt: string };

/** A family of tokens as its client holds it. */
export class TokenFamily {
  readonly id: string;
  readonly initial: TokenPair;
  readonly #gateway: Harness;
  readonly #sub: string;

  private constructor(gateway: Harness, sub: string, body: ApiResponse["body"]) {
    this.#gateway = gateway;
    this.#sub = sub;
    this.id = body.id;
    this.initial = { ...body, accessToken: body.token };
  }

  /** Logs `sub` in. */
  static async logIn(gateway: Harness, sub = "alice", more: Record<string, unknown> = {}): Promise<TokenFamily> {
    const caller = await gateway.as(sub);
    const draft = { name: "browser", scopes: ["*"], refreshable: true, ...more };
    return new TokenFamily(gateway, sub, ok(await caller.post(TOKENS, draft)));
  }

  /** What becomes of a refresh token. */
  refresh(refreshToken: string): Promise<ApiResponse> {
    return postRefresh(this.#gateway, refreshToken);
  }

  /** The same family on another gateway. */
  onGateway(gateway: Harness): TokenFamily {
    return new TokenFamily(gateway, this.#sub, { ...this.initial, id: this.id, token: this.initial.accessToken });
  }

  /** Logs out where the family is still there, so that the next has room. */
  async logOut(): Promise<void> {
    const { status } = await (await this.#gateway.as(this.#sub)).delete(`${TOKENS}/${this.id}`);
    if (status !== 204 && status !== 404) throw new Error(`ending a family answered ${status}`);
  }

  /** The next pair; throws unless there is one. */
  async rotate(pair: TokenPair = this.initial): Promise<TokenPair> {
    return ok(await this.refresh(pair.refreshToken));
  }

  /** What the gateway says to an access token. */
  async accessOutcome({ accessToken }: Pick<TokenPair, "accessToken">): Promise<string> {
    return outcomeOf(await this.#gateway.withToken(accessToken).get(ME));
  }
}

/** Status and code of a response. */
export function outcomeOf({ status, body }: ApiResponse): string {
  return status < 300 ? String(status) : `${status} ${body.code}`;
}

/** Uses anything as a refresh token. */
export function postRefresh(gateway: Harness, refreshToken: unknown): Promise<ApiResponse> {
  return gateway.withToken(undefined).post(REFRESH, { refreshToken });
}
