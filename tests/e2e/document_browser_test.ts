// Two browsers edit one document while a program edits it over REST.
import assert from "node:assert/strict";
import type { Browser, Page } from "npm:playwright-core@1.65.1";
import { hasBrowser, launchBrowser, openPage } from "../browser.ts";
import { eventually } from "../wait.ts";
import { openTarget, type Target, uniqueName } from "./target.ts";

const PATH = "/v1/collaboration/documents";
const PAGE = new URL("document_page.ts", import.meta.url).pathname;
const HTML = `<!doctype html><meta charset="utf-8"><style>body{font:14px sans-serif;margin:16px}` +
  `.cm-editor{border:1px solid #bbb;min-height:200px}</style><body><script src="/page.js"></script>`;

async function bundle(): Promise<string> {
  const output = await Deno.makeTempFile({ suffix: ".js" });
  const args = ["bundle", "--quiet", "--no-lock", "--platform", "browser", "--output", output, PAGE];
  const { success, stderr } = await new Deno.Command(Deno.execPath(), { args, stderr: "piped", stdout: "null" })
    .output();
  assert.ok(success, new TextDecoder().decode(stderr));
  const script = await Deno.readTextFile(output);
  await Deno.remove(output);
  return script;
}

async function openEditor(browser: Browser, origin: string, fields: Record<string, string>): Promise<Page> {
  const page = await openPage(browser, { viewport: { width: 640, height: 420 } });
  await page.goto(`${origin}/#${new URLSearchParams(fields)}`);
  await page.waitForSelector(".cm-content");
  return page;
}

function linesOf(page: Page): Promise<string> {
  // The cursors of others are rendered inside the line, with their names.
  return page.$$eval(
    ".cm-line",
    (lines) =>
      (lines as unknown as {
        cloneNode(deep: true): { querySelectorAll(q: string): Iterable<{ remove(): void }>; textContent: string };
      }[])
        .map((line) => {
          const copy = line.cloneNode(true);
          for (const widget of copy.querySelectorAll(".cm-ySelectionCaret")) widget.remove();
          return copy.textContent;
        }).join("\n"),
  );
}

function converged(target: Target, token: string, id: string, pages: readonly Page[]): Promise<string> {
  return eventually(async () => {
    const { text } = await target.call(token, "GET", `${PATH}/${id}/content`);
    const shown = await Promise.all(pages.map(linesOf));
    assert.ok(shown.every((lines) => lines === text), `not the same: ${JSON.stringify({ text, shown })}`);
    return text;
  });
}

Deno.test({
  name: "two browsers and a REST client edit one document",
  ignore: !hasBrowser,
  // The browser is driven through pipes and timers that outlive single calls.
  sanitizeOps: false,
  sanitizeResources: false,
  async fn() {
    const script = await bundle();
    await using server = Deno.serve(
      { port: 0, hostname: "127.0.0.1", onListen() {} },
      ({ url }) =>
        new Response(url.endsWith("/page.js") ? script : HTML, {
          headers: { "content-type": url.endsWith("/page.js") ? "text/javascript" : "text/html" },
        }),
    );
    const origin = `http://127.0.0.1:${server.addr.port}`;
    await using target = await openTarget({ isOwn: true, environment: { SVC_CORS_ALLOW_ORIGINS: origin } });
    const subs = [uniqueName("ada"), uniqueName("bob")] as const;
    const tokens = await Promise.all(subs.map((sub) => target.token({ sub })));
    for (const token of tokens) await target.call(token, "GET", "/v1/collaboration/me");
    const [ada = "", bob = ""] = tokens;
    const room = await target.call(ada, "POST", "/v1/rooms", { name: "Writers", memberIds: [subs[1]] });
    const { id } = await target.call(ada, "POST", PATH, { roomId: room.id, title: "Story", text: "# Story\n\n" });

    const browser = await launchBrowser();
    try {
      const url = `${target.baseUrl.replace(/^http/, "ws")}${PATH}/sync`;
      const pages = await Promise.all([
        openEditor(browser, origin, { url, id, token: ada, name: "Ada", color: "#d6336c" }),
        openEditor(browser, origin, { url, id, token: bob, name: "Bob", color: "#1971c2" }),
      ]);
      const [left, right] = pages;
      assert.ok(left && right);
      await left.click(".cm-line:last-child");
      await right.click(".cm-line:first-child");
      await right.keyboard.press("End");
      const [adas, bobs] = ["Once upon a time there was a gateway.", " of two writers"];
      await Promise.all([
        left.keyboard.type(adas, { delay: 15 }),
        right.keyboard.type(bobs, { delay: 20 }),
        target.call(bob, "PATCH", `${PATH}/${id}/content`, {
          baseRevision: 1,
          onStale: "rebase",
          edits: [{ op: "append", text: "\n\n*The end.*" }],
        }),
      ]);
      const text = await converged(target, ada, id, pages);
      assert.equal(text, `# Story${bobs}\n\n${adas}\n\n*The end.*`);
      await left.waitForFunction("document.querySelector('p').textContent === 'saved, 2 here'");
      const folder = Deno.env.get("SCREENSHOTS");
      if (folder !== undefined) {
        await left.screenshot({ path: `${folder}/document_ada.png` });
        await right.screenshot({ path: `${folder}/document_bob.png` });
      }
      assert.equal(await left.locator(".cm-ySelectionInfo").textContent(), "Bob", "Ada sees Bob's cursor");
    } finally {
      await browser.close();
    }
  },
});
