// The editors that teams use, unmodified, in a real browser: two people each, a REST client and an agent between them, while the
// gateway is killed and started again. All see the same, nothing is lost, and nothing is there twice.
import assert from "node:assert/strict";
import type { Browser, Page } from "npm:playwright-core@1.65.1";
import { hasBrowser, launchBrowser } from "../browser.ts";
import { Cluster, hasServers } from "../fault/cluster.ts";
import { bundlePage, EditorHost } from "./editors/host.ts";
import { count, focusBlock, focusEnd, type Gateway, PATH, run, Session, typeAtEndOf } from "./editors/session.ts";
import { openTarget, type Target } from "./target.ts";

/** The browser is driven through pipes and timers that outlive single calls. */
const options = { ignore: !hasBrowser, sanitizeOps: false, sanitizeResources: false };

/** A gateway process with a document for Ada, Bob and an agent, and a browser with pages of an editor. */
class Fixture implements AsyncDisposable {
  readonly session: Session;
  readonly target: Target;
  readonly #stack: AsyncDisposableStack;

  private constructor(session: Session, target: Target, stack: AsyncDisposableStack) {
    this.session = session;
    this.target = target;
    this.#stack = stack;
  }

  static async open(editor: string, document: Record<string, unknown>): Promise<Fixture> {
    const stack = new AsyncDisposableStack();
    const host = stack.use(new EditorHost(await bundlePage(editor)));
    const target = stack.use(
      await openTarget({ isOwn: true, environment: { SVC_CORS_ALLOW_ORIGINS: host.origin } }),
    );
    const tokens = new Map<string, string>();
    for (const sub of ["ada", "bob"]) tokens.set(sub, await target.token({ sub }));
    tokens.set("bot", await target.token({ sub: "bot", kind: "agent", owner: "ada" }));
    const gateway: Gateway = {
      url: () => target.baseUrl,
      call: (sub, ...args) => target.call(tokens.get(sub) ?? "", ...args),
      token: (sub) => Promise.resolve(tokens.get(sub) ?? ""),
    };
    const id = await createDocument(gateway, [...tokens.keys()], document);
    const browser = stack.adopt(await launchBrowser(), (one: Browser) => one.close());
    return new Fixture(new Session(id, browser, gateway, host), target, stack);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#stack.disposeAsync();
  }
}

/** A document in a room of these principals, of which the first one owns it. */
async function createDocument(gateway: Gateway, subs: string[], document: Record<string, unknown>): Promise<string> {
  for (const sub of subs) await gateway.call(sub, "GET", "/v1/collaboration/me");
  const [owner = "", ...memberIds] = subs;
  const { id: roomId } = await gateway.call(owner, "POST", "/v1/rooms", { name: "Writers", memberIds });
  return (await gateway.call(owner, "POST", PATH, { roomId, title: "Story", ...document })).id;
}

/** Waits until a page says to its reader that the content was refused. */
async function refused(page: Page): Promise<void> {
  await page.waitForFunction("document.querySelector('p')?.textContent.includes('refused: content-refused')");
}

for (const [editor, name] of [["tiptap", "TipTap"], ["blocknote", "BlockNote"]] as const) {
  Deno.test({
    ...options,
    name: `two people, a REST client and an agent edit one rich document in ${name}, across a crash`,
    async fn() {
      await using fixture = await Fixture.open(editor, { kind: "rich" });
      const { session } = fixture;
      const ada = await session.open("ada", "#d6336c");
      const bob = await session.open("bob", "#1971c2");
      await focusEnd(ada);
      await ada.keyboard.type("Hello from Ada.", { delay: 12 });
      await bob.waitForFunction("JSON.stringify(editorPage.read()).includes('Hello from Ada.')");
      await focusBlock(bob, "from Ada");
      await bob.keyboard.press("Enter");
      await bob.keyboard.type("Bob was here.", { delay: 12 });
      await ada.waitForFunction("JSON.stringify(editorPage.read()).includes('Bob was here.')");

      // All at once: two people type, a REST client and an agent edit.
      await Promise.all([
        typeAtEndOf(ada, "from Ada", " She types on."),
        typeAtEndOf(bob, "Bob was", " He types as well."),
        session.edit("bob", { op: "replace", find: "Hello", with: "Greetings" }),
        session.edit("bot", { op: "append", text: "Written by an *agent*." }),
      ]);
      await run(ada, "bold", "Greetings");
      await run(bob, "table");
      let text = await session.converged();
      for (
        const words of ["Greetings from Ada. She types on.", "Bob was here. He types as well.", "Written by an agent."]
      ) {
        assert.equal(count(text, words), 1, text);
      }
      // A list of tasks, and an undo that takes back only one's own.
      await focusBlock(ada, "Written");
      await ada.keyboard.press("Enter");
      await run(ada, "tasks");
      await ada.keyboard.type("Check this", { delay: 12 });
      await session.converged();
      // Undo joins what was done within half a second.
      await bob.waitForTimeout(800);
      await typeAtEndOf(bob, "Bob was", " Regretted.");
      await ada.waitForFunction("JSON.stringify(editorPage.read()).includes('Regretted.')");
      await typeAtEndOf(ada, "She types", " and on");
      await run(bob, "undo");
      text = await session.converged();
      assert.deepEqual([count(text, "Regretted"), count(text, " and on")], [0, 1], text);
      const markdown = (await session.read("markdown")).text as string;
      assert.match(markdown, /\*\*Greetings\*\*/);
      assert.match(markdown, /- \[ \] Check this/);
      assert.match(markdown, /\| -/);
      await session.screenshot(`${editor}_together`);

      // A reload, and a crash during which both type.
      await session.visit(ada, "ada", "#d6336c");
      assert.equal(await session.converged(), text);
      await fixture.target.process?.stop("SIGKILL");
      await typeAtEndOf(bob, "Bob was", " Offline.");
      await typeAtEndOf(ada, "and on", " without a server");
      await fixture.target.process?.start();
      await bob.waitForFunction("editorPage.status().isSaved && editorPage.status().others === 1");
      text = await session.converged();
      assert.deepEqual([count(text, "Offline."), count(text, "without a server")], [1, 1], text);
      assert.equal(count(text, "Written by an agent."), 1);
      await session.screenshot(`${editor}_after_crash`);
      for (const page of session.pages) {
        assert.deepEqual(await page.evaluate("editorPage.status().refused"), []);
      }
    },
  });
}

