// Every page on a phone: nothing is beyond its edges but what can be scrolled into view.
import assert from "node:assert/strict";
import { browserTest, launchBrowser } from "../browser.ts";
import { eventually } from "../wait.ts";
import { openTarget } from "./target.ts";
import { assertNoReports, signIn, visit } from "./web_page.ts";

const WIDTHS = [390, 320];
const LONG = "Großkleckersdorf-Hinterwäldlingen";

const PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";

/** What is beyond an edge of the screen, and in nothing that scrolls. */
const BEYOND = `(() => {
  const scrolls = (element) => element !== null && (/auto|scroll/.test(getComputedStyle(element).overflowX) ||
    scrolls(element.parentElement));
  return [...document.querySelectorAll("#app *")].filter((element) => {
    const { left, right, width, height } = element.getBoundingClientRect();
    const isBeyond = left < -1 || right > innerWidth + 1;
    return width > 0 && height > 0 && isBeyond && !scrolls(element.parentElement);
  }).map(({ tagName, className, textContent }) => [tagName, className, textContent.trim().slice(0, 40)].join(" "));
})()`;

browserTest("every page fits a narrow screen", async () => {
  await using target = await openTarget({ isOwn: true });
  const ada = await target.createPrincipal({ sub: "ada", name: `Ada ${LONG} von und zu ${LONG}`, role: "owner" });
  const bob = await target.createPrincipal({ sub: "bob", name: `كارول العربية ${LONG}` });
  const post = (path: string, body: unknown, by = ada) => target.call(by, "POST", `/v1/${path}`, body);
  await target.call(bob, "PATCH", "/v1/collaboration/me", { status: { text: `In ${LONG}${LONG}` } });
  const { id: roomId } = await post("rooms", { name: `Room ${LONG}${LONG}`, topic: LONG, memberIds: ["bob"] });
  const text = `@ada ${LONG}${LONG}${LONG} [link](https://example.com/${LONG}${LONG})\n\n> ${LONG}${LONG}`;
  const { id } = await post("messages", { roomId, text, parseMentions: true }, bob);
  await post("messages", { roomId, text, threadId: id }, bob);
  await target.call(ada, "PUT", `/v1/messages/${id}/pin`);
  const picture = await fetch(`${target.baseUrl}/v1/collaboration/files?name=${LONG}${LONG}.png`, {
    method: "POST",
    headers: { authorization: `Bearer ${ada}` },
    body: Uint8Array.fromBase64(PICTURE),
  });
  await post("messages", { roomId, fileIds: [(await picture.json()).id] });
  const task = await post("collaboration/tasks", { roomId, title: `Task ${LONG}${LONG}`, assigneeIds: ["ada"] });
  const document = await post("collaboration/documents", { roomId, title: `Page ${LONG}${LONG}`, text });
  await post("collaboration/webhooks", { url: `https://example.com/${LONG}${LONG}${LONG}` });
  await post("collaboration/invitations", { name: `For ${LONG}${LONG}` });
  await post("collaboration/tokens", { name: `Token ${LONG}${LONG}`, scopes: ["*"] });
  await post("collaboration/agents", { displayName: `Agent ${LONG}${LONG}` });
  /** Pages, each with what is in it once it has been read. */
  const pages: readonly (readonly [place: string, text: string])[] = [
    ["", "Room "],
    [`search?q=${LONG}&type=document`, "Page "],
    ["inbox", "mentioned you"],
    ["threads", "1 reply"],
    ["tasks", "Task "],
    [`tasks/${task.id}`, "Assignees"],
    ["documents", "Page "],
    [`documents/${document.id}`, "link"],
    ["calendar", "New event"],
    ["people", "كارول"],
    ["people/bob", "كارول"],
    ["profile", "Token "],
    ["admin", "Online in your rooms"],
    ["admin/people", "كارول"],
    ["admin/invitations", "For "],
    ["admin/agents", "Agent "],
    ["admin/skills", "No skills"],
    ["admin/plugins", "Install"],
    ["admin/webhooks", "example.com"],
    ["admin/jobs", "Refresh"],
    ["admin/transfers", "Nothing was imported"],
    ["admin/erasures", "No person was erased."],
    ["admin/groups", "No groups yet."],
    ["admin/holds", "No hold is in force."],
    ["admin/retention", "Rooms may store messages for fewer days."],
    ["admin/connections", "No servers."],
    ["admin/usage", "Stored files"],
    ["admin/audit", "webhook.create"],
    ["admin/api", "action.invoke"],
    [`rooms/${roomId}`, "1 reply"],
    [`rooms/${roomId}?thread=${id}`, "1 reply"],
    [`rooms/${roomId}?pane=members`, "owner"],
    [`rooms/${roomId}?pane=files`, "Files"],
    [`rooms/${roomId}?pane=pins`, LONG],
    [`rooms/${roomId}/tasks`, "Task "],
    [`rooms/${roomId}/documents`, "Page "],
    [`rooms/${roomId}/calendar`, "New event"],
    [`rooms/${roomId}/call`, "Join"],
  ];
  await using browser = await launchBrowser();
  const page = await signIn(browser, target, ada);
  for (const width of WIDTHS) {
    await page.setViewportSize({ width, height: 780 });
    for (const [place, shown] of pages) {
      await visit(page, place);
      const root = page.locator(place === "" ? ".sidebar" : /^tasks\/./.test(place) ? "dialog" : "main");
      const seen = root.getByText(shown).locator("visible=true").first();
      await eventually(async () => assert.ok(await seen.isVisible(), `/${place} at ${width}`));
      await eventually(async () => assert.deepEqual(await page.evaluate(BEYOND), [], `/${place} at ${width}`));
    }
  }
  await visit(page, `rooms/${roomId}`);
  await page.getByRole("button", { name: /^Open .+\.png$/ }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Download" }).waitFor();
  const beyond = "(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth)(document.querySelector('dialog'))";
  assert.equal(await page.evaluate(beyond), 0, "a picture with a long name");
  await page.keyboard.press("Escape");
  await visit(page, "search?q=Page");
  const sender = page.getByLabel("Written by");
  await sender.waitFor({ state: "hidden" });
  await page.getByText("Filters", { exact: true }).click();
  await sender.waitFor();
  // A screen that is touched, on which a field that has the focus opens a keyboard.
  const device = await page.context().newCDPSession(page);
  await device.send("Emulation.setTouchEmulationEnabled", { enabled: true });
  assert.equal(await page.evaluate("matchMedia('(pointer: coarse)').matches"), true);
  for (const [pane, focused] of [["pane=members", ".page-head h1"], [`thread=${id}`, `.chat [data-id="${id}"]`]]) {
    await visit(page, `rooms/${roomId}?${pane}`);
    await page.locator(".pane").getByRole("button", { name: "Close" }).click();
    await page.locator(`${focused}:focus`).waitFor();
  }
  await assertNoReports(page);
});
