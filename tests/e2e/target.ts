// What the black-box tests run against: the deployment at BASE_URL with the secret in SVC_JWT_SECRET, else a gateway process of
// their own, started the way an operator would.
import { Centrifuge } from "npm:centrifuge@5.8.0";
import { SignJWT } from "jose";
import { WebSocket } from "npm:ws@8.23.0";
import { countSockets } from "../counted_sockets.ts";
import { freePort } from "../free_port.ts";
import { until, WAIT_MS } from "../wait.ts";

const ROOT = new URL("../../", import.meta.url).pathname;
/** Its sources, or the bundle that `run.ts` has made of them. */
const MAIN = Deno.env.get("TEST_GATEWAY") ?? `${ROOT}src/main.ts`;

/** Those of the task that starts a gateway. */
const [V8_FLAGS = ""] = /--v8-flags=\S+/.exec(await Deno.readTextFile(`${ROOT}deno.json`)) ?? [];

type Claims = {
  sub: string;
  tenant?: string;
  role?: string;
  name?: string;
  kind?: string;
  owner?: string;
  jti?: string;
  ttlSeconds?: number;
};

/** A gateway process that can be killed and started again on the same data. */
export class GatewayProcess {
  readonly port: number;
  readonly secret: string;
  readonly #environment: Record<string, string>;
  readonly #wrapper: readonly string[];
  #child: Deno.ChildProcess | undefined;
  #log = "";
  #reading: Promise<unknown> | undefined;

