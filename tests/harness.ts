// The real app in one process: SQLite in memory, memory bus, a fixed clock, no port. Every JSON answer that passes
// through here is checked against `/openapi.json`, every committed event against the type that its module declares.
import { tmpdir } from "node:os";
import { DatabaseSync } from "node:sqlite";
import { SignJWT } from "jose";
import { migrateStore, openStore } from "@/adapters/open.ts";
import { createOutbound, type OutboundDeps, TOTAL_MS } from "@/adapters/outbound/http.ts";
import { openSqliteStore } from "@/adapters/store/sqlite/store.ts";
import { SqlStore } from "@/adapters/store/sql_store.ts";
import { type App, createApp, type Extensions } from "@/app.ts";
import { readConfig } from "@/config/config.ts";
import type { TenantRole } from "@/core/actor.ts";
import { runOutsideCalls } from "@/core/caller.ts";
import type { Clock } from "@/core/time/clock.ts";
import type { Outbound } from "@/ports/outbound.ts";
import { OpenApiContract } from "./openapi_contract.ts";
import { EventContract } from "./event_contract.ts";
import { ScriptedModels } from "./scripted_models.ts";
import { WAIT_MS } from "./wait.ts";

// A service that reads around its own transaction fails here, see ports/store.ts.
SqlStore.readsInsideWrites = "refuse";

export const SECRET = "a secret only for tests, 32 bytes or more";
/** Made once: to make it takes longer than to sign with it. */
const SIGNING_KEY = await crypto.subtle.importKey(
  "raw",
  new TextEncoder().encode(SECRET),
  { name: "HMAC", hash: "SHA-256" },
  false,
  ["sign"],
);

/** A clock that moves only when a test advances it. */
export class TestClock implements Clock {
  #now: number;

  constructor(now = Date.parse("2026-03-01T12:00:00.000Z")) {
    this.#now = now;
  }

  now(): number {
    return this.#now;
  }

  advance(ms: number): void {
    this.#now += ms;
  }
}

export type Claims = {
  tenant?: string;
  kind?: "human" | "agent" | "service";
  name?: string;
  role?: TenantRole;
  owner?: string;
  scope?: string;
  jti?: string;
  exp?: number;
  iat?: number;
};

/** A token as the application of a team would sign it; good for an hour of the clock. */
export async function signToken(clock: Clock, sub: string, claims: Claims = {}): Promise<string> {
  const iat = Math.floor(clock.now() / 1000);
  return await new SignJWT({ iat, exp: iat + 3600, ...claims, sub }).setProtectedHeader({ alg: "HS256" })
    .sign(SIGNING_KEY);
}

/** A response that was read. `body` is parsed JSON, or the text when it is none. */
// deno-lint-ignore no-explicit-any -- tests look into bodies of every shape
export type ApiResponse = { status: number; headers: Headers; body: any };

type RequestOptions = Omit<RequestInit, "headers"> & { headers?: Record<string, string> };

/** Calls the gateway as one principal: with bytes, a text that is JSON, or what becomes JSON. */
export class Caller {
  readonly #harness: Harness;
  readonly #token: string | undefined;

  constructor(harness: Harness, token: string | undefined) {
    this.#harness = harness;
    this.#token = token;
  }

  get token(): string {
    return this.#token ?? "";
  }

  get(path: string, headers?: Record<string, string>): Promise<ApiResponse> {
    return this.call("GET", path, undefined, headers);
  }

  post(path: string, body: unknown = {}, headers?: Record<string, string>): Promise<ApiResponse> {
    return this.call("POST", path, body, headers);
  }

  put(path: string, body: unknown = {}, headers?: Record<string, string>): Promise<ApiResponse> {
    return this.call("PUT", path, body, headers);
  }

  patch(path: string, body: unknown, headers?: Record<string, string>): Promise<ApiResponse> {
    return this.call("PATCH", path, body, headers);
  }

  delete(path: string, headers?: Record<string, string>): Promise<ApiResponse> {
    return this.call("DELETE", path, undefined, headers);
  }

  call(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<ApiResponse> {
    if (body === undefined) return this.#harness.send(this.request(path, { method, headers }));
    const isBinary = body instanceof Uint8Array || body instanceof ReadableStream;
    const type = isBinary ? "application/octet-stream" : "application/json";
    const encoded = isBinary || typeof body === "string" ? body as BodyInit : JSON.stringify(body);
    const request = { method, headers: { "content-type": type, ...headers }, body: encoded };
    return this.#harness.send(this.request(path, request));
  }

  /** The response as it is, such as a stream. */
  async open(path: string, init?: RequestOptions): Promise<Response> {
    return await this.#harness.app.fetch(this.request(path, init), "127.0.0.1");
  }

  /** A request with the token of the caller. */
  request(path: string, { headers, ...init }: RequestOptions = {}): Request {
    const credential = this.#token === undefined ? {} : { authorization: `Bearer ${this.#token}` };
    return new Request(`http://gateway.test${path}`, { ...init, headers: { ...credential, ...headers } });
  }
}

type HarnessOptions = { folder?: string; document?: string };

/** The document of a gateway with the modules that each has. */
const STANDARD = "standard";
/** By document: to make one takes longer than most tests do. */
const contracts = new Map<string, OpenApiContract>();

export class Harness {
  readonly app: App;
  readonly clock: TestClock;
  readonly #eventContract: EventContract;
  /** For files, deleted with the gateway; empty where a test has one of its own. */
  readonly folder: string;
  readonly #document: string;

  /** Gateways with the same `document` keep the same contract. */
  constructor(app: App, clock: TestClock, { folder = "", document = STANDARD }: HarnessOptions = {}) {
    this.app = app;
    this.clock = clock;
    this.#eventContract = new EventContract(app);
    this.folder = folder;
    this.#document = document;
  }

