// Cookies of browsers at single addresses. The API takes none: its callers send tokens.

type CookieOptions = {
  name: string;
  /** Below which path of the gateway it is sent. */
  path: string;
  sameSite: "Lax" | "Strict";
  /** How long a browser stores it; default: until it is closed. */
  seconds?: number;
};

/** Browsers drop a cookie with more than 4096 bytes, its attributes included. */
export const COOKIE_MAX_CHARS = 3800;
const SEPARATOR = /; ?/;

export class Cookie {
  readonly name: string;
  readonly #options: CookieOptions;

  constructor(options: CookieOptions) {
    this.name = options.name;
    this.#options = options;
  }

  /** The value that the browser sent. */
  read(request: Request): string | undefined {
    const prefix = `${this.name}=`;
    const cookies = (request.headers.get("Cookie") ?? "").split(SEPARATOR);
    return cookies.find((cookie) => cookie.startsWith(prefix))?.slice(prefix.length);
  }

  /** `Set-Cookie` for a value, of a gateway at this address. */
  store(value: string, base: string): string {
    return this.#header(value, this.#options.seconds, base);
  }

  remove(base: string): string {
    return this.#header("", 0, base);
  }

  #header(value: string, seconds: number | undefined, base: string): string {
    const { path, sameSite } = this.#options;
    const { protocol, pathname } = new URL(base);
    return [
      `${this.name}=${value}`,
      `Path=${pathname === "/" ? "" : pathname}${path}`,
      ...seconds === undefined ? [] : [`Max-Age=${seconds}`],
      "HttpOnly",
      `SameSite=${sameSite}`,
      ...protocol === "https:" ? ["Secure"] : [],
    ].join("; ");
  }
}
