// Rich documents in the browser client: two people format one document, and what the editor does not know is not destroyed.
import assert from "node:assert/strict";
import type { Page, WebSocketRoute } from "npm:playwright-core@1.65.1";
import * as Y from "yjs";
import { browserTest, launchBrowser } from "../browser.ts";
import { eventually } from "../wait.ts";
import { openTarget } from "./target.ts";
import { assertNoReports, holdTimers, signIn, untilGone, visit } from "./web_page.ts";

const PATH = "/v1/collaboration/documents";
/** Longer than a pane is wide. */
const PASSAGE = "Plan for little room: this passage is shown only in part where it stands beside the text in a pane.";

/** Puts the cursor behind a text, once the editor has the focus. */
async function clickEndOf(page: Page, text: string): Promise<void> {
  await page.locator(".ProseMirror").getByText(text).first().click();
  await page.locator(".ProseMirror-focused").waitFor();
  await page.keyboard.press("End");
  // The browser notifies the editor of a selection a moment later, at the next frame at the latest.
  await page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))");
}

/** Pastes HTML as the browser does, without a clipboard of the machine. */
async function paste(page: Page, html: string): Promise<void> {
  await page.locator(".ProseMirror").evaluate((editor, text) => {
    type Transfer = { setData(type: string, data: string): void };
    const { DataTransfer, ClipboardEvent } = globalThis as unknown as {
      DataTransfer: new () => Transfer;
      ClipboardEvent: new (type: string, init: Record<string, unknown>) => Event;
    };
    const clipboardData = new DataTransfer();
    clipboardData.setData("text/html", text);
    (editor as unknown as EventTarget).dispatchEvent(
      new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }),
    );
  }, html);
}

/** Pastes a file, or drops it in the middle of the document. */
async function giveFile(page: Page, type: "paste" | "drop", name: string, bytes: readonly number[]): Promise<void> {
  await page.evaluate(`(() => {
    const transfer = new DataTransfer();
    const type = ${JSON.stringify(name)}.endsWith("png") ? "image/png" : "text/plain";
    transfer.items.add(new File([new Uint8Array(${JSON.stringify(bytes)})], ${JSON.stringify(name)}, { type }));
    const editor = document.querySelector(".ProseMirror");
    const { x, y, width, height } = editor.getBoundingClientRect();
    const init = { bubbles: true, cancelable: true, clientX: x + width / 2, clientY: y + height / 2 };
    editor.dispatchEvent(${
    type === "paste"
      ? 'new ClipboardEvent("paste", { ...init, clipboardData: transfer })'
      : 'new DragEvent("drop", { ...init, dataTransfer: transfer })'
  });
  })()`);
}