  /** A caller with a fresh token. */
  async as(sub: string, claims: Claims = {}): Promise<Caller> {
    return new Caller(this, await signToken(this.clock, sub, claims));
  }

  /** A caller with a given token, or with none. */
  withToken(token: string | undefined): Caller {
    return new Caller(this, token);
  }

  async send(request: Request): Promise<ApiResponse> {
    const response = await this.app.fetch(request, "127.0.0.1");
    const text = await response.text();
    const isJson = /json/.test(response.headers.get("content-type") ?? "");
    const answer = { status: response.status, headers: response.headers, body: isJson ? JSON.parse(text) : text };
    if (isJson) {
      const contract = contracts.get(this.#document) ?? await OpenApiContract.load(this.app);
      contracts.set(this.#document, contract);
      contract.assertMatches(request, answer);
    }
    this.#eventContract.assertNoViolations();
    return answer;
  }

  /** Runs due jobs until none is left, also where a test has stopped their runner. */
  async runJobs(): Promise<void> {
    this.app.jobs.start();
    await this.app.jobs.whenIdle();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.app[Symbol.asyncDispose]();
    if (this.folder !== "") await Deno.remove(this.folder, { recursive: true }).catch(ignoreNotFound);
    this.#eventContract.assertNoViolations();
  }
}

/**
 * Opens the app for one test: `await using gateway = await openGateway();`. Limits are off unless set here, and models are
 * scripted unless others are given.
 */
export async function openGateway(
  environment: Record<string, string> = {},
  extensions: Extensions = {},
): Promise<Harness> {
  const clock = new TestClock();
  const folder = `${tmpdir()}/gateway-test-${crypto.randomUUID()}`;
  const all: Record<string, string> = {
    SVC_DATABASE_URL: "sqlite::memory:",
    SVC_DATA_DIR: folder,
    SVC_JWT_SECRET: SECRET,
    SVC_RATE_LIMIT: "off",
    // Clients of a test are in its own process: what they take is not the gateway's. Nor is what others take of a busy machine.
    SVC_LIMIT_SOCKET_MEMORY_BYTES: "999999999999",
    SVC_LIMIT_CPU_PERCENT: "100",
    SVC_LIMIT_TENANT_CPU_PERCENT: "100",
    ...environment,
  };
  const config = readConfig({ get: (name) => all[name], readFile: Deno.readTextFileSync });
  const openTestStore = await findStore(all.SVC_DATABASE_URL ?? "");
  // A test may begin in the async context of an earlier one, which would be charged for what this gateway does by itself.
  const app = await runOutsideCalls(() =>
    createApp(config, { clock }, {
      models: new ScriptedModels(),
      createOutbound: createPatientOutbound,
      timeoutFactor: PLUGIN_TIMEOUT_FACTOR,
      openStore: openTestStore,
      ...extensions,
    })
  );
  if (extensions.modules === undefined) migrationOwners ??= app.modules;
  // Modules with anything to call change the document, settings do not: http_openapi_test.ts.
  const added = app.modules.slice(app.modules.length - (extensions.modules?.length ?? 0));
  const isStandard = added.every(({ operations, routes = [], tags }) =>
    operations.length === 0 && routes.length === 0 && tags === undefined
  );
  return new Harness(app, clock, { folder, document: isStandard ? STANDARD : crypto.randomUUID() });
}

/** Calls may last so many times as long as in production: after a failure, the next attempt waits for the clock of the test. */
const TIMEOUT_FACTOR = 4;
/** The same of plugins and endpoints: what they do not say in time is passed by or refused. */
const PLUGIN_TIMEOUT_FACTOR = 10;

function createPatientOutbound(deps: OutboundDeps): Outbound {
  const call = createOutbound({ ...deps, connectMs: WAIT_MS });
  const patient = (...[url, init, { totalMs = TOTAL_MS, ...options } = {}]: Parameters<Outbound>) =>
    call(url, init, { ...options, totalMs: TIMEOUT_FACTOR * totalMs });
  return Object.assign(patient, { assertAllowed: call.assertAllowed });
}

/** Enough to wait for each other. A session costs its server more than what most tests do over it. */
const SESSIONS = { writeConnections: 3, readConnections: 2 };

/** Opens the store of a test faster than the app would. */
async function findStore(url: string): Promise<typeof openStore> {
  const image = url === "sqlite::memory:" ? await findImage() : undefined;
  if (image === undefined) return (url, clock) => openStore(url, clock, SESSIONS);
  return (_url, clock) => Promise.resolve(openSqliteStore(":memory:", { clock, image }));
}

/** Of the first gateway. */
let migrationOwners: App["modules"] | undefined;
let databaseImage: Promise<Uint8Array> | undefined;

/** A database in memory with all tables, from the second gateway on: to make them takes a third of the time that a gateway opens. */
function findImage(): Promise<Uint8Array> | undefined {
  if (migrationOwners !== undefined) databaseImage ??= createImage(migrationOwners);
  return databaseImage;
}

async function createImage(modules: App["modules"]): Promise<Uint8Array> {
  const folder = await Deno.makeTempDir({ prefix: "gateway-test-" });
  try {
    const store = await openStore(`sqlite:${folder}/gateway.db`, new TestClock());
    await migrateStore(store, modules);
    await store.close();
    const file = new DatabaseSync(`${folder}/gateway.db`);
    // A database in memory has no WAL.
    file.exec("pragma journal_mode = delete");
    const image = file.serialize();
    file.close();
    return image;
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** Most tests keep nothing in it, and then it was never made. */
function ignoreNotFound(error: unknown): void {
  if (!(error instanceof Deno.errors.NotFound)) throw error;
}
