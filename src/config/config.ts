// The only reader of the environment: every variable, its format and its default.
import { z } from "@zod/zod";
import { parseEnv } from "node:util";
import type { S3Options } from "@/adapters/blob/s3.ts";
import { type LogFilter, parseLogFilter } from "@/core/log.ts";
import { suggestionFor } from "@/core/input/suggestion.ts";
import { trimTrailing } from "@/core/text/text.ts";
import type { ProviderConfig } from "@/modules/sign_in/mod.ts";
import type { OperatorProvider } from "@/ports/model.ts";
import { aiModels, operatorProvider } from "./ai.ts";
import {
  anonymousUrl,
  databaseUrl,
  flag,
  hosts,
  iceUrls,
  integer,
  origins,
  proxies,
  pushContact,
  redisUrl,
  url,
} from "./formats.ts";
import { identityProvider } from "./oidc.ts";
import { assertRandomSecret, ConfigError, developmentSecret, rejectExampleSecret, secretBytes } from "./secret.ts";

export { ConfigError };

const limit = (value: number, most = 1_000_000_000) => integer(1, most).default(value);

/** Push services of Chrome and most others, Firefox, Safari and Edge. */
const PUSH_HOSTS = ["fcm.googleapis.com", "push.services.mozilla.com", "push.apple.com", "notify.windows.com"];

