// Times and time zones as callers write them, read as they are stored.
import { z } from "@zod/zod";
import { iso } from "./clock.ts";
import { findTimeZone, TIME_ZONE_MAX_CHARS } from "./time_zone.ts";

const OFFSET = /([+-]\d\d)(\d\d)$/;
const TIME_MAX_CHARS = 64;

/**
 * A time in any form of RFC 3339, since many clients send +00:00, and with the offset +0000, as generated Python clients do.
 * Stored times are compared as text: UTC, milliseconds.
 */
export const TimeInput = z.string().overwrite(withColonInOffset)
  .check(z.iso.datetime({ offset: true, abort: true })).overwrite((text) => iso(Date.parse(text)));

export const TimeZoneInput = z.string().max(TIME_ZONE_MAX_CHARS)
  .refine((name) => findTimeZone(name) !== undefined, "expected an IANA time zone such as Europe/Vienna")
  .overwrite((name) => findTimeZone(name) ?? name);

function withColonInOffset(text: string): string {
  return text.length > TIME_MAX_CHARS ? text : text.toUpperCase().replace(OFFSET, "$1:$2");
}
