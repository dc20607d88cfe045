// `deno task token`: signs an access token with the gateway's own secret, for experiments and scripts.
import { parseArgs } from "node:util";
import { SignJWT } from "jose";
import type { Config } from "@/config/config.ts";
import { TENANT_ROLES } from "@/core/actor.ts";
import { DAY_SECONDS, HOUR_SECONDS, systemTime } from "@/core/time/clock.ts";
import { nearestName } from "@/core/input/suggestion.ts";
import { describeUnknownScope } from "@/core/known_scopes.ts";
import { Claims } from "@/modules/identity/mod.ts";

/** The options of the command. */
export const TOKEN_USAGE =
  "usage: deno task token --sub <id> [--tenant <id>] [--kind human|agent|service] [--owner <id>] [--name <text>] " +
  `[--role ${TENANT_ROLES.join("|")}] ` +
  "[--scope <space list>] [--ttl <seconds>]";

/** What was typed is not a command: exit code 2. */
export class UsageError extends Error {}

/** The signed token for command-line arguments; throws an Error whose message is for the terminal. */
export async function mintToken(config: Config, args: readonly string[]): Promise<string> {
  const { values } = parseArguments(args);
  const { SVC_LIMIT_TOKEN_HOURS: hoursMax = Infinity } = config.settings;
  const { sub, ttl = String(Math.min(DAY_SECONDS, hoursMax * HOUR_SECONDS)), ...claims } = values;
  if (sub === undefined) throw new UsageError(`--sub is missing\n${TOKEN_USAGE}`);
  const seconds = Number(ttl);
  if (!/^[1-9]\d{0,9}$/.test(ttl)) throw new UsageError(`--ttl must be an integer number of seconds\n${TOKEN_USAGE}`);
  if (seconds > hoursMax * HOUR_SECONDS) {
    throw new UsageError(
      `--ttl must be at most ${hoursMax * HOUR_SECONDS} seconds (SVC_LIMIT_TOKEN_HOURS)\n${TOKEN_USAGE}`,
    );
  }
  const wrong = Claims.safeParse(values).error?.issues[0];
  if (wrong !== undefined) {
    throw new UsageError(`--${wrong.path.join(".")} is not valid: ${wrong.message}\n${TOKEN_USAGE}`);
  }
  if (values.scope !== undefined) await assertScopesAreKnown(config, values.scope);
  const { SVC_JWT_ISSUER: issuer, SVC_JWT_AUDIENCE: audience } = config.settings;
  const now = Math.floor(Date.now() / 1000);
  const token = new SignJWT(claims).setProtectedHeader({ alg: "HS256", typ: "JWT" }).setSubject(sub).setIssuedAt(now)
    .setExpirationTime(now + seconds).setJti(crypto.randomUUID());
  if (issuer !== undefined) token.setIssuer(issuer);
  if (audience !== undefined) token.setAudience(audience);
  return await token.sign(config.jwtSecret);
}

/** Throws for a scope that no operation has. Only a gateway knows them: it is opened in memory, and serves nothing. */
async function assertScopesAreKnown(config: Config, scope: string): Promise<void> {
  const { createApp } = await import("@/app.ts");
  const settings = { ...config.settings, SVC_DATABASE_URL: "sqlite::memory:", SVC_REDIS_URL: undefined };
  await using app = await createApp({ ...config, settings }, { timeSource: systemTime });
  const unknown = describeUnknownScope(app.modules, scope.split(" ").filter((one) => one !== ""));
  if (unknown !== undefined) throw new UsageError(`--scope is not valid: ${unknown.detail}\n${TOKEN_USAGE}`);
}

function parseArguments(args: readonly string[]) {
  const option = { type: "string" as const };
  const options = {
    sub: option,
    tenant: option,
    kind: option,
    owner: option,
    name: option,
    role: option,
    scope: option,
    ttl: option,
  };
  try {
    return parseArgs({ args: [...args], options });
  } catch (thrown) {
    const message = thrown instanceof Error ? thrown.message : String(thrown);
    const [, unknown] = /^Unknown option '--([^'=]{1,40})/.exec(message) ?? [];
    const meant = unknown === undefined ? undefined : nearestName(unknown, Object.keys(options));
    throw new UsageError(`${message}${meant === undefined ? "" : `; did you mean --${meant}?`}\n${TOKEN_USAGE}`);
  }
}
