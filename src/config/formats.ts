// Formats of settings: how the text of an environment variable is read, and what is expected where it cannot be.
import { z } from "@zod/zod";
import { isHost } from "@/adapters/outbound/host_list.ts";
import { isAddressRange } from "@/transport/shared/client_address.ts";

const list = z.string().transform((text) => text.split(",").map((part) => part.trim()).filter((part) => part !== ""));

export const flag = z.string().trim().toLowerCase().pipe(
  z.enum(["true", "1", "yes", "on", "false", "0", "no", "off"], { error: "true/1/yes/on or false/0/no/off" }),
).transform((word) => ["true", "1", "yes", "on"].includes(word));

export function integer(least: number, most: number): z.ZodType<number, string> {
  return z.string().regex(/^\d{1,12}$/, `an integer from ${least} to ${most}`).transform(Number)
    .pipe(z.number().min(least, `at least ${least}`).max(most, `at most ${most}`));
}

export const origins = list.refine(
  (all) => all.every((origin) => origin === "*" || isOrigin(origin)),
  "a comma-separated list of origins such as https://app.example.com, or *",
);

/** A URL with one of these schemes, such as `https:`. */
export function url(protocols: readonly string[]): z.ZodString {
  return z.string().refine(
    (text) => URL.canParse(text) && protocols.includes(new URL(text).protocol),
    `a URL starting with ${protocols.map((protocol) => `${protocol}//`).join(" or ")}`,
  );
}

/** The same without a user name and a password. */
export function anonymousUrl(protocols: readonly string[]): z.ZodString {
  return url(protocols).refine(
    (text) => !URL.parse(text)?.username && !URL.parse(text)?.password,
    "a URL without a user name and password",
  );
}

/** Addresses of servers for calls: `stun` or `turn`. */
export function iceUrls(scheme: string): z.ZodType<string[], string | undefined> {
  const form = new RegExp(`^${scheme}s?:[^\\s/]+$`);
  return list.refine(
    (all) => all.every((text) => form.test(text)),
    `a comma-separated list of URLs such as ${scheme}:ice.example.com:3478`,
  ).default([]);
}

export const proxies = list.refine(
  (all) => all.every(isAddressRange),
  "a comma-separated list of addresses and networks such as 10.0.0.0/8",
);
export const hosts = list.refine(
  (all) => all.every(isHost),
  "a comma-separated list of host names, addresses and networks such as models.internal,10.0.0.0/8",
);
export const pushContact = z.string().regex(
  /^(?:mailto:[^\s@]+@[^\s@]+|https:\/\/\S+)$/,
  "an address for push services to write to, such as mailto:ops@example.com or https://example.com/contact",
);
export const redisUrl = z.string().refine(
  // A password that is not encoded ends the host early: the rest of it would be the database, which is a number.
  (text) => URL.canParse(text) && /^rediss?:\/\/[^/?#]+(\/\d{0,4})?(\?[^#]*)?$/.test(text),
  "redis:// or rediss://user:password@host:6379/0, with / in the password written as %2F",
);
export const databaseUrl = z.string().refine(
  (text) => /^sqlite:(?!\/\/[^/]).+$/.test(text) || isPostgresUrl(text),
  "sqlite:<path> or postgres://user:password@host:5432/name, with / in the password, or in the path of a Unix socket as " +
    "the host, written as %2F",
);

/** Scheme, host and port and nothing else, also those that apps give their own pages, for which URL knows no origin. */
function isOrigin(text: string): boolean {
  const url = URL.parse(text);
  return url !== null && url.host !== "" && !url.host.includes("*") && `${url.protocol}//${url.host}` === text;
}

/** The URL with the first of its hosts alone: URL knows no list of them. */
function withFirstHost(text: string): string {
  const start = text.indexOf("://") + 3;
  const length = text.slice(start).search(/[/?]/);
  const end = length < 0 ? text.length : start + length;
  const comma = text.indexOf(",", Math.max(start, text.lastIndexOf("@", end)));
  return comma < 0 || comma > end ? text : text.slice(0, comma) + text.slice(end);
}

/** Whether the driver can read it: what it cannot, it repeats with the password in its error. The host may be a list. */
function isPostgresUrl(text: string): boolean {
  const url = URL.parse(withFirstHost(text));
  if (url === null || !/^postgres(ql)?:$/.test(url.protocol)) return false;
  // The rest of a password that was not encoded, whose first part would be taken for the host and logged.
  if (url.hash !== "" || url.pathname.includes("@")) return false;
  // The driver would connect to the host before it, or to localhost, and pass it on as a setting.
  if (url.searchParams.has("host")) return false;
  try {
    decodeURIComponent(`${url.username}${url.password}${url.hostname}`);
    return true;
  } catch {
    return false;
  }
}
