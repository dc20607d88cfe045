// `/docs` in a real browser: it renders under its own strict policy, and Authorize and Try it out work.
import assert from "node:assert/strict";
import axe from "npm:axe-core@4.14.1" with { type: "text" };
import type { Browser, Page } from "npm:playwright-core@1.65.1";
import { createHttpHandler } from "@/transport/http/server.ts";
import { hasBrowser, launchBrowser, openPage } from "../browser.ts";
import { createSampleGateway } from "./http_sample.ts";

const SCREENSHOT = Deno.env.get("DOCS_SCREENSHOT");

/** The background of the page, and whether its text is bright. */
const COLORS = `[
  getComputedStyle(document.documentElement).backgroundColor,
  Number(getComputedStyle(document.querySelector(".swagger-ui")).color.match(/\\d+/)[0]) > 180,
]`;
const COLORS_OF = { light: ["rgba(0, 0, 0, 0)", false], dark: ["rgb(28, 32, 34)", true] };

/** What the style of the page can do for accessibility. */
const FINDINGS = `axe.run(document, { runOnly: ["color-contrast", "select-name"] }).then(({ violations }) =>
  violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => id + " " + html)))`;

/** A path prefix of a proxy. */
const PREFIX = "/team/gateway";

Deno.test("/docs names no other host and has no inline script or style", async () => {
  const { call } = createSampleGateway();
  const page = await (await call("/docs", { token: null })).text();
  assert.doesNotMatch(page, /https?:\/\//);
  assert.doesNotMatch(page, /<style|style=|<script>|onload=/);
  assert.match(page, /href="openapi.json"/);
  assert.match(page, /<a href="\.\/">Web client<\/a>/);
  assert.doesNotMatch(page, /asyncapi/);
  for (const [, file = ""] of page.matchAll(/(?:src|href)="(docs\/[^"]+)"/g)) {
    const response = await call(`/${file}`, { token: null });
    assert.equal(response.status, 200, file);
    assert.match(response.headers.get("Content-Type") ?? "", /^(text\/css|text\/javascript|image\/svg\+xml)/);
    await response.body?.cancel();
  }
  for (const file of ["nope.js", "__proto__", "constructor", "..%2Fdeno.json"]) {
    assert.equal((await call(`/docs/${file}`)).status, 404);
  }
});

Deno.test("/docs/ redirects to /docs, also behind a path prefix", async () => {
  const { call } = createSampleGateway();
  const response = await call("/docs/", { token: null });
  assert.deepEqual([response.status, response.headers.get("Location")], [308, "../docs"]);
  assert.equal(new URL("../docs", "https://host.test/prefix/docs/").pathname, "/prefix/docs");
});

Deno.test("/docs, its files and the documents support 304 and gzip", async () => {
  const { call } = createSampleGateway({ corsOrigins: ["https://app.test"] });
  const get = (path: string, headers: Record<string, string> = {}, method = "GET") =>
    call(path, { token: null, method, headers });
  const files = ["swagger-ui.css", "swagger-ui-bundle.js", "page.css", "init.js", "favicon.svg"];
  for (const path of ["/docs", "/openapi.json", ...files.map((file) => `/docs/${file}`)]) {
    const plain = await get(path);
    const text = await plain.text();
    const isLong = text.length > 2000;
    const packed = await get(path, { "accept-encoding": "br, gzip;q=0.5" });
    assert.equal(packed.headers.get("Content-Encoding"), isLong ? "gzip" : null, path);
    const bytes = await packed.bytes();
    const stream = new Blob([bytes]).stream();
    const unpacked = isLong ? stream.pipeThrough(new DecompressionStream("gzip")) : stream;
    assert.equal(await new Response(unpacked).text(), text, path);
    assert.ok(!isLong || bytes.length < text.length / 2, path);
    const tags = [plain, packed].map(({ headers }) => headers.get("ETag") ?? "");
    assert.equal(new Set(tags).size, isLong ? 2 : 1, "different bytes have different ETags");
    for (const [n, tag] of tags.entries()) {
      assert.match(tag, /^"[\w-]+"$/, path);
      const accept: Record<string, string> = n === 0 ? {} : { "accept-encoding": "gzip" };
      for (const method of ["GET", "HEAD"]) {
        const again = await get(path, { ...accept, "if-none-match": `W/${tag}` }, method);
        assert.deepEqual([again.status, await again.text()], [304, ""], path);
        assert.deepEqual([again.headers.get("ETag"), again.headers.get("Cache-Control")], [tag, "no-cache"]);
        assert.equal(again.headers.get("Vary"), "Accept-Encoding, Origin");
        assert.equal(again.headers.get("Content-Encoding"), null);
      }
      assert.equal((await get(path, { ...accept, "if-none-match": '"another"' })).status, 200);
    }
    const head = await get(path, { "accept-encoding": "gzip" }, "HEAD");
    assert.equal(head.headers.get("Content-Length"), String(bytes.length), path);
  }
  for (const header of ["gzip;q=0", "identity", "br, *;q=0", "gzip;q=0, *", "gzipped"]) {
    const { headers } = await get("/docs/swagger-ui.css", { "accept-encoding": header });
    assert.equal(headers.get("Content-Encoding"), null, header);
  }
  for (const header of ["*", "GZIP", "deflate , gzip ; q=1.0"]) {
    const { headers } = await get("/docs/swagger-ui.css", { "accept-encoding": header });
    assert.equal(headers.get("Content-Encoding"), "gzip", header);
  }
});

