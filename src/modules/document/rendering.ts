// Markdown made into HTML or blocks: short texts at once, long ones in a worker, where the parser may take its seconds.
import { Fault, type FaultCode } from "@/core/fault.ts";
import { askWorker } from "@/core/worker.ts";
import { blocksOf, htmlOf, linesOf } from "./markdown.ts";
import type { Block } from "./schema.ts";

export type Order = { to: "html"; title: string; markdown: string } | { to: "blocks"; markdown: string };
/** What a worker answers: a fault does not survive the way as it is. */
export type Rendered = { made: string | Block[] } | { code: FaultCode; detail: string };

/** Of so many characters the worst takes a tenth of a second or two; for blocks, paragraphs need not be taken apart. */
const SHORT = { html: 8192, blocks: 65_536 };
const WAITING_MAX = 20;
const RETRY_MS = 2000;
const WORKER = new URL("./rendering_worker.ts", import.meta.url);

let waiting = 0;
let last: Promise<unknown> = Promise.resolve();

/** A whole HTML page. */
export async function renderHtml(title: string, markdown: string): Promise<string> {
  return await rendered({ to: "html", title, markdown }) as string; // as ordered
}

/** The top-level blocks, with the source of each. */
export async function renderBlocks(markdown: string): Promise<Block[]> {
  return await rendered({ to: "blocks", markdown }) as Block[]; // as ordered
}

/** What is ordered, made here and now. */
export async function render(order: Order): Promise<Rendered> {
  try {
    return {
      made: order.to === "html" ? await htmlOf(order.title, order.markdown) : await blocksOf(order.markdown),
    };
  } catch (thrown) {
    if (!(thrown instanceof Fault)) throw thrown;
    return { code: thrown.code, detail: thrown.message };
  }
}

async function rendered(order: Order): Promise<string | Block[]> {
  const answer = order.markdown.length <= SHORT[order.to] ? await render(order) : await inTurn(order);
  if ("made" in answer) return answer.made;
  throw new Fault(answer.code, answer.detail);
}

/** One at a time: each takes a core, and memory many times its text. What has too many lines need not wait to be refused. */
async function inTurn(order: Order): Promise<Rendered> {
  linesOf(order.markdown);
  if (waiting >= WAITING_MAX) {
    throw new Fault("unavailable", "Other documents are being rendered", { retryAfterMs: RETRY_MS });
  }
  waiting++;
  const turn = last.then(() => askWorker<Rendered>(WORKER, "rendering", order)).finally(() => waiting--);
  last = turn.catch(() => {});
  return await turn;
}
