// Two people with one document open in real browsers, and what the gateway has of it.
import assert from "node:assert/strict";
import type { Browser, Page } from "npm:playwright-core@1.65.1";
import { openPage } from "../../browser.ts";
import { eventually } from "../../wait.ts";
import type { EditorHost } from "./host.ts";

export const PATH = "/v1/collaboration/documents";

type Node = { type: string; text?: string; attrs?: Record<string, unknown>; content?: Node[]; marks?: unknown[] };
/** A gateway, whose address may change. */
export type Gateway = {
  url: () => string;
  // deno-lint-ignore no-explicit-any -- tests look into bodies of every shape
  call(sub: string, method: string, path: string, body?: unknown): Promise<any>;
  token(sub: string): Promise<string>;
};

/** Two people with a document open. */
export class Session {
  readonly id: string;
  readonly pages: Page[] = [];
  readonly #browser: Browser;
  readonly #gateway: Gateway;
  readonly #host: EditorHost;

  constructor(id: string, browser: Browser, gateway: Gateway, host: EditorHost) {
    this.id = id;
    this.#browser = browser;
    this.#gateway = gateway;
    this.#host = host;
  }

  async open(sub: string, color: string, url = this.#gateway.url()): Promise<Page> {
    const page = await openPage(this.#browser, { viewport: { width: 640, height: 520 } });
    this.pages.push(page);
    await this.visit(page, sub, color, url);
    return page;
  }

  async visit(page: Page, sub: string, color: string, url = this.#gateway.url()): Promise<void> {
    const token = await this.#gateway.token(sub);
    const fields = { url: `${url.replace(/^http/, "ws")}${PATH}/sync`, id: this.id, token, name: sub, color };
    await page.goto(`${this.#host.origin}/?${crypto.randomUUID()}#${new URLSearchParams(fields)}`);
    await page.waitForFunction("globalThis.editorPage?.status().isSaved");
  }

  // deno-lint-ignore no-explicit-any -- tests look into content of every format
  read(format = "text"): Promise<any> {
    return this.#gateway.call("ada", "GET", `${PATH}/${this.id}/content?format=${format}`);
  }

  /** Edits the current revision as a REST client. */
  async edit(sub: string, ...edits: unknown[]): Promise<void> {
    await eventually(async () => {
      const { revision } = await this.#gateway.call(sub, "GET", `${PATH}/${this.id}`);
      await this.#gateway.call(sub, "PATCH", `${PATH}/${this.id}/content`, {
        baseRevision: revision,
        onStale: "rebase",
        edits,
      });
    });
  }

  /** Waits until all pages show the nodes that the gateway has, and returns their text. */
  async converged(): Promise<string> {
    return await eventually(async () => {
      const { prosemirror } = await this.read("prosemirror");
      for (const content of await this.#contents()) {
        assert.deepEqual(normalForm(content as Node), normalForm(prosemirror));
      }
      return (await this.read()).text;
    });
  }

  /** Waits until all pages show the text that the gateway has, as `textOf` reads it from them, and returns it. */
  async convergedText(textOf: (content: unknown) => string): Promise<string> {
    return await eventually(async () => {
      const { text } = await this.read();
      for (const content of await this.#contents()) assert.equal(textOf(content), text);
      return text;
    });
  }

  async #contents(): Promise<unknown[]> {
    const states = await Promise.all(
      this.pages.map((page) => page.evaluate("({ content: editorPage.read(), isSaved: editorPage.status().isSaved })")),
    ) as { content: unknown; isSaved: boolean }[];
    assert.ok(states.every(({ isSaved }) => isSaved));
    return states.map(({ content }) => content);
  }

  async screenshot(name: string): Promise<void> {
    const folder = Deno.env.get("SCREENSHOTS");
    if (folder === undefined) return;
    for (const [at, page] of this.pages.entries()) await page.screenshot({ path: `${folder}/${name}_${at}.png` });
  }
}

/** What BlockNote has for attributes that are not set. */
const DEFAULTS: ReadonlySet<unknown> = new Set([null, undefined, "default", "left"]);

/** A document without what an editor adds to its own view of it: attributes by default, and the order of marks. */
function normalForm({ type, text, attrs = {}, content = [], marks = [] }: Node): unknown {
  const set = Object.entries(attrs).filter(([, value]) => !DEFAULTS.has(value)).sort();
  return {
    type,
    text,
    attrs: set,
    content: content.map(normalForm),
    marks: marks.map((mark) => normalForm(mark as Node)),
  };
}

export function run(page: Page, command: string, argument?: unknown): Promise<unknown> {
  return page.evaluate(`editorPage.run(${JSON.stringify(command)}, ${JSON.stringify(argument ?? null)})`);
}

/** Places the cursor at the end of the block that contains a word, once it is there. */
export async function focusBlock(page: Page, word: string): Promise<void> {
  await page.waitForFunction(`JSON.stringify(editorPage.read()).includes(${JSON.stringify(word)})`);
  await run(page, "focusBlock", word);
  await focused(page);
}

/** Places the cursor at the end of the document. */
export async function focusEnd(page: Page): Promise<void> {
  await run(page, "focusEnd");
  await focused(page);
}

/** Waits for the focus, which editors take in the next frame: keys before it are lost. */
async function focused(page: Page): Promise<void> {
  await page.evaluate("new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))");
  await page.waitForFunction("document.activeElement?.isContentEditable");
}

/** Types at the end of the block that contains a word. */
export async function typeAtEndOf(page: Page, word: string, text: string): Promise<void> {
  await focusBlock(page, word);
  await page.keyboard.type(text, { delay: 12 });
}

export function count(text: string, words: string): number {
  return text.split(words).length - 1;
}
