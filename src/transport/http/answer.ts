// An answer before it is a Response: plain data, so that it can be kept for a replay and is turned into a Response once.
import type { StoredAnswer } from "@/core/idempotency.ts";

/** Status, headers and body of one answer. */
export type Answer = StoredAnswer;

/** An answer in JSON. */
export function jsonAnswer(status: number, body: string | null, headers: Record<string, string> = {}): Answer {
  if (body !== null) headers["Content-Type"] = "application/json";
  return { status, headers, body };
}