/** Every variable besides secrets: accepted format and default. README's table lists the same names. */
const Environment = z.object({
  RUST_LOG: z.string().default("info").transform((text, context): LogFilter => {
    const filter = parseLogFilter(text);
    if (filter !== undefined) return filter;
    context.addIssue("`level` or `target=level`, comma-separated; levels: off error warn info debug trace");
    return z.NEVER;
  }),
  SVC_LOG_FORMAT: z.enum(["auto", "text", "json"], { error: "auto, text or json" }).default("auto"),
  SVC_ENV: z.enum(["development", "staging", "production"], { error: "development, staging or production" })
    .default("development"),
  SVC_HOST: z.string().min(1).default("0.0.0.0"),
  SVC_PORT: integer(0, 65535).default(8080),
  SVC_PUBLIC_URL: url(["http:", "https:"]).transform((text) => trimTrailing(text, "/")).optional(),
  SVC_JWT_ISSUER: z.string().min(1).optional(),
  SVC_JWT_AUDIENCE: z.string().min(1).optional(),
  SVC_JWKS_URL: anonymousUrl(["http:", "https:"]).optional(),
  SVC_OIDC_ISSUER: anonymousUrl(["http:", "https:"]).optional(),
  SVC_OIDC_CLIENT_ID: z.string().min(1).optional(),
  SVC_OIDC_NAME: z.string().min(1).max(40, "at most 40 characters").optional(),
  SVC_OIDC_REQUIRE: z.string().regex(/^[^=\s]+=\S.*$/, "claim=value, such as hd=example.com").optional(),
  SVC_OIDC_SUBJECT: z.string().regex(/^\w{1,64}$/, "the name of a claim, such as oid").optional(),
  SVC_CORS_ALLOW_ORIGINS: origins.default([]),
  SVC_HTTPS_REDIRECT_ENABLED: flag.default(false),
  SVC_HSTS_ENABLED: flag.optional(),
  SVC_TRUSTED_PROXIES: proxies.default([]),
  SVC_DATABASE_URL: databaseUrl.default("sqlite:./data/gateway.db"),
  SVC_DATA_DIR: z.string().min(1).default("./data"),
  SVC_S3_ENDPOINT: url(["http:", "https:"]).optional(),
  SVC_S3_BUCKET: z.string().regex(/^[A-Za-z0-9._-]{3,255}$/, "a bucket name").optional(),
  SVC_S3_REGION: z.string().min(1).default("us-east-1"),
  SVC_S3_ACCESS_KEY_ID: z.string().min(1).optional(),
  SVC_REDIS_URL: redisUrl.optional(),
  SVC_SEARCH: flag.default(true),
  SVC_DRAIN_SECONDS: integer(0, 300).default(5),
  SVC_RATE_LIMIT: flag.default(true),
  SVC_LEGACY_QUERY_TOKEN: flag.optional(),
  SVC_REUSE_PORT: flag.default(false),
  SVC_STUN_URLS: iceUrls("stun"),
  SVC_TURN_URLS: iceUrls("turn"),
  SVC_LIVEKIT_URL: url(["wss:", "ws:", "https:", "http:"]).optional(),
  SVC_LIVEKIT_API_KEY: z.string().min(1).optional(),
  SVC_OUTBOUND_ALLOW: hosts.default([]),
  SVC_PUSH_CONTACT: pushContact.optional(),
  SVC_PUSH_HOSTS: hosts.default(PUSH_HOSTS),
  SVC_AI_KIND: z.enum(["openai", "anthropic", "google"], { error: "openai, anthropic or google" }).default("openai"),
  SVC_AI_BASE_URL: url(["http:", "https:"]).optional(),
  SVC_AI_MODEL: aiModels("chat").default([]),
  SVC_AI_EMBEDDING_MODEL: aiModels("embedding").default([]),
  SVC_AI_ALLOW_HOSTS: hosts.default([]),
  SVC_METRICS_PORT: integer(1, 65535).optional(),
  SVC_METRICS_HOST: z.string().min(1).default("127.0.0.1"),
  SVC_COMMIT: z.string().max(64, "at most 64 characters").default("unknown"),
  SVC_LIMIT_REQUESTS_PER_MINUTE: limit(600),
  SVC_LIMIT_REQUESTS_BURST: limit(100),
  SVC_LIMIT_WRITES_PER_MINUTE: limit(120),
  SVC_LIMIT_WRITES_BURST: limit(60),
  SVC_LIMIT_UNAUTHENTICATED_PER_MINUTE: limit(30),
  SVC_LIMIT_REFRESHES_PER_MINUTE: limit(10),
  SVC_LIMIT_REFRESH_TOKEN_DAYS: limit(30, 3650),
  SVC_LIMIT_TOKEN_HOURS: integer(1, 876_000).optional(),
  SVC_LIMIT_MESSAGES_PER_SECOND: limit(5),
  SVC_LIMIT_MESSAGES_BURST: limit(20),
  SVC_LIMIT_AGENT_MESSAGES_PER_SECOND: limit(10),
  SVC_LIMIT_AGENT_MESSAGES_BURST: limit(50),
  SVC_LIMIT_SERVICE_FACTOR: limit(20, 10_000),
  SVC_LIMIT_AGENTS_PER_OWNER: limit(50),
  SVC_LIMIT_CPU_PERCENT: integer(1, 100).default(10),
  SVC_LIMIT_TENANT_CPU_PERCENT: integer(1, 100).default(50),
  SVC_LIMIT_BODY_BYTES: limit(256 * 1024),
  SVC_LIMIT_CONNECTIONS: limit(10_000),
  SVC_LIMIT_CONNECTIONS_PER_PRINCIPAL: limit(10),
  SVC_LIMIT_CONNECTIONS_PER_OWNER: limit(50),
  SVC_LIMIT_CONNECTIONS_PER_ADDRESS: limit(100),
  SVC_LIMIT_COMMANDS_PER_SECOND: limit(20),
  SVC_LIMIT_COMMANDS_BURST: limit(60),
  SVC_LIMIT_FRAME_BYTES: limit(65_536, 1_048_576),
  SVC_LIMIT_SUBSCRIPTIONS: limit(1000),
  SVC_LIMIT_OUTBOX_BYTES: limit(1024 * 1024),
  SVC_LIMIT_VECTOR_MEMORY_BYTES: integer(1024 * 1024, 4_000_000_000).default(128 * 1024 * 1024),
  SVC_LIMIT_SOCKET_MEMORY_BYTES: integer(16 * 1024 * 1024, 999_999_999_999).optional(),
  SVC_LIMIT_RECOVERY_EVENTS: limit(2000, 10_000),
  SVC_LIMIT_ROOM_MEMBERS: limit(5_000),
  SVC_LIMIT_MEETING_LEASE_SECONDS: integer(3, 600).default(45),
  SVC_LIMIT_FILE_BYTES: limit(25 * 1024 * 1024),
  SVC_LIMIT_TENANT_FILE_BYTES: limit(10 * 1024 ** 3, 999_999_999_999),
  SVC_LIMIT_MEMBER_FILE_BYTES: limit(5 * 1024 ** 3, 999_999_999_999),
  SVC_LIMIT_WRITTEN_BYTES_PER_MINUTE: limit(32 * 1024 ** 2, 999_999_999_999),
  SVC_LIMIT_WRITTEN_BYTES_PER_DAY: limit(2 * 1024 ** 3, 999_999_999_999),
  SVC_LIMIT_TENANT_WRITTEN_BYTES_PER_DAY: limit(20 * 1024 ** 3, 999_999_999_999),
  SVC_LIMIT_STORED_RESPONSE_BYTES: limit(65_536),
  SVC_LIMIT_STORED_RESPONSES_BYTES: limit(32 * 1024 ** 2, 999_999_999_999),
  SVC_LIMIT_AI_TOKENS_PER_DAY: limit(5_000_000, 999_999_999_999),
  SVC_LIMIT_TENANT_AI_TOKENS_PER_DAY: limit(50_000_000, 999_999_999_999),
  SVC_LIMIT_AUDIT_DAYS: limit(365, 36_500),
  SVC_LIMIT_ERASURE_DAYS: limit(7, 365),
  SVC_LIMIT_EVENT_DAYS: limit(30),
  SVC_LIMIT_EVENTS_PER_ROOM: limit(100_000),
});

