// Hostile names and texts stay text wherever the client shows them, and screens have no serious accessibility findings.
import assert from "node:assert/strict";
import axe from "npm:axe-core@4.14.1" with { type: "text" };
import type { Page } from "npm:playwright-core@1.65.1";
import { browserTest, launchBrowser } from "../browser.ts";
import { eventually } from "../wait.ts";
import { openTarget } from "./target.ts";
import { authorizationAddress } from "./web_authorization.ts";
import { assertNoReports, signIn, visit } from "./web_page.ts";

const TEXTS = [
  "<script>globalThis.hacked = 1</script>",
  "<img src=x onerror='globalThis.hacked = 2'>",
  "<svg/onload=globalThis.hacked=3>",
  "[click](javascript:globalThis.hacked=4)",
  "[data](data:text/html,<script>globalThis.hacked=5</script>)",
  "![x](javascript:globalThis.hacked=6)",
  "![track](https://tracker.example/pixel.png)",
  '<a href="javascript:globalThis.hacked=7">x</a>',
  "`<b onmouseover=globalThis.hacked=8>`",
  "```html\n<iframe srcdoc='<script>parent.hacked = 9</script>'></iframe>\n```",
  "<style>* { display: none }</style>",
  "**<u onclick=globalThis.hacked=10>bold</u>**",
  "[a]: javascript:globalThis.hacked=11\n\n[a]",
  "&lt;script&gt;globalThis.hacked=12&lt;/script&gt; &#x3c;b&#x3e;",
  "| <img src=x onerror=globalThis.hacked=13> | b |\n|---|---|\n| <script>1</script> | 2 |",
  `${"*_".repeat(4000)}x`,
  `${"[".repeat(5000)}](`,
  "> ".repeat(300) + "deep",
  ">".repeat(16_000),
  "1. ".repeat(5000),
  "\u202egnp.exe \u2066x\u2069 Z\u0351\u036b\u0343\u036a\u0302\u036b algo",
  "https://exam\u202eelp.com/moc.live beside\n> a quote\n\n```\ncode\n```",
  "__proto__ constructor ${globalThis.hacked=14} {{constructor.constructor('globalThis.hacked=15')()}}",
];
const NAME = `"><img src=x onerror=globalThis.hacked=20>`;

