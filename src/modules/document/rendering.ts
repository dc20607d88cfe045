// Renders Markdown: short texts inline, long ones in a worker, because the parser may need seconds for them.
import { Fault, type FaultCode } from "@/core/fault.ts";
import { runInWorker } from "@/core/worker.ts";
import { parseBlocks, splitLines, toHtml } from "./markdown.ts";
import type { Block } from "./schema.ts";

type RenderRequest = { to: "html"; title: string; markdown: string } | { to: "blocks"; markdown: string };
/** Result of a worker. A fault is sent as data, because its class is lost in transfer. */
type RenderResult = { output: string | Block[] } | { code: FaultCode; detail: string };

/** The worst text of this length takes about 0.2 seconds. For blocks, the content of paragraphs is not parsed. */
const INLINE_MAX_CHARS = { html: 8192, blocks: 65_536 };
const QUEUE_MAX = 20;
const RETRY_MS = 2000;
const WORKER = new URL("./rendering_worker.ts", import.meta.url);

let waiting = 0;
let last: Promise<unknown> = Promise.resolve();

/** A whole HTML page. */
export async function renderHtml(title: string, markdown: string): Promise<string> {
  return await renderOrThrow({ to: "html", title, markdown }) as string; // by its request
}

/** The top-level blocks, with the source of each. */
export async function renderBlocks(markdown: string): Promise<Block[]> {
  return await renderOrThrow({ to: "blocks", markdown }) as Block[]; // by its request
}

/** Renders on the current thread. */
export async function render(request: RenderRequest): Promise<RenderResult> {
  try {
    return {
      output: request.to === "html"
        ? await toHtml(request.title, request.markdown)
        : await parseBlocks(request.markdown),
    };
  } catch (thrown) {
    if (!(thrown instanceof Fault)) throw thrown;
    return { code: thrown.code, detail: thrown.message };
  }
}

async function renderOrThrow(request: RenderRequest): Promise<string | Block[]> {
  const result = request.markdown.length <= INLINE_MAX_CHARS[request.to]
    ? await render(request)
    : await renderInWorker(request);
  if ("output" in result) return result.output;
  throw new Fault(result.code, result.detail);
}

/** Runs one worker at a time, since each uses a core and many times the memory of its text. Rejects too many lines at once. */
async function renderInWorker(request: RenderRequest): Promise<RenderResult> {
  splitLines(request.markdown);
  if (waiting >= QUEUE_MAX) {
    throw new Fault("unavailable", "The rendering queue is full", { retryAfterMs: RETRY_MS });
  }
  waiting++;
  const result = last.then(() => runInWorker<RenderResult>(WORKER, "rendering", request)).finally(() => waiting--);
  // The failure is the caller's; the next request only waits for the end.
  last = result.catch(() => {});
  return await result;
}