/** Variables that may also be given as `<NAME>_FILE`, the path of a file that holds the value. */
const SECRETS = [
  "SVC_S3_SECRET_ACCESS_KEY",
  "SVC_JWT_SECRET",
  "JWT_SECRET",
  "SVC_JWT_SECRET_PREVIOUS",
  "SVC_METRICS_TOKEN",
  "SVC_TURN_SECRET",
  "SVC_LIVEKIT_API_SECRET",
  "SVC_AI_API_KEY",
  "SVC_OIDC_CLIENT_SECRET",
] as const;
/** Settings that are or may carry half a secret, so they may come from a file as well. */
const URL_SECRETS = ["SVC_DATABASE_URL", "SVC_REDIS_URL", "SVC_S3_ACCESS_KEY_ID"] as const;

const PRODUCTION_TOKEN_HOURS = 24;

/** Secrets besides those of tokens that an operator makes up; others are given by the service that they open. */
const OWN_SECRETS = ["SVC_METRICS_TOKEN", "SVC_TURN_SECRET"] as const;

/** Settings as they are used: those whose default depends on `SVC_ENV` have their value. */
type Settings = z.output<typeof Environment> & { SVC_LEGACY_QUERY_TOKEN: boolean };

export type Config = {
  settings: Settings;
  /** Where contents of files are stored instead of the data directory. */
  s3: S3Options | undefined;
  jwtSecret: Uint8Array;
  /** That one, and the one before it where there was one. */
  jwtSecrets: readonly Uint8Array[];
  metricsToken: string | undefined;
  /** Shared with the TURN server. */
  turnSecret: string | undefined;
  /** The media server, when there is one. */
  liveKit: { url: string; apiKey: string; apiSecret: string } | undefined;
  /** The operator's provider of models, when there is one. */
  ai: OperatorProvider | undefined;
  /** Where people sign in, when there is one. */
  oidc: ProviderConfig | undefined;
  /** What the operator should know, logged at start. */
  warnings: readonly string[];
};

type EnvironmentSource = {
  get(name: string): string | undefined;
  readFile(path: string): string;
  /** All that is set, to find what was misspelt. */
  names?(): Iterable<string>;
};

/** The process's own environment and files; `.env` in the working directory fills in what is not set. */
export function processEnvironment(): EnvironmentSource {
  const file = dotenv();
  return {
    get: (name) => Deno.env.get(name) ?? file[name],
    readFile: (path) => Deno.readTextFileSync(path),
    names: () => new Set([...Object.keys(Deno.env.toObject()), ...Object.keys(file)]),
  };
}

function dotenv(): Record<string, string | undefined> {
  try {
    // Decoded without the mark that some editors put first, which would be part of the first name.
    return parseEnv(new TextDecoder().decode(Deno.readFileSync(".env")));
  } catch (thrown) {
    if (thrown instanceof Deno.errors.NotFound) return {};
    throw new ConfigError(".env cannot be read", { cause: thrown });
  }
}

