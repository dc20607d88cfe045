// A document that two people have open in real browsers, and what the gateway has of it.
import assert from "node:assert/strict";
import type { Page } from "npm:playwright-core@1.65.1";
import { openPage } from "../../browser.ts";
import { eventually } from "../../wait.ts";
import { holds } from "./keys.ts";
import { PATH, PEOPLE, type Person, type Stage } from "./stage.ts";

const COLORS: Readonly<Record<Person, string>> = { ada: "#d6336c", bob: "#1971c2" };

type Node = { type: string; text?: string; attrs?: Record<string, unknown>; content?: Node[]; marks?: unknown[] };

/** An editor, and the kind of document that it is for. */
export type EditorName = "tiptap" | "blocknote" | "codemirror" | "quill";

export class Session {
  readonly editor: EditorName;
  readonly kind: "rich" | "text";
  readonly id: string;
  readonly #stage: Stage;
  readonly #pages = new Map<Person, Page>();

  private constructor(stage: Stage, editor: EditorName, kind: "rich" | "text", id: string) {
    this.#stage = stage;
    this.editor = editor;
    this.kind = kind;
    this.id = id;
  }

  /** Opens a new document for these people. */
  static async open(
    stage: Stage,
    editor: EditorName,
    document: { kind: "rich" | "text"; text?: string },
    people: readonly Person[] = PEOPLE,
  ): Promise<Session> {
    const { id } = await stage.call("ada", "POST", PATH, { roomId: stage.roomId, title: editor, ...document });
    const session = new Session(stage, editor, document.kind, id);
    await Promise.all(people.map(async (person) => {
      session.#pages.set(person, await openPage(stage.browser, { viewport: { width: 640, height: 520 } }));
      await session.visit(person);
    }));
    return session;
  }

  page(person: Person): Page {
    const page = this.#pages.get(person);
    assert.ok(page, person);
    return page;
  }

  /** Reloads the page, and waits until it has the document. */
  async visit(person: Person): Promise<void> {
    const { cluster, balancers, host } = this.#stage;
    const url = `${balancers[person].url.replace(/^http/, "ws")}${PATH}/sync`;
    const fields = { url, id: this.id, token: await cluster.token(person), name: person, color: COLORS[person] };
    const page = this.page(person);
    await page.goto(`${host.origin}/${this.editor}?${crypto.randomUUID()}#${new URLSearchParams(fields)}`);
    await holds(page, "globalThis.editorPage?.status().isSaved");
  }

  // deno-lint-ignore no-explicit-any -- tests look into content of every format
  read(format = "text"): Promise<any> {
    return this.#stage.call("ada", "GET", `${PATH}/${this.id}/content?format=${format}`);
  }

  /** Edits the current revision as a REST client, or as an agent. */
  async edit(sub: string, ...edits: unknown[]): Promise<void> {
    await eventually(async () => {
      const { revision } = await this.#stage.call(sub, "GET", `${PATH}/${this.id}`);
      await this.#stage.call(sub, "PATCH", `${PATH}/${this.id}/content`, {
        baseRevision: revision,
        onStale: "rebase",
        edits,
      });
    });
  }

  /** Waits until both have saved everything and have what the gateway has, with these words once each; returns the text. */
  async converged(...words: string[]): Promise<string> {
    await Promise.all(PEOPLE.map((person) => holds(this.page(person), "editorPage.status().isSaved")));
    return await eventually(async () => {
      const contents = await this.#contents();
      const { text } = await this.read();
      if (this.kind === "rich") {
        const { prosemirror } = await this.read("prosemirror");
        for (const content of contents) assert.deepEqual(normalForm(content as Node), normalForm(prosemirror));
      } else {
        for (const content of contents) assert.equal(textOf(content), text);
        assert.deepEqual(contents[0], contents[1]);
      }
      for (const word of words) assert.equal(text.split(word).length - 1, 1, `"${word}" once in ${text}`);
      return text;
    });
  }

  async #contents(): Promise<unknown[]> {
    const states = await Promise.all(
      PEOPLE.map((person) =>
        this.page(person).evaluate("({ content: editorPage.read(), isSaved: editorPage.status().isSaved })")
      ),
    ) as { content: unknown; isSaved: boolean }[];
    assert.ok(states.every(({ isSaved }) => isSaved));
    return states.map(({ content }) => content);
  }

  /** Takes pictures of both pages, for a person to look at, if a directory is configured for them. */
  async screenshot(name: string): Promise<void> {
    const folder = Deno.env.get("SCREENSHOTS");
    if (folder === undefined) return;
    for (const [person, page] of this.#pages) {
      await page.screenshot({ path: `${folder}/${this.editor}_${name}_${person}.png` });
    }
  }
}

/** Of Quill, which has operations, the text is what they insert. */
function textOf(content: unknown): string {
  return typeof content === "string" ? content : (content as { insert: string }[]).map(({ insert }) => insert).join("");
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
