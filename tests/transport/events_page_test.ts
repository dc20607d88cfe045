// `/docs/events`: the content of `/asyncapi.json` as a page without scripts, also for small screens.
import assert from "node:assert/strict";
import { hasBrowser, launchBrowser, openPage } from "../browser.ts";
import { openGateway } from "../harness.ts";

const SCREENSHOTS = Deno.env.get("DOCS_SCREENSHOT");

Deno.test("/docs/events names every event, code and limit of /asyncapi.json, and both pages link each other", async () => {
  await using gateway = await openGateway({ SVC_RATE_LIMIT: "on" });
  const anybody = gateway.withToken(undefined);
  const { body: document } = await anybody.get("/asyncapi.json");
  const { status, headers, body: page } = await anybody.get("/docs/events");
  assert.equal(status, 200);
  assert.match(headers.get("content-type") ?? "", /^text\/html/);
  const policy = headers.get("content-security-policy") ?? "";
  assert.match(policy, /^default-src 'none'; style-src 'sha256-[\w+/=]+';/);
  assert.doesNotMatch(policy, /unsafe|script-src/);
  assert.doesNotMatch(page, /<script|https?:\/\/(?!www\.apache)|style=|onload=/);
  for (const { type, scope } of gateway.app.modules.flatMap((module) => module.events ?? [])) {
    assert.ok(page.includes(`<summary><code>${type}</code>`), type);
    assert.ok(page.includes(`<code>${scope}</code>`), scope);
  }
  const ofGateway = page.slice(page.indexOf("Published by the gateway, not stored"));
  assert.match(ofGateway.slice(0, ofGateway.indexOf("<h3>Published by clients")), /<code>member\.read<\/code>/);
  for (const table of ["x-close-codes", "x-error-codes", "x-unsubscribe-codes"]) {
    for (const { code } of document[table]) assert.ok(page.includes(`<code>${code}</code>`), `${code}`);
  }
  for (const { name } of document["x-limits"]) assert.ok(page.includes(`<code>${name}</code>`), name);
  const ids = new Set([...page.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id));
  for (const [, id] of page.matchAll(/href="#([^"]+)"/g)) assert.ok(ids.has(id), `#${id} leads nowhere`);
  assert.match(page, /href="\.\.\/docs"/);
  assert.match(page, /<a href="\.\.\/">Web client<\/a>/);
  assert.match((await anybody.get("/docs")).body, /href="docs\/events"/);
});

Deno.test({
  name: "/docs/events renders under its policy on a screen of 360 px, light and dark",
  ignore: !hasBrowser,
  // The pipes of the browser close shortly after it.
  sanitizeOps: false,
  sanitizeResources: false,
  async fn() {
    await using gateway = await openGateway();
    const server = Deno.serve(
      { port: 0, hostname: "127.0.0.1", onListen: () => {} },
      (request) => gateway.app.fetch(request, "127.0.0.1"),
    );
    const browser = await launchBrowser();
    try {
      for (const colorScheme of ["light", "dark"] as const) {
        for (const width of [360, 1280]) {
          const page = await openPage(browser, { colorScheme, viewport: { width, height: 800 } });
          const complaints: string[] = [];
          page.on("console", (message) => message.type() === "error" && complaints.push(message.text()));
          await page.goto(`http://127.0.0.1:${server.addr.port}/docs/events`);
          const summary = page.locator("summary", { hasText: "message.created" }).first();
          await summary.click();
          const { overflow, lightness } = await page.evaluate(`({
            overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
            lightness: Number(getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0]),
          })`) as { overflow: number; lightness: number };
          assert.ok(overflow <= 0, `${overflow} px too wide at ${width}`);
          assert.equal(lightness > 128, colorScheme === "light", "the style is applied");
          assert.deepEqual(complaints, []);
          if (SCREENSHOTS !== undefined) await page.screenshot({ path: `${SCREENSHOTS}/${colorScheme}-${width}.png` });
          if (SCREENSHOTS !== undefined && colorScheme === "light") {
            await page.screenshot({ path: `${SCREENSHOTS}/full-${width}.png`, fullPage: true });
          }
          await page.context().close();
        }
      }
    } finally {
      await browser.close();
      await server.shutdown();
    }
  },
});