/** Reads and checks every variable; throws a `ConfigError` that names all whose form is wrong, or the first that lacks another. */
export function readConfig(environ: EnvironmentSource): Config {
  const raw: Record<string, string> = {};
  const known = new Set<string>();
  for (const name of [...Object.keys(Environment.shape), ...SECRETS]) {
    const mayBeFile = ([...SECRETS, ...URL_SECRETS] as readonly string[]).includes(name);
    const value = valueOf(environ, name, mayBeFile);
    if (value !== undefined) raw[name] = value;
    known.add(name);
    if (mayBeFile) known.add(`${name}_FILE`);
  }
  const parsed = Environment.safeParse(raw);
  if (!parsed.success) {
    // One of each, since a value may be wrong in several ways.
    const messages = new Map(parsed.error.issues.map(({ path, message }) => [String(path[0]), message]));
    throw new ConfigError([...messages].map(([name, form]) => `${name} is not valid: expected ${form}`).join("\n"));
  }
  const settings = withDefaults(parsed.data);
  const isProduction = settings.SVC_ENV === "production";
  const isDevelopment = settings.SVC_ENV === "development";
  if (!isDevelopment) {
    for (const name of SECRETS) rejectExampleSecret(name, raw[name] ?? "");
    for (const name of OWN_SECRETS) if (raw[name] !== undefined) assertRandomSecret(name, raw[name]);
  }
  if (isProduction && settings.SVC_CORS_ALLOW_ORIGINS.includes("*")) {
    throw new ConfigError("SVC_CORS_ALLOW_ORIGINS is not valid: expected exact origins in production, received *");
  }
  if (isProduction && settings.SVC_HTTPS_REDIRECT_ENABLED && settings.SVC_PUBLIC_URL === undefined) {
    throw new ConfigError("SVC_PUBLIC_URL is missing: SVC_HTTPS_REDIRECT_ENABLED needs it as the redirect target");
  }
  if (settings.SVC_METRICS_PORT !== undefined && settings.SVC_METRICS_PORT === settings.SVC_PORT) {
    throw new ConfigError("SVC_METRICS_PORT is not valid: expected a different port than SVC_PORT");
  }
  if (settings.SVC_HTTPS_REDIRECT_ENABLED && settings.SVC_PUBLIC_URL?.startsWith("http:") === true) {
    throw new ConfigError("SVC_PUBLIC_URL is not valid: expected https:// when SVC_HTTPS_REDIRECT_ENABLED is set");
  }
  const warnings = [...environ.names?.() ?? []]
    .filter((name) => name.startsWith("SVC_") && !known.has(name) && environ.get(name))
    .map((name) => `${name} is not a known setting${suggestionFor(name, [...known])}`);
  if (settings.SVC_HTTPS_REDIRECT_ENABLED && settings.SVC_PUBLIC_URL === undefined) {
    settings.SVC_PUBLIC_URL = "https://localhost";
    warnings.push("SVC_PUBLIC_URL is not set: HTTP requests are redirected to https://localhost");
  }
  warnings.push(...nodeWarnings(settings));
  if (isProduction && raw.SVC_METRICS_TOKEN === undefined && settings.SVC_METRICS_PORT === undefined) {
    warnings.push("/metrics is closed: set SVC_METRICS_TOKEN or SVC_METRICS_PORT to open it");
  }
  const secret = jwtSecret(settings, raw, warnings);
  const previous = raw.SVC_JWT_SECRET_PREVIOUS;
  return {
    settings,
    s3: s3Of(settings, raw.SVC_S3_SECRET_ACCESS_KEY),
    jwtSecret: secret,
    jwtSecrets: previous === undefined
      ? [secret]
      : [secret, secretBytes("SVC_JWT_SECRET_PREVIOUS", previous, isDevelopment)],
    metricsToken: raw.SVC_METRICS_TOKEN,
    turnSecret: turnSecret(settings, raw),
    liveKit: liveKit(settings, raw),
    ai: operatorProvider(settings, raw.SVC_AI_API_KEY),
    oidc: identityProvider(settings, raw.SVC_OIDC_CLIENT_SECRET),
    warnings,
  };
}

/** In production what is convenient elsewhere has to be asked for. */
function withDefaults(given: z.output<typeof Environment>): Settings {
  const isProduction = given.SVC_ENV === "production";
  return {
    ...given,
    SVC_LEGACY_QUERY_TOKEN: given.SVC_LEGACY_QUERY_TOKEN ?? !isProduction,
    SVC_LIMIT_TOKEN_HOURS: given.SVC_LIMIT_TOKEN_HOURS ?? (isProduction ? PRODUCTION_TOKEN_HOURS : undefined),
  };
}