for (const [editor, name] of [["codemirror", "CodeMirror"], ["quill", "Quill"]] as const) {
  Deno.test({
    ...options,
    name: `two people, a REST client and an agent edit one text in ${name}, across a crash`,
    async fn() {
      await using fixture = await Fixture.open(editor, { text: "Hello from REST.\n" });
      const { session } = fixture;
      // Quill has operations, of which the text is what they insert.
      const textOf = (content: unknown): string =>
        typeof content === "string" ? content : (content as { insert: string }[]).map(({ insert }) => insert).join("");
      const ada = await session.open("ada", "#d6336c");
      const bob = await session.open("bob", "#1971c2");
      await Promise.all([
        typeAtEndOf(ada, "Hello", " Ada types."),
        session.edit("bob", { op: "replace", find: "Hello", with: "Greetings" }),
        session.edit("bot", { op: "append", text: "Written by an agent.\n" }),
      ]);
      await typeAtEndOf(bob, "Written", " Bob types.");
      await run(ada, "bold", "Greetings");
      let text = await session.convergedText(textOf);
      assert.equal(text, "Greetings from REST. Ada types.\nWritten by an agent. Bob types.\n");
      await bob.waitForTimeout(1200);
      await typeAtEndOf(bob, "Written", " Regretted.");
      await ada.waitForFunction("JSON.stringify(editorPage.read()).includes('Regretted.')");
      await bob.keyboard.press("Control+z");
      assert.equal(await session.convergedText(textOf), text);
      if (editor === "quill") {
        for (const page of session.pages) {
          const [first] = await page.evaluate("editorPage.read()") as unknown[];
          assert.deepEqual(first, { attributes: { bold: true }, insert: "Greetings" });
        }
      }
      await session.screenshot(`${editor}_together`);
      await session.visit(ada, "ada", "#d6336c");
      await fixture.target.process?.stop("SIGKILL");
      await typeAtEndOf(bob, "Written", " Offline.");
      await typeAtEndOf(ada, "Greetings", " Without a server.");
      await fixture.target.process?.start();
      await bob.waitForFunction("editorPage.status().isSaved && editorPage.status().others === 1");
      text = await session.convergedText(textOf);
      assert.deepEqual([count(text, "Offline."), count(text, "Without a server.")], [1, 1], text);
      if (editor !== "quill") return;
      await run(ada, "image");
      await refused(ada);
      await typeAtEndOf(bob, "Written", " Still here.");
      await bob.waitForFunction("editorPage.status().isSaved");
      assert.equal(count((await session.read()).text, "Still here."), 1);
    },
  });
}

Deno.test({
  ...options,
  name: "TipTap on a text document shows that its content is refused, and the text stays as it was",
  async fn() {
    await using fixture = await Fixture.open("tiptap", { text: "plain" });
    const ada = await fixture.session.open("ada", "#d6336c");
    await focusEnd(ada);
    await ada.keyboard.type("lost?", { delay: 12 });
    await refused(ada);
    const [reason = ""] = await ada.evaluate("editorPage.status().closed") as string[];
    assert.match(reason, /create a document of the kind rich/);
    await fixture.session.screenshot("tiptap_refused");
    assert.equal((await fixture.session.read()).text, "plain");
  },
});

Deno.test({
  ...options,
  ignore: !hasBrowser || !hasServers,
  name: "two people edit one rich document through two nodes, and go on through one when the other is killed",
  async fn() {
    await using stack = new AsyncDisposableStack();
    const host = stack.use(new EditorHost(await bundlePage("tiptap")));
    const cluster = stack.use(await Cluster.openShared({ environment: { SVC_CORS_ALLOW_ORIGINS: host.origin } }));
    const gateway: Gateway = {
      url: () => cluster.node(1).url,
      call: (sub, ...args) => cluster.call(1, sub, ...args),
      token: (sub) => cluster.token(sub),
    };
    const id = await createDocument(gateway, ["ada", "bob"], { kind: "rich", text: "Start.\n\nSecond.\n" });
    const browser = stack.adopt(await launchBrowser(), (one: Browser) => one.close());
    const session = new Session(id, browser, gateway, host);
    const ada = await session.open("ada", "#d6336c", cluster.node(0).url);
    const bob = await session.open("bob", "#1971c2");
    await Promise.all([typeAtEndOf(ada, "Start", " From node one."), typeAtEndOf(bob, "Second", " From node two.")]);
    assert.equal(await session.converged(), "Start. From node one.\nSecond. From node two.");
    await cluster.node(0).stop("SIGKILL");
    await session.visit(ada, "ada", "#d6336c");
    await typeAtEndOf(ada, "Start", " Now from two.");
    assert.equal(await session.converged(), "Start. From node one. Now from two.\nSecond. From node two.");
  },
});