Deno.test({
  name: "/docs works in a browser behind a path prefix, with Authorize and Try it out",
  ignore: !hasBrowser,
  fn: async () => {
    const { deps } = createSampleGateway();
    const http = createHttpHandler(deps);
    const server = Deno.serve(
      { port: 0, hostname: "127.0.0.1", onListen: () => {} },
      (request, { remoteAddr }) => http(unprefixed(request), remoteAddr.hostname),
    );
    let browser: Browser | undefined;
    try {
      browser = await launchBrowser(
        "--disable-gpu",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
      );
      const origin = `http://127.0.0.1:${server.addr.port}`;
      await tryOut(await openPage(browser), origin);
      for (const colorScheme of ["light", "dark"] as const) {
        const page = await openPage(browser, { colorScheme });
        await page.goto(`${origin}${PREFIX}/docs`);
        await page.locator(".btn.authorize").first().waitFor();
        assert.deepEqual(await page.evaluate(COLORS), COLORS_OF[colorScheme]);
        await page.locator("[data-tag=rooms]").first().click();
        await page.locator(".opblock").first().waitFor();
        await page.evaluate(axe);
        assert.deepEqual(await page.evaluate(FINDINGS), [], colorScheme);
      }
    } finally {
      await browser?.close();
      await server.shutdown();
    }
  },
});

/** The request without the path prefix, as a proxy forwards it; `undefined` if it has none. */
function unprefixed(request: Request): Request {
  const url = new URL(request.url);
  url.pathname = url.pathname.startsWith(PREFIX) ? url.pathname.slice(PREFIX.length) : "/nowhere";
  return new Request(url, request);
}

async function tryOut(page: Page, origin: string): Promise<void> {
  const errors: string[] = [];
  page.on("console", (message) => message.type() === "error" && errors.push(message.text()));
  page.on("pageerror", (error) => errors.push(error.message));
  page.on("requestfailed", (request) => errors.push(`failed: ${request.url()}`));
  page.on(
    "request",
    (request) => request.url().startsWith(origin) || request.url().startsWith("data:") || errors.push(request.url()),
  );

  await page.goto(`${origin}${PREFIX}/docs/`);
  await page.locator(".btn.authorize").first().click();
  await page.locator(".modal-ux input").fill("alice");
  await page.locator(".modal-ux .auth-btn-wrapper .authorize").click();
  await page.locator(".modal-ux .btn-done").click();

  await page.locator("[data-tag=rooms]").first().click();
  const operation = page.locator(".opblock", { hasText: "room.get" });
  await operation.locator(".opblock-summary-control").click();
  await operation.locator(".try-out__btn").click();
  await operation.locator(".execute").click();
  const response = operation.locator(".live-responses-table .response");
  await response.waitFor();
  const text = await response.innerText();
  if (SCREENSHOT !== undefined) await page.screenshot({ path: SCREENSHOT, fullPage: true });
  assert.match(text, /200/);
  assert.match(text, /"id": "room_1"/);
  assert.deepEqual(errors, []);
}