/** All four of the store's variables, or none. */
function s3Of(settings: Settings, secretAccessKey: string | undefined): S3Options | undefined {
  const endpoint = settings.SVC_S3_ENDPOINT;
  const bucket = settings.SVC_S3_BUCKET;
  const accessKeyId = settings.SVC_S3_ACCESS_KEY_ID;
  const given = Object.entries({
    SVC_S3_ENDPOINT: endpoint,
    SVC_S3_BUCKET: bucket,
    SVC_S3_ACCESS_KEY_ID: accessKeyId,
    SVC_S3_SECRET_ACCESS_KEY: secretAccessKey,
  });
  if (given.every(([, value]) => value === undefined)) return undefined;
  if (endpoint && bucket && accessKeyId && secretAccessKey) {
    return { endpoint, bucket, region: settings.SVC_S3_REGION, accessKeyId, secretAccessKey };
  }
  const missing = given.find(([, value]) => value === undefined)?.[0];
  throw new ConfigError(`${missing} is missing: an S3 store needs ${given.map(([name]) => name).join(", ")}`);
}

/** Combinations that work for one gateway and would leave a second one deaf. */
function nodeWarnings({ SVC_DATABASE_URL, SVC_REDIS_URL }: Settings): string[] {
  const isSqlite = SVC_DATABASE_URL.startsWith("sqlite:");
  if (isSqlite && SVC_REDIS_URL !== undefined) {
    return [
      "SVC_REDIS_URL is set but SVC_DATABASE_URL is SQLite, which supports a single gateway: use PostgreSQL to " +
      "run several",
    ];
  }
  if (!isSqlite && SVC_REDIS_URL === undefined) {
    return ["SVC_REDIS_URL is not set: if another gateway uses this database, events from it arrive seconds late"];
  }
  return [];
}

function valueOf(environ: EnvironmentSource, name: string, mayBeFile: boolean): string | undefined {
  // An empty variable is one that is not set.
  const value = environ.get(name) || undefined;
  const path = mayBeFile && environ.get(`${name}_FILE`);
  if (!path) return value;
  if (value !== undefined) throw new ConfigError(`${name} and ${name}_FILE are both set: expected one of them`);
  let text: string;
  try {
    text = environ.readFile(path).trim();
  } catch (cause) {
    throw new ConfigError(`${name}_FILE is not valid: expected the path of a readable file`, { cause });
  }
  // As a full disk leaves it: an empty secret would be everybody's.
  if (text === "") throw new ConfigError(`${name}_FILE is not valid: expected a non-empty file`);
  return text;
}

function jwtSecret(settings: Settings, raw: Record<string, string>, warnings: string[]): Uint8Array {
  const [own, other] = [raw.SVC_JWT_SECRET, raw.JWT_SECRET];
  if (own !== undefined && other !== undefined && own !== other) {
    warnings.push("SVC_JWT_SECRET and JWT_SECRET differ: using SVC_JWT_SECRET");
  }
  const isDevelopment = settings.SVC_ENV === "development";
  if (own !== undefined) return secretBytes("SVC_JWT_SECRET", own, isDevelopment);
  if (other !== undefined) return secretBytes("JWT_SECRET", other, isDevelopment);
  if (!isDevelopment) {
    throw new ConfigError("SVC_JWT_SECRET is missing: expected at least 32 bytes outside development");
  }
  return developmentSecret(`${settings.SVC_DATA_DIR}/jwt_secret`, warnings);
}

function turnSecret({ SVC_TURN_URLS }: Settings, raw: Record<string, string>): string | undefined {
  if (SVC_TURN_URLS.length > 0 && raw.SVC_TURN_SECRET === undefined) {
    throw new ConfigError("SVC_TURN_SECRET is missing: SVC_TURN_URLS needs the secret of the TURN server");
  }
  return raw.SVC_TURN_SECRET;
}

/** All three or none: half a media server would fail at the first call. */
function liveKit(settings: Settings, raw: Record<string, string>): Config["liveKit"] {
  const { SVC_LIVEKIT_URL: url, SVC_LIVEKIT_API_KEY: apiKey } = settings;
  const apiSecret = raw.SVC_LIVEKIT_API_SECRET;
  if (url !== undefined && apiKey !== undefined && apiSecret !== undefined) return { url, apiKey, apiSecret };
  if (url === undefined && apiKey === undefined && apiSecret === undefined) return undefined;
  throw new ConfigError("SVC_LIVEKIT_URL, SVC_LIVEKIT_API_KEY and SVC_LIVEKIT_API_SECRET must be set together");
}
