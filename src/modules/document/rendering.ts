// Converts content between its formats: little of it inline, more in a worker, because a parser may need seconds for it.
import { currentAccount } from "@/core/caller.ts";
import { FairQueue } from "@/core/limit/slots.ts";
import { Fault, type FaultData } from "@/core/fault.ts";
import { runInWorker } from "@/core/worker.ts";
import { htmlPage, parseBlocks, splitLines, toHtml } from "./markdown.ts";
import { type Dialect, fromDialect, toDialect } from "./rich/dialect.ts";
import { toHtml as nodesToHtml } from "./rich/html.ts";
import { fromHtml } from "./rich/html_parser.ts";
import { toMarkdown } from "./rich/markdown.ts";
import { fromMarkdown } from "./rich/markdown_parser.ts";
import { parseNodes, type RichNode } from "./rich/node.ts";
import type { Block } from "./content/schema.ts";

/** Content that nodes are made from. */
type RichSource = { markdown: string } | { html: string };

/** What can be asked for, and what it results in. */
type Conversions = {
  page: { input: { title: string; markdown: string }; output: string };
  blocks: { input: { markdown: string }; output: Block[] };
  /** HTML of Markdown, without the page around it. */
  fragment: { input: { markdown: string }; output: string };
  nodes: { input: { source: RichSource; dialect: Dialect }; output: RichNode[] };
  markdown_of_nodes: { input: { nodes: readonly RichNode[] }; output: string };
  html_of_nodes: { input: { nodes: readonly RichNode[] }; output: string };
};
type Kind = keyof Conversions;
type RenderRequest = { [K in Kind]: { to: K } & Conversions[K]["input"] }[Kind];
type RenderResult = { output: Conversions[Kind]["output"] } | FaultData;

/** The worst input of this length takes about 0.2 seconds. For blocks, the content of paragraphs is not parsed. */
const INLINE_MAX_CHARS: Readonly<Record<Kind, number>> = {
  page: 8192,
  blocks: 65_536,
  fragment: 4096,
  nodes: 4096,
  markdown_of_nodes: 16_384,
  html_of_nodes: 65_536,
};
/** Whatever takes longer was written to do so. */
const TIMEOUT_MS = 15_000;
/** Memory of the thread for each character of a text that is all markup. */
const BYTES_PER_CHAR = 300;
const WORKER = new URL("./rendering_worker.ts", import.meta.url);

/** One worker at a time, since each uses a core and many times the memory of its text. */
const queue = new FairQueue("rendering", 40);

/** A whole HTML page. */
export function renderHtml(title: string, markdown: string): Promise<string> {
  splitLines(markdown);
  return renderOrThrow("page", { title, markdown }, markdown.length);
}

/** The top-level blocks, with the source of each. */
export function renderBlocks(markdown: string): Promise<Block[]> {
  splitLines(markdown);
  return renderOrThrow("blocks", { markdown }, markdown.length);
}

/** HTML of Markdown, without the page around it. */
export function renderFragment(markdown: string): Promise<string> {
  splitLines(markdown);
  return renderOrThrow("fragment", { markdown }, markdown.length);
}

/** A whole HTML page of a rich document. */
export async function renderNodesAsPage(title: string, nodes: readonly RichNode[]): Promise<string> {
  return htmlPage(title, await renderNodes("html", nodes));
}

/** Nodes of a rich document as Markdown or HTML. */
export function renderNodes(format: "markdown" | "html", nodes: readonly RichNode[]): Promise<string> {
  return renderOrThrow(`${format}_of_nodes`, { nodes }, JSON.stringify(nodes).length);
}

/** Nodes of Markdown or HTML, in the names of a dialect. */
export function readNodes(source: RichSource, dialect: Dialect): Promise<RichNode[]> {
  const text = "html" in source ? source.html : source.markdown;
  if ("markdown" in source) splitLines(text);
  return renderOrThrow("nodes", { source, dialect }, text.length);
}

/** Renders on the current thread. */
export async function render(request: RenderRequest): Promise<RenderResult> {
  try {
    return { output: await convert(request) };
  } catch (thrown) {
    if (thrown instanceof Fault) return thrown.data;
    // The stack ends before the limits of a package that recurses.
    if (thrown instanceof RangeError) return new Fault("payload_too_large", "The content nests too deep").data;
    throw thrown;
  }
}

async function convert(request: RenderRequest): Promise<Conversions[Kind]["output"]> {
  switch (request.to) {
    case "page":
      return await toHtml(request.title, request.markdown);
    case "blocks":
      return await parseBlocks(request.markdown);
    case "fragment":
      return nodesToHtml(await fromMarkdown(request.markdown));
    case "markdown_of_nodes":
      return await toMarkdown(fromDialect(request.nodes));
    case "html_of_nodes":
      return nodesToHtml(fromDialect(request.nodes));
    case "nodes": {
      const { source, dialect } = request;
      const nodes = "html" in source ? await fromHtml(source.html) : await fromMarkdown(source.markdown);
      // Within the limits of a document before it is sent back.
      return parseNodes(toDialect(nodes, dialect), "");
    }
  }
}

async function renderOrThrow<K extends Kind>(
  to: K,
  input: Conversions[K]["input"],
  chars: number,
): Promise<Conversions[K]["output"]> {
  const request = { to, ...input } as RenderRequest; // by the table of conversions
  const result = chars <= INLINE_MAX_CHARS[to] ? await render(request) : await renderInWorker(request, chars);
  if ("output" in result) return result.output as Conversions[K]["output"]; // by the table of conversions
  throw new Fault(result.code, result.message, result);
}

function renderInWorker(request: RenderRequest, chars: number): Promise<RenderResult> {
  const owner = currentAccount()?.key ?? "";
  const options = { timeoutMs: TIMEOUT_MS, workingBytes: chars * BYTES_PER_CHAR };
  return queue.run(owner, () => runInWorker<RenderResult>(WORKER, "rendering", request, options));
}
