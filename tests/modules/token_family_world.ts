// What the tests of refresh tokens say often.
import type { Answer, Harness } from "../harness.ts";
import { ok } from "./team.ts";

export const TOKENS = "/v1/collaboration/tokens";
export const REFRESH = "/v1/collaboration/auth/refresh";
export const ME = "/v1/collaboration/me";
export const SECOND = 1000;
export const DAY = 86_400_000;

export type Pair = { accessToken: string; refreshToken: string; expiresAt: string; refreshExpiresAt: string };

/** A family of tokens as its client holds it. */
export class Family {
  readonly id: string;
  readonly first: Pair;
  readonly #gateway: Harness;
  readonly #sub: string;

  private constructor(gateway: Harness, sub: string, body: Answer["body"]) {
    this.#gateway = gateway;
    this.#sub = sub;
    this.id = body.id;
    this.first = { ...body, accessToken: body.token };
  }

  /** Logs `sub` in. */
  static async of(gateway: Harness, sub = "alice", more: Record<string, unknown> = {}): Promise<Family> {
    const caller = await gateway.as(sub);
    const draft = { name: "browser", scopes: ["*"], refreshable: true, ...more };
    return new Family(gateway, sub, ok(await caller.post(TOKENS, draft)));
  }

  /** What becomes of a refresh token. */
  use(refreshToken: string): Promise<Answer> {
    return refresh(this.#gateway, refreshToken);
  }

  /** The same family, asked of another gateway. */
  on(gateway: Harness): Family {
    return new Family(gateway, this.#sub, { ...this.first, id: this.id, token: this.first.accessToken });
  }

  /** Logs out where the family is still there, so that the next has room. */
  async end(): Promise<void> {
    const { status } = await (await this.#gateway.as(this.#sub)).delete(`${TOKENS}/${this.id}`);
    if (status !== 204 && status !== 404) throw new Error(`ending a family answered ${status}`);
  }

  /** The next pair; throws unless there is one. */
  async next(pair: Pair = this.first): Promise<Pair> {
    return ok(await this.use(pair.refreshToken));
  }

  /** What the gateway says to an access token. */
  async says({ accessToken }: Pick<Pair, "accessToken">): Promise<string> {
    return said(await this.#gateway.withToken(accessToken).get(ME));
  }
}

/** Status and code of an answer. */
export function said({ status, body }: Answer): string {
  return status < 300 ? String(status) : `${status} ${body.code}`;
}

/** Uses anything as a refresh token. */
export function refresh(gateway: Harness, refreshToken: unknown): Promise<Answer> {
  return gateway.withToken(undefined).post(REFRESH, { refreshToken });
}
