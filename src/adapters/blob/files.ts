// What the blob adapters have in common: their one error, and files that are written whole.
import { Fault } from "@/core/fault.ts";

export function storeUnavailable(cause: unknown): Fault {
  return new Fault("unavailable", "The file store is unavailable", { cause });
}

export async function translateErrors<Result>(work: Promise<Result>): Promise<Result> {
  try {
    return await work;
  } catch (cause) {
    throw storeUnavailable(cause);
  }
}

/** Writes all bytes: one call may write less. */
export async function writeAll(file: Deno.FsFile, bytes: Uint8Array): Promise<void> {
  for (let at = 0; at < bytes.length;) at += await file.write(bytes.subarray(at));
}