browserTest("hostile texts stay text, and no screen has serious accessibility findings", async (t) => {
  await using target = await openTarget({ isOwn: true });
  const token = await target.createPrincipal({ sub: "ada", name: NAME, role: "owner" });
  const post = (path: string, body: unknown) => target.call(token, "POST", path, body);
  const { id: roomId } = await post("/v1/rooms", {
    name: NAME,
    topic: NAME,
    description: TEXTS[1],
    visibility: "public",
  });
  // Each replies to the one before, and quotes it.
  let before: { id: string } | undefined;
  for (const text of TEXTS) {
    const message = await post("/v1/messages", {
      roomId,
      text,
      ...before === undefined ? {} : { replyToId: before.id },
    });
    await target.call(token, "PUT", `/v1/messages/${message.id}/saved`, {});
    before = message;
  }
  const { id: taskId } = await post("/v1/collaboration/tasks", {
    roomId,
    title: NAME,
    description: TEXTS.join("\n\n").slice(0, 4000),
    labels: [NAME.slice(0, 50)],
  });
  const { id: documentId } = await post("/v1/collaboration/documents", {
    roomId,
    title: NAME,
    text: TEXTS.join("\n\n"),
  });
  const { id: deepId } = await post("/v1/collaboration/documents", { roomId, title: NAME, text: "> ".repeat(8000) });
  const { id: richId } = await post("/v1/collaboration/documents", {
    roomId,
    title: NAME,
    kind: "rich",
    text: TEXTS.filter((text) => text.length < 200).join("\n\n"),
  });
  await post(`/v1/collaboration/documents/${documentId}/comments`, { text: TEXTS[1] });
  const start = { dateTime: `${new Date().toISOString().slice(0, 10)}T12:00:00`, timeZone: "UTC" };
  await post("/v1/collaboration/calendar/events", { roomId, title: NAME, location: NAME, start });
  await using browser = await launchBrowser();
  const page = await signIn(browser, target, token);
  const requested: string[] = [];
  page.on("request", (request) => {
    if (!/^(data|blob):/.test(request.url()) && !request.url().startsWith(target.baseUrl)) {
      requested.push(request.url());
    }
  });
  const places = [
    "",
    `rooms/${roomId}`,
    `rooms/${roomId}?pane=members`,
    `rooms/${roomId}/tasks`,
    `rooms/${roomId}/documents`,
    `rooms/${roomId}/calendar`,
    `rooms/${roomId}/call`,
    `documents/${documentId}`,
    `documents/${richId}`,
    `documents/${deepId}`,
    "inbox",
    "threads",
    "later",
    "search?q=hacked",
    "people",
    "profile",
    "calendar",
    "tasks",
    `tasks/${taskId}`,
    "documents",
    "admin",
    "admin/people",
    "admin/invitations",
    "admin/agents",
    "admin/skills",
    "admin/plugins",
    "admin/webhooks",
    "admin/jobs",
    "admin/transfers",
    "admin/connections",
    "admin/audit",
    "admin/erasures",
    "admin/groups",
    "admin/holds",
    "admin/api",
    (await authorizationAddress(target, NAME)).replace(/^.*#\//, ""),
  ];
  for (const place of places) {
    await t.step(`#/${place.slice(0, 60)}`, async () => {
      await visit(page, place);
      await page.locator("main", { hasNotText: "Loading…" }).waitFor();
      if (place.endsWith(deepId)) await page.locator(".cm-line").waitFor();
      if (place.endsWith(richId)) await page.getByRole("toolbar", { name: "Formatting" }).waitFor();
      assert.equal(await page.evaluate("globalThis.hacked"), undefined);
      assert.equal(
        await page.evaluate("document.querySelectorAll('main script, main iframe, main [onerror]').length"),
        0,
      );
      await assertNoReports(page);
      await page.emulateMedia({ colorScheme: "light" });
      const find = await loadAxe(page);
      // A part of a place may be read later than its rest.
      await eventually(async () => assert.deepEqual(await find(), [], "light"));
      // Of all rules only this one is about colors.
      await page.emulateMedia({ colorScheme: "dark" });
      assert.deepEqual(await find({ runOnly: ["color-contrast"] }), [], "dark");
    });
  }
  await visit(page, `rooms/${roomId}`);
  await t.step("an address reads as it is, and blocks have space between them", async () => {
    const text = page.locator(".text", { hasText: "beside" });
    assert.equal(await text.getByRole("link").textContent(), "https://examelp.com/moc.live");
    for (const block of ["blockquote", ".code"]) {
      const margin = await page.evaluate(`getComputedStyle(document.querySelector(".text * + ${block}")).marginTop`);
      assert.equal(margin, "5px", block);
    }
  });
  assert.deepEqual(requested, [], "nothing is loaded from other hosts");
});

type Finding = { id: string; impact: string; nodes: { html: string }[] };

/** Loads axe in a world of its own, which the policy of the page does not bind, and returns what runs it. */
async function loadAxe(page: Page): Promise<(options?: object) => Promise<string[]>> {
  const session = await page.context().newCDPSession(page);
  const { frameTree } = await session.send("Page.getFrameTree");
  const { executionContextId: contextId } = await session.send("Page.createIsolatedWorld", {
    frameId: frameTree.frame.id,
  });
  await session.send("Runtime.evaluate", { contextId, expression: axe });
  return async (options = {}) => {
    const { result } = await session.send("Runtime.evaluate", {
      contextId,
      awaitPromise: true,
      returnByValue: true,
      expression: `axe.run(${JSON.stringify({ resultTypes: ["violations"], ...options })})` +
        ".then(({ violations }) => JSON.stringify(violations))",
    });
    return (JSON.parse(String(result.value)) as Finding[])
      .filter(({ impact }) => impact === "serious" || impact === "critical")
      .map(({ id, nodes }) => `${id}: ${nodes[0]?.html.slice(0, 200)}`);
  };
}
