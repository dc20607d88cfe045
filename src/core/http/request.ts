// What is read from a request before anything parses it, bounded: its body, and headers that contain lists.
import { Buffer } from "node:buffer";
import { readPieces } from "@/runtime/byte_pieces.ts";
import { currentAccount } from "../caller.ts";
import { nextTick } from "../time/clock.ts";
import type { CpuAccount } from "../limit/cpu_budget.ts";
import { Fault } from "../fault.ts";
import type { Client } from "../operation.ts";

/** More than any client has a reason to send. The time that a list takes grows with its length. */
export const LIST_HEADER_MAX_CHARS = 1024;

const USER_AGENT_MAX_CHARS = 200;

/** Browser origins that tenants allow for themselves. The tenant of a request is known only after authentication. */
export type TenantOrigins = {
  /** Whether no tenant allows any. */
  readonly isEmpty: boolean;
  /** Whether any tenant allows this origin: the only question that a preflight or an upgrade can answer. */
  isAllowedByAny(origin: string): boolean;
  /** Whether this tenant allows it. */
  isAllowed(tenantId: string, origin: string): boolean;
};

/** The engine's own reader of bodies keeps memory of longer ones: 200 of 5 MB left 2.5 GB to the process. */
const LARGE_BYTES = 256 * 1024;
/** Reads of a body until others are served, and what one of them and its bytes cost. A network sends far fewer of most bodies. */
const READS_PER_SLICE = 256;
const READ_MS = 0.01;
const MIB_MS = 1;
const MIB = 1024 * 1024;

type ReadOptions = {
  /** The rest of a body with more than `LARGE_BYTES` is read once it has resolved. */
  onLarge?: (() => Promise<void>) | undefined;
  /** Charged for a body in very many chunks. */
  account?: CpuAccount | undefined;
};

/** The whole body of a request. Throws what `tooLarge` returns beyond `maxBytes`, and `bad_request` when it breaks off. */
export async function readBytes(
  request: Request,
  maxBytes: number,
  tooLarge: () => Fault,
  { onLarge, account = currentAccount() }: ReadOptions = {},
): Promise<Uint8Array> {
  const length = request.headers.get("Content-Length");
  if (length !== null && Number(length) > maxBytes) throw tooLarge();
  try {
    // The engine's own reader is several times faster than a loop.
    if (length !== null && Number(length) <= LARGE_BYTES) {
      const bytes = await request.bytes();
      if (bytes.length > maxBytes) throw tooLarge();
      return bytes;
    }
    let isLarge = length !== null;
    if (isLarge) await onLarge?.();
    if (request.body === null) return new Uint8Array();
    let size = 0;
    const pace = createReadPacer({ account });
    const onRead = (bytes: number): Promise<void> | undefined => {
      size += bytes;
      if (size > maxBytes) throw tooLarge();
      if (isLarge || size <= LARGE_BYTES) return pace(bytes);
      isLarge = true;
      return onLarge?.();
    };
    const pieces: Uint8Array[] = [];
    for await (const piece of readPieces(request.body, { onRead })) pieces.push(piece);
    return Buffer.concat(pieces, size);
  } catch (cause) {
    throw faultOfBody(cause);
  }
}

/**
 * Returns a function to call after each read of a body. Chunks that have arrived are read without a tick in between, so every so
 * many reads others are served. The account is charged, `mibMs` for each MiB; it takes turns with others, and waits while it has
 * used its share.
 */
export function createReadPacer(
  { account = currentAccount(), mibMs = MIB_MS }: { account?: CpuAccount | undefined; mibMs?: number } = {},
): (bytes: number) => Promise<void> | undefined {
  let reads = 0;
  return (bytes) => {
    const isSliceOver = ++reads % READS_PER_SLICE === 0;
    if (account === undefined) return isSliceOver ? nextTick() : undefined;
    account.consume(READ_MS + bytes / MIB * mibMs);
    return isSliceOver || account.waitMs > 0 ? account.waitForSlice() : account.takeTurn();
  };
}

/** Why a body could not be read to its end. */
export function faultOfBody(cause: unknown): Fault {
  return cause instanceof Fault ? cause : new Fault("bad_request", "The request body ended early", { cause });
}

/** A header that contains a list; `null` when it was not sent. Throws `bad_request` when it is too long. */
export function readListHeader(headers: Headers, name: string): string | null {
  const list = headers.get(name);
  if (list !== null && list.length > LIST_HEADER_MAX_CHARS) {
    throw new Fault("bad_request", `${name} has ${list.length} characters; expected at most ${LIST_HEADER_MAX_CHARS}`);
  }
  return list;
}

/** Who sent a request from this address. */
export function clientOf(request: Request, ip: string): Client {
  return { ip, userAgent: userAgentOf(request) };
}

/** The program that sent a request, as it names itself. */
export function userAgentOf({ headers }: Request): string | undefined {
  return headers.get("User-Agent")?.slice(0, USER_AGENT_MAX_CHARS);
}

/** Whether `If-None-Match` names the tag; weak tags count, as proxies weaken ours when they compress. */
export function matchesIfNoneMatch(headers: Headers, etag: string): boolean {
  const tags = readListHeader(headers, "If-None-Match") ?? "";
  return tags.trim() === "*" || tags.split(",").some((tag) => tag.trim().replace(/^W\//, "") === etag);
}