browserTest("two people format a rich document in the client, which leaves alone what it does not know", async (t) => {
  await using target = await openTarget({ isOwn: true });
  const tokens = {
    ada: await target.createPrincipal({ sub: "ada", name: "Ada", role: "owner" }),
    bob: await target.createPrincipal({ sub: "bob", name: "Bob" }),
  };
  const room = await target.call(tokens.ada, "POST", "/v1/rooms", { name: "Writers", memberIds: ["bob"] });
  const text = "# Plan\n\nFirst words.\n\n- [ ] Buy paper\n\n| Name | Role |\n| - | - |\n| Ada | writes |\n\n" +
    PASSAGE;
  const { id } = await target.call(tokens.ada, "POST", PATH, { roomId: room.id, title: "Plan", kind: "rich", text });
  const markdown = async (): Promise<string> =>
    (await target.call(tokens.ada, "GET", `${PATH}/${id}/content?format=markdown`)).text;
  await using browser = await launchBrowser();
  const [ada, bob] = await Promise.all([signIn(browser, target, tokens.ada), signIn(browser, target, tokens.bob)]);
  for (const page of [ada, bob]) await visit(page, `documents/${id}`);
  for (const page of [ada, bob]) await page.locator(".ProseMirror h1", { hasText: "Plan" }).waitFor();

  await t.step("both see formatting, tasks, tables and each other's cursors", async () => {
    await clickEndOf(ada, "First words.");
    await bob.locator(".remote-caret", { hasText: "Ada" }).waitFor();
    await ada.keyboard.type(" Some **bold** ones.");
    await bob.locator(".ProseMirror strong", { hasText: "bold" }).waitFor();
    await bob.locator(".ProseMirror td", { hasText: "writes" }).waitFor();
    await bob.locator("[data-type=taskItem]", { hasText: "Buy paper" }).getByRole("checkbox").click();
    await ada.locator("[data-checked=true]", { hasText: "Buy paper" }).waitFor();
    await clickEndOf(bob, "writes");
    await bob.keyboard.press("Tab");
    await bob.keyboard.type("Bob");
    await ada.locator(".ProseMirror td", { hasText: "Bob" }).waitFor();
  });

  await t.step("the toolbar shows and changes the block, and undo reverts only own changes", async () => {
    await clickEndOf(ada, "First words.");
    await ada.keyboard.press("Enter");
    await ada.keyboard.type("A part");
    await ada.getByRole("button", { name: "Heading 2" }).click();
    await bob.locator(".ProseMirror h2", { hasText: "A part" }).waitFor();
    assert.equal(await ada.getByRole("button", { name: "Heading 2" }).getAttribute("aria-pressed"), "true");
    await ada.getByRole("button", { name: "Undo" }).click();
    await untilGone(bob.locator(".ProseMirror h2", { hasText: "A part" }));
    await bob.locator(".ProseMirror td", { hasText: "Bob" }).waitFor();
  });

  await t.step("pasted HTML keeps its formatting, and nothing that acts", async () => {
    await clickEndOf(ada, "First words.");
    await paste(
      ada,
      '<p>pasted <em>text</em> <a href="javascript:alert(1)">bad</a> <a href="https://example.com">good</a>' +
        "<script>alert(1)</script></p>",
    );
    await bob.locator(".ProseMirror em", { hasText: "text" }).waitFor();
    assert.deepEqual(
      await bob.locator(".ProseMirror a").evaluateAll((all) =>
        (all as unknown as { href: string }[]).map(({ href }) => href)
      ),
      ["https://example.com/"],
    );
  });

  await t.step("pictures that are pasted or dropped are uploaded, and shown to all readers", async () => {
    await clickEndOf(ada, "First words.");
    const picture = await ada.screenshot({ clip: { x: 0, y: 0, width: 40, height: 20 } });
    await giveFile(ada, "paste", "pasted.png", [...picture]);
    for (const page of [ada, bob]) await page.getByRole("img", { name: "pasted.png" }).waitFor();
    await giveFile(ada, "drop", "dropped.png", [...picture]);
    for (const page of [ada, bob]) await page.getByRole("img", { name: "dropped.png" }).waitFor();
    await giveFile(ada, "paste", "text.txt", [65]);
    await ada.getByText("text.txt is not a picture that browsers can show").waitFor();
    await eventually(async () =>
      assert.match(await markdown(), /!\[pasted\.png\]\(\/v1\/collaboration\/files\/file_\w+\/content\)/)
    );
  });

  await t.step("what is written is saved, and read as Markdown", async () => {
    await ada.getByText("Saved", { exact: true }).waitFor();
    await eventually(async () => {
      const stored = await markdown();
      assert.match(stored, /Some \*\*bold\*\* ones\./);
      assert.match(stored, /- \[x\] Buy paper/);
      assert.match(stored, /\| Bob +\|/);
      assert.match(stored, /\*text\*/);
    });
  });

  await t.step("a comment on a long passage is as wide as its pane, and paper has nothing but the text", async () => {
    await target.call(tokens.ada, "POST", `${PATH}/${id}/comments`, { text: "Why?", anchor: { text: PASSAGE } });
    await bob.getByRole("button", { name: "Comments" }).click();
    const pane = await bob.locator(".pane").boundingBox();
    const button = await bob.locator(".cards").getByRole("button", { name: "Reply" }).boundingBox();
    assert.ok((button?.x ?? Infinity) + (button?.width ?? 0) < (pane?.x ?? 0) + (pane?.width ?? 0));
    // A word of the passage, too.
    await clickEndOf(bob, "Plan");
    await bob.keyboard.press("Shift+Home");
    // The editor knows of the selection when others see it.
    await ada.locator("h1 .remote-selection", { hasText: "Plan" }).waitFor();
    await bob.getByLabel("Comment", { exact: true }).fill("Which?");
    await bob.getByLabel("Comment", { exact: true }).press("Enter");
    await bob.locator(".cards li", { hasText: "Which?" }).locator("blockquote", { hasText: /^Plan$/ }).waitFor();
    await bob.emulateMedia({ media: "print" });
    for (const part of [".sidebar", ".tools", ".pane"]) {
      assert.equal(await bob.locator(part).isVisible(), false, part);
    }
    assert.equal(await bob.evaluate("getComputedStyle(document.querySelector('.document')).overflowY"), "visible");
    await bob.emulateMedia({ media: null });
    await bob.locator(".pane").getByRole("button", { name: "Close" }).click();
  });

  await t.step("a new document is typed in while others rename and lock it, and without a network", async () => {
    const created = await target.call(tokens.ada, "POST", PATH, { roomId: room.id, title: "New", kind: "rich" });
    const path = `${PATH}/${created.id}`;
    const editor = ada.locator(".ProseMirror");
    const sockets: WebSocketRoute[] = [];
    let isOnline = true;
    await ada.routeWebSocket(/documents\/sync/, (socket) => {
      sockets.push(socket);
      if (isOnline) socket.connectToServer();
      else void socket.close();
    });
    await visit(ada, `documents/${created.id}`);
    await editor.click();
    await ada.keyboard.type("First,");
    await eventually(async () => {
      const { fragment, version } = await target.call(tokens.bob, "GET", path);
      assert.notEqual(fragment, null, "the content has named it");
      await target.call(tokens.bob, "PATCH", path, { title: "Renamed", version });
    });
    await eventually(async () => assert.equal(await ada.getByLabel("Title").inputValue(), "Renamed"));
    await ada.keyboard.type(" second,");
    await editor.getByText("First, second,").waitFor();
    await target.call(tokens.ada, "PATCH", path, { locked: true });
    await ada.getByText("This document is locked.").waitFor();
    await ada.locator(".ProseMirror[contenteditable=false]").waitFor();
    await target.call(tokens.ada, "PATCH", path, { locked: false });
    await ada.getByRole("button", { name: "Undo" }).click();
    await untilGone(editor.getByText("First, second,"));
    await ada.getByRole("button", { name: "Redo" }).click();
    await clickEndOf(ada, "First, second,");
    isOnline = false;
    for (const socket of sockets) await socket.close();
    await ada.locator(".page-head").getByText("Offline").waitFor();
    await ada.keyboard.type(" third");
    await ada.getByRole("link", { name: "All documents" }).click();
    await ada.getByRole("heading", { name: "Writers" }).waitFor();
    isOnline = true;
    await eventually(async () => {
      const { text } = await target.call(tokens.bob, "GET", `${path}/content?format=markdown`);
      assert.equal(text.trim(), "First, second, third");
    });
    await visit(ada, `documents/${id}`);
    await ada.locator(".ProseMirror h1").waitFor();
  });

  await t.step("an editor that was left ignores what its timers still do", async () => {
    await clickEndOf(ada, "Plan");
    await bob.locator(".remote-caret", { hasText: "Ada" }).waitFor();
    // Where others have their cursor is drawn by one.
    await holdTimers(ada, 0);
    await clickEndOf(bob, "writes");
    await eventually(async () => assert.notEqual(await ada.evaluate("held.size"), 0));
    await visit(ada, "inbox");
    await untilGone(bob.locator(".remote-caret", { hasText: "Ada" }));
    await ada.evaluate("release()");
    await visit(ada, `documents/${id}`);
    await ada.locator(".ProseMirror h1").waitFor();
  });

  await t.step("a node that the editor does not know ends editing, and stays", async () => {
    const headers = { Authorization: `Bearer ${tokens.ada}`, "Content-Type": "application/octet-stream" };
    const url = `${target.baseUrl}${PATH}/${id}/yjs`;
    const doc = new Y.Doc();
    Y.applyUpdate(doc, await (await fetch(url, { headers })).bytes());
    const before = Y.encodeStateVector(doc);
    const callout = new Y.XmlElement("callout");
    callout.insert(0, [new Y.XmlText("Do not lose this.")]);
    const fragment = doc.getXmlFragment("default");
    fragment.insert(fragment.length, [callout]);
    const update = new Uint8Array(Y.encodeStateAsUpdate(doc, before));
    const response = await fetch(url, { method: "POST", headers, body: update });
    assert.equal(response.status, 200, await response.text());
    for (const page of [ada, bob]) {
      await page.getByText("does not know (callout)").waitFor();
      await page.locator(".preview").getByText("Do not lose this.").waitFor();
      assert.equal(await page.locator(".ProseMirror").count(), 0);
    }
    assert.match(await markdown(), /Do not lose this\./);
  });

  await t.step("a person who has lost access reads that", async () => {
    await target.call(tokens.ada, "DELETE", `/v1/rooms/${room.id}/members/bob`);
    await bob.getByRole("alert").getByText("You no longer have access to this document.").waitFor();
    assert.equal(await bob.getByText("Private", { exact: true }).count(), 0, "it is still one of a room");
  });
  for (const page of [ada, bob]) await assertNoReports(page);
});
