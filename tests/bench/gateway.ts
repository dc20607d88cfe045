// The gateway as the subject of a benchmark: a process on a fresh database, with limits off, and calls to set it up.
import { FIRST_CORE, Server } from "./server.ts";
import { benchToken } from "./token.ts";

const MAIN = new URL("../../src/main.ts", import.meta.url).pathname;
export const SECRET = "a secret only for benchmarks, 32 bytes or more";

export class Gateway {
  readonly server: Server;
  readonly token: string;

  private constructor(server: Server, token: string) {
    this.server = server;
    this.token = token;
  }

  /** Starts on a new SQLite file, unless the environment names another database. */
  static async start(environment: Record<string, string> = {}, cores = FIRST_CORE): Promise<Gateway> {
    const folder = await Deno.makeTempDir({ prefix: "gateway-bench-" });
    const server = await Server.start("deno", [MAIN], {
      SVC_DATABASE_URL: `sqlite:${folder}/gateway.db`,
      SVC_DATA_DIR: folder,
      SVC_JWT_SECRET: SECRET,
      SVC_RATE_LIMIT: "off",
      RUST_LOG: "warn",
      ...environment,
    }, cores);
    return new Gateway(server, await benchToken(SECRET, "bench"));
  }

  /** Makes rooms that the bench principal owns; resolves to their ids. */
  async rooms(count: number): Promise<string[]> {
    const ids: string[] = [];
    for (let made = 0; made < count; made++) {
      const room = await this.call("POST", "/v1/rooms", { name: `Bench ${made}` });
      ids.push(room.id);
    }
    return ids;
  }

  // deno-lint-ignore no-explicit-any -- bodies of every shape
  async call(method: string, path: string, body?: unknown, token = this.token): Promise<any> {
    const response = await fetch(`${this.server.url}${path}`, {
      method,
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const answer = await response.json();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${answer.detail}`);
    return answer;
  }
}
