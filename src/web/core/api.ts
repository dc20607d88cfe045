// Calls of the public HTTP API with the session's token.
import { endSession, token } from "./session.ts";

/** A problem of RFC 9457, or a network that is not there (status 0). */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  readonly errors: readonly { pointer: string; detail: string }[];

  constructor(status: number, code: string, detail: string, errors: ApiError["errors"] = []) {
    super(detail);
    this.status = status;
    this.code = code;
    this.errors = errors;
  }

  /** Whether the same call may succeed later. */
  get isTemporary(): boolean {
    return this.status === 0 || this.status === 429 || this.status >= 500;
  }
}

export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
type Query = Readonly<Record<string, string | number | boolean | readonly string[] | undefined>>;

const RETRIES = 3;
const RETRY_MAX_MS = 10_000;
/** A network that was lost may say nothing at all. */
const SILENCE_MAX_MS = 60_000;
/** After these the token never works again. */
const ENDED = ["unauthenticated", "token_expired", "token_revoked"];

/** The gateway then detects the type of the content. */
const UNKNOWN_TYPE = "application/octet-stream";
const DECLARED_TYPE = /^(text|application)\//;

/** The address of a path, also behind a path prefix. */
export function addressOf(path: string): string {
  return new URL(path.replace(/^\//, ""), document.baseURI).href;
}

/** A path with these parameters; arrays are repeated. */
export function withQuery(path: string, query: Query): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const one of Array.isArray(value) ? value : [value]) if (one !== undefined) params.append(name, String(one));
  }
  const text = params.toString();
  return text === "" ? path : `${path}?${text}`;
}

/** Calls an endpoint; `body` is sent as JSON, or as it is if it is a file. `as` is a token other than the session's. */
export async function call<Result>(method: Method, path: string, body?: unknown, as = token.value): Promise<Result> {
  for (let attempt = 0;; attempt++) {
    const response = await send(method, path, body, as);
    if (response.ok) return response.status === 204 ? undefined as Result : await read<Result>(response);
    const waitMs = Number(response.headers.get("Retry-After") ?? NaN) * 1000;
    // A call over the rate limit was not executed.
    if (response.status === 429 && attempt < RETRIES && waitMs <= RETRY_MAX_MS) {
      await new Promise((resolve) => setTimeout(resolve, Math.max(waitMs, 500)));
      continue;
    }
    throw await problemOf(response, as === token.value);
  }
}

/** All items of a list, page by page. */
export async function listAll<Item>(path: string, query: Query = {}, most = 1000): Promise<Item[]> {
  const items: Item[] = [];
  let cursor: string | undefined;
  do {
    const page = await get<{ items: Item[]; nextCursor?: string | null }>(path, { limit: 200, ...query, cursor });
    items.push(...page.items);
    cursor = page.nextCursor ?? undefined;
  } while (cursor !== undefined && items.length < most);
  return items;
}

export function get<Result>(path: string, query: Query = {}): Promise<Result> {
  return call<Result>("GET", withQuery(path, query));
}

export function post<Result>(path: string, body: unknown = {}): Promise<Result> {
  return call<Result>("POST", path, body);
}

/** Uploads a file; `onProgress` is called with the part of it that was sent, between 0 and 1. */
export async function upload<Result>(
  path: string,
  file: File,
  onProgress: (part: number) => void,
  signal: AbortSignal,
  method: "POST" | "PUT" = "POST",
): Promise<Result> {
  const send = async (type: string): Promise<Result> => {
    const response = await sendFile(method, path, file, type, onProgress, signal);
    if (!response.ok) throw await problemOf(response);
    return await read<Result>(response);
  };
  const type = typeOf(file);
  try {
    return await send(type);
  } catch (error) {
    if (type === UNKNOWN_TYPE || !(error instanceof ApiError) || error.code !== "unsupported_media_type") throw error;
    return await send(UNKNOWN_TYPE);
  }
}

function sendFile(
  method: Method,
  path: string,
  file: File,
  type: string,
  onProgress: (part: number) => void,
  signal: AbortSignal,
): Promise<Response> {
  return new Promise((resolve, reject) => {
    // `fetch` does not say how much was sent.
    const request = new XMLHttpRequest();
    request.open(method, addressOf(path));
    request.setRequestHeader("Accept", "application/json");
    request.setRequestHeader("Authorization", `Bearer ${token.value}`);
    request.setRequestHeader("Content-Type", type);
    request.upload.onprogress = ({ loaded, total }) => onProgress(loaded / Math.max(total, 1));
    request.onload = () => {
      const headers = { "Content-Type": request.getResponseHeader("Content-Type") ?? "" };
      resolve(new Response(request.responseText, { status: request.status, headers }));
    };
    request.onerror = request.onabort = () => reject(unreachable());
    signal.addEventListener("abort", () => request.abort());
    request.send(file);
  });
}

/** A random id. `randomUUID` is for secure pages only, which those of a gateway in a local network are not. */
export function createId(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

async function send(method: Method, path: string, body: unknown, as: string): Promise<Response> {
  const isFile = body instanceof Blob;
  try {
    return await fetch(addressOf(path), {
      method,
      headers: {
        Accept: "application/json",
        ...as === "" ? {} : { Authorization: `Bearer ${as}` },
        ...body === undefined || isFile ? {} : { "Content-Type": "application/json" },
        ...isFile ? { "Content-Type": typeOf(body) } : {},
      },
      ...body === undefined ? {} : { body: isFile ? body : JSON.stringify(body) },
      ...isFile ? {} : { signal: AbortSignal.timeout(SILENCE_MAX_MS) },
    });
  } catch {
    // The browser says no more than that nothing was received.
    throw unreachable();
  }
}

function unreachable(): ApiError {
  return new ApiError(0, "offline", "The gateway cannot be reached");
}

/** The type to declare. Browsers know it by the extension only, so of pictures and the like the content decides. */
function typeOf({ type }: Blob): string {
  return DECLARED_TYPE.test(type) ? type : UNKNOWN_TYPE;
}

async function read<Result>(response: Response): Promise<Result> {
  const isJson = response.headers.get("Content-Type")?.includes("json") === true;
  try {
    return await (isJson ? response.json() : response.text()) as Result;
  } catch {
    // The response broke off, as when the page is left: the call may have been executed.
    throw unreachable();
  }
}

/** `isOfSession`: the call was made with the token of the session, which ends with it. */
async function problemOf(response: Response, isOfSession = true): Promise<ApiError> {
  // A proxy may respond with a page instead.
  const problem = await response.json().catch(() => ({}));
  const { code = `http_${response.status}`, detail = response.statusText, errors = [] } = problem;
  if (isOfSession && response.status === 401 && ENDED.includes(code)) endSession();
  return new ApiError(response.status, code, detail, errors);
}
