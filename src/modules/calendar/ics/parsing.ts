// Parses iCalendar files in a worker with a timeout, so that no file blocks the event loop.
import { tenantOfCharged } from "@/core/actor.ts";
import { currentAccount } from "@/core/caller.ts";
import { MINUTE_MS } from "@/core/time/clock.ts";
import { Fault } from "@/core/fault.ts";
import { Slots } from "@/core/limit/slots.ts";
import { runInWorker } from "@/core/worker.ts";
import type { ParsedFile, ParseRequest, ParseResult } from "./grouping.ts";

export type { EventGroup, ParsedFile } from "./grouping.ts";

/** Parsing this much takes less time than starting a worker. */
const INLINE_MAX_CHARS = 16_384;
/** The largest file takes two seconds; a slow machine may take thirty times as long. */
const PARSE_TIMEOUT_MS = MINUTE_MS;
const WORKER = new URL("./ics_worker.ts", import.meta.url);

/** One file at a time, since each takes a core. Tenants take turns, and owners in them; what waits is a job, so it is little. */
const slots = new Slots({ total: 1 });

/** Throws `validation_failed` for a file that is invalid or exceeds the timeout. */
export async function parseFile(request: ParseRequest): Promise<ParsedFile> {
  const result = request.text.length <= INLINE_MAX_CHARS
    ? await (await import("./grouping.ts")).parseGroups(request)
    : await parseInWorker(request);
  if ("batches" in result) return result;
  throw new Fault(result.code, result.message, result);
}

async function parseInWorker(request: ParseRequest): Promise<ParseResult> {
  // A dependency reads this variable when it is loaded.
  const permissions = { env: ["NODE_ENV"] };
  const owner = currentAccount()?.key ?? "";
  using _slot = await slots.acquire([tenantOfCharged(owner), owner]);
  return await runInWorker(WORKER, "calendar", request, { timeoutMs: PARSE_TIMEOUT_MS, permissions });
}
