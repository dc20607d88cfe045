// Settings that a principal's row stores as JSON: notification preferences, and what set its name last.
import type { Actor } from "@/core/actor.ts";
import { iso } from "@/core/time/clock.ts";
import { Fault } from "@/core/fault.ts";
import { sanitizeName } from "@/core/text/name_rules.ts";
import { truncateText } from "@/core/text/text.ts";
import { type Claims, type MeUpdate, NotificationPrefs, type Preferences } from "./schema.ts";
import type { PrincipalRow } from "./store.ts";

const NAME_MAX = 100;
/** Instead of a time: the name was set through the API, so tokens no longer change it. */
const BY_API = "api";

/** A row has other settings beside them. Made once: its first use compiles it, which takes longer than all others. */
const StoredNotificationPrefs = NotificationPrefs.strip();
type StoredPrefs = { nameSetAt?: string; readReceipts?: boolean };
type SettingsRow = Pick<PrincipalRow, "prefs_json">;

/** Notification preferences, with defaults. */
export function prefsOf({ prefs_json }: SettingsRow): NotificationPrefs {
  return StoredNotificationPrefs.parse(JSON.parse(prefs_json));
}

/** Whether a principal shares its read positions and sees those of others. For an agent, pass the row of its owner. */
export function sharesReadReceipts({ prefs_json }: SettingsRow): boolean {
  const { readReceipts = true }: StoredPrefs = JSON.parse(prefs_json);
  return readReceipts;
}

/** Preferences of a principal; an agent's `owner` is another row. */
export function preferencesOf(row: SettingsRow, owner: SettingsRow): Preferences {
  return { notificationPrefs: prefsOf(row), readReceipts: sharesReadReceipts(owner) };
}

/** The row's JSON with changed preferences. */
export function withPreferences(
  row: SettingsRow,
  { ownerId }: Pick<Actor, "ownerId">,
  { notificationPrefs, readReceipts }: Pick<MeUpdate, "notificationPrefs" | "readReceipts">,
): string {
  if (readReceipts === undefined) return withSettings(row, { ...notificationPrefs });
  if (ownerId !== null) throw new Fault("forbidden", "/readReceipts: agents follow the setting of their owner");
  return withSettings(row, { ...notificationPrefs, readReceipts });
}

/** The columns that change when a name is set through the API; empty without a different name. */
export function nameSetByApi(
  row: SettingsRow & { display_name?: string },
  name: string | undefined,
): Partial<PrincipalRow> {
  return name === undefined || name === row.display_name
    ? {}
    : { display_name: name, prefs_json: withSettings(row, { nameSetAt: BY_API }) };
}

/** The row's JSON with these settings changed. */
function withSettings({ prefs_json }: SettingsRow, changed: object): string {
  return JSON.stringify({ ...JSON.parse(prefs_json), ...changed });
}

/** The name of a principal created by a token. */
export function initialName(claims: Claims): Pick<PrincipalRow, "display_name" | "prefs_json"> {
  const name = claimedName(claims);
  const isDated = name !== undefined && claims.iat !== undefined;
  return {
    display_name: name ?? truncateText(claims.sub, NAME_MAX),
    prefs_json: isDated ? JSON.stringify({ nameSetAt: isoOf(claims.iat) }) : "{}",
  };
}

/** The name in the claims of a token, if any. */
export function claimedName({ name = "" }: Claims): string | undefined {
  const sanitized = truncateText(sanitizeName(name), NAME_MAX);
  return sanitized === "" ? undefined : sanitized;
}

/**
 * The columns that a token changes about the name: the latest token wins, but a name set through the API remains, since
 * applications repeat in each token the name that they know.
 */
export function nameSetByToken(claims: Claims, row: PrincipalRow): Partial<PrincipalRow> {
  const name = claimedName(claims);
  if (name === undefined || name === row.display_name || claims.iat === undefined) return {};
  const stored: StoredPrefs = JSON.parse(row.prefs_json);
  const at = isoOf(claims.iat);
  if (stored.nameSetAt === BY_API || stored.nameSetAt !== undefined && at < stored.nameSetAt) return {};
  return { display_name: name, prefs_json: withSettings(row, { nameSetAt: at }) };
}

function isoOf(seconds = 0): string {
  return iso(seconds * 1000);
}
