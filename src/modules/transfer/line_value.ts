// Values that lines of several kinds hold.
import { z } from "@zod/zod";
import { iso } from "@/core/clock.ts";

/** What counts changes; a column has room for twice as many. */
export const Counter = z.int().min(0).max(2 ** 30);
/** A time in the form in which times are compared as text wherever they are kept. */
export const Time = z.iso.datetime().transform((text) => iso(Date.parse(text)));