  /** `wrapper` is a command that runs the gateway's own, such as `env`. */
  constructor(port: number, secret: string, environment: Record<string, string>, wrapper: readonly string[] = []) {
    this.port = port;
    this.secret = secret;
    this.#environment = environment;
    this.#wrapper = wrapper;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  get pid(): number {
    if (this.#child === undefined) throw new TypeError("Expected a running gateway, received none");
    return this.#child.pid;
  }

  /** What this run has written to its log so far. */
  get log(): string {
    return this.#log;
  }

  async start(): Promise<void> {
    this.spawn();
    let hasEnded = false;
    void this.waitForExit().then(() => hasEnded = true);
    // Not asked over HTTP: another process may share the port.
    const isListening = (): boolean => this.#log.includes(`"listening"`);
    await until(() => isListening() || hasEnded).catch(() => {});
    if (!isListening()) throw new Error(`the gateway did not start: ${await this.stop("SIGKILL")}`);
  }

  /** Starts the process without waiting for it to serve. */
  spawn(): void {
    const [command = "", ...args] = [
      ...this.#wrapper,
      Deno.execPath(),
      ...["run", "--quiet", "--no-prompt", "--allow-all", V8_FLAGS, `--config=${ROOT}deno.json`, MAIN],
    ];
    const child = new Deno.Command(command, {
      args,
      env: {
        SVC_PORT: String(this.port),
        SVC_HOST: "127.0.0.1",
        SVC_DRAIN_SECONDS: "0",
        SVC_JWT_SECRET: this.secret,
        // What others take of a busy machine is not the caller's.
        SVC_LIMIT_CPU_PERCENT: "100",
        SVC_LIMIT_TENANT_CPU_PERCENT: "100",
        RUST_LOG: "warn,main=info",
        ...this.#environment,
      },
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    this.#child = child;
    this.#log = "";
    this.#reading = Promise.all([this.#readLog(child.stderr), this.#readLog(child.stdout)]);
  }

  /** Resolves when the process has ended by itself or by a signal. */
  async waitForExit(): Promise<Deno.CommandStatus | undefined> {
    const status = await this.#child?.status;
    await this.#reading;
    return status;
  }

  /** Ends the process; resolves to what it wrote to its log. */
  async stop(signal: Deno.Signal = "SIGTERM"): Promise<string> {
    try {
      this.#child?.kill(signal);
    } catch (error) {
      if (!(error instanceof TypeError)) throw error; // It had ended by itself.
    }
    await this.waitForExit();
    this.#child = undefined;
    return this.#log;
  }

  async #readLog(output: ReadableStream<Uint8Array>): Promise<void> {
    const decoder = new TextDecoder();
    for await (const bytes of output) this.#log += decoder.decode(bytes, { stream: true });
  }
}

/** A gateway to test, and clients of it. */
export class Target {
  readonly baseUrl: string;
  readonly secret: string;
  /** Absent when the tests run against a deployment. */
  readonly process: GatewayProcess | undefined;
  readonly #folder: string | undefined;
  readonly #clients: Centrifuge[] = [];
  // Deno's own client waits 40 ms before each message above 1 KiB, for want of TCP_NODELAY.
  readonly #sockets = countSockets(WebSocket);

  constructor(baseUrl: string, secret: string, process?: GatewayProcess, folder?: string) {
    this.baseUrl = baseUrl;
    this.secret = secret;
    this.process = process;
    this.#folder = folder;
  }

  get wsUrl(): string {
    return `${this.baseUrl.replace(/^http/, "ws")}/ws`;
  }

  token({ sub, ttlSeconds = 3600, ...claims }: Claims): Promise<string> {
    const now = Math.floor(Date.now() / 1000);
    return new SignJWT(claims).setProtectedHeader({ alg: "HS256" }).setSubject(sub).setIssuedAt(now)
      .setExpirationTime(now + ttlSeconds).sign(new TextEncoder().encode(this.secret));
  }

  /** Creates a principal, by the first call of its token, which this returns. */
  async createPrincipal(claims: Claims): Promise<string> {
    const token = await this.token(claims);
    await this.call(token, "GET", "/v1/collaboration/me");
    return token;
  }

  /** One HTTP call; throws unless it responds 2xx. */
  // deno-lint-ignore no-explicit-any -- tests look into bodies of every shape
  async call(token: string, method: string, path: string, body?: unknown): Promise<any> {
    const response = await fetch(`${this.baseUrl}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${token}`,
        ...(body === undefined ? {} : { "content-type": "application/json" }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return text === "" ? undefined : JSON.parse(text);
  }

  /** A real client, connected. */
  async connect(token: string | (() => Promise<string>)): Promise<Centrifuge> {
    const client = this.client(typeof token === "string" ? { token } : { getToken: token });
    client.connect();
    await client.ready(WAIT_MS);
    return client;
  }

  client(options: ConstructorParameters<typeof Centrifuge>[1], url = this.wsUrl): Centrifuge {
    const client = new Centrifuge(url, {
      minReconnectDelay: 50,
      maxReconnectDelay: 500,
      timeout: WAIT_MS,
      websocket: this.#sockets.Socket,
      ...options,
    });
    this.#clients.push(client);
    return client;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const client of this.#clients) client.disconnect();
    await this.process?.stop();
    await this.#sockets.untilClosed();
    if (this.#folder !== undefined) await Deno.remove(this.#folder, { recursive: true });
  }
}

/** The deployment to test, or a process of our own. `isOwn` tests kill it, so they never run against a deployment. */
export async function openTarget(
  { isOwn = false, environment = {} }: { isOwn?: boolean; environment?: Record<string, string> } = {},
): Promise<Target> {
  const baseUrl = Deno.env.get("BASE_URL");
  const given = Deno.env.get("SVC_JWT_SECRET");
  if (baseUrl !== undefined && !isOwn) {
    if (given === undefined) throw new Error("BASE_URL needs the gateway's secret in SVC_JWT_SECRET");
    return new Target(baseUrl.replace(/\/$/, ""), given);
  }
  const folder = await Deno.makeTempDir({ prefix: "gateway-e2e-" });
  const process = new GatewayProcess(freePort(), crypto.randomUUID() + crypto.randomUUID(), {
    SVC_DATABASE_URL: `sqlite:${folder}/gateway.db`,
    SVC_DATA_DIR: folder,
    SVC_RATE_LIMIT: "off",
    ...environment,
  });
  await process.start();
  return new Target(process.url, process.secret, process, folder);
}

/** Registers a test; what it returns adds a part. All parts share one gateway, which takes longer to start than most of them. */
export function testOfParts(name: string): (name: string, run: (target: Target) => Promise<void>) => void {
  const parts: { name: string; run: (target: Target) => Promise<void> }[] = [];
  Deno.test(name, async (t) => {
    await using target = await openTarget();
    for (const part of parts) await t.step(part.name, () => part.run(target));
  });
  return (name, run) => void parts.push({ name, run });
}

/** Names that no earlier run against the same deployment has used. */
export function uniqueName(name: string): string {
  return `${name}-${crypto.randomUUID().slice(0, 8)}`;
}
