// Dialogs: what is shown only once can be copied, and notices are a part of the dialog that is open.
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import type { Page } from "npm:playwright-core@1.65.1";
import { browserTest, launchBrowser } from "../browser.ts";
import { allEnded, eventually } from "../wait.ts";
import { openTarget } from "./target.ts";
import { assertNoReports, openClient, signIn, untilGone, visit } from "./web_page.ts";

/** Not a secure page, as that of a gateway in a local network. */
const LOCAL = "gateway.test";
const SECRET = /^\S{20,}$/;

/** What is selected in the field that has the focus. */
function selected(page: Page): Promise<string> {
  return page.evaluate(`(() => {
    const { value, selectionStart, selectionEnd } = document.activeElement;
    return value?.slice(selectionStart, selectionEnd) ?? "";
  })()`);
}

/** Lets the page copy in one of the two ways, or not at all. */
async function letCopy(page: Page, { clipboard, event }: { clipboard: boolean; event: boolean }): Promise<void> {
  await page.evaluate(`(() => {
    globalThis.copied = "";
    const writeText = async (text) => {
      if (!${clipboard}) throw new Error("Write permission denied.");
      globalThis.copied = text;
    };
    Object.defineProperty(navigator, "clipboard", { configurable: true, value: { writeText } });
    document.execCommand = () => {
      if (!${event}) return false;
      const clipboardData = new DataTransfer();
      document.dispatchEvent(new ClipboardEvent("copy", { clipboardData }));
      globalThis.copied = clipboardData.getData("text/plain");
      return true;
    };
  })()`);
}

/** Presses a button of a dialog, and waits for a notice in it: what is outside of it is below, and no screen reader says it. */
async function pressFor(page: Page, button: string, notice: RegExp): Promise<void> {
  const dialog = page.getByRole("dialog");
  // It is there for some seconds only.
  const isShown = dialog.getByRole("status").getByText(notice).first().waitFor();
  await allEnded([isShown, dialog.getByRole("button", { name: button }).click()]);
}

browserTest("dialogs show what is shown once, and what failed", async (t) => {
  await using target = await openTarget({ isOwn: true });
  const ada = await target.token({ sub: "ada", name: "Ada", role: "owner" });
  await using browser = await launchBrowser(`--host-resolver-rules=MAP ${LOCAL} 127.0.0.1`);
  const page = await signIn(browser, target, ada);
  const dialog = page.getByRole("dialog");
  const create = async (place: string, button: string, fields: Record<string, string>): Promise<void> => {
    await visit(page, place);
    await page.getByRole("button", { name: button, exact: true }).click();
    for (const [label, value] of Object.entries(fields)) await dialog.getByLabel(label).fill(value);
    await dialog.getByRole("button", { name: /^(Create|Install)$/ }).click();
  };
  const secretOf = async (label: string): Promise<string> => {
    const field = dialog.getByLabel(label, { exact: true });
    await field.waitFor();
    const value = await field.inputValue();
    assert.match(value, SECRET);
    return value;
  };

  await t.step("a secret is selected, and copied where the browser lets the page", async () => {
    await create("profile", "New token", { Name: "Deploy" });
    const secret = await secretOf("Token");
    await eventually(async () => assert.equal(await selected(page), secret));
    for (const way of [{ clipboard: true, event: false }, { clipboard: false, event: true }]) {
      await letCopy(page, way);
      await pressFor(page, "Copy", /^Copied$/);
      await eventually(async () => assert.equal(await page.evaluate("globalThis.copied"), secret));
    }
  });

  await t.step("where it does not, that is said, and the secret can be copied by hand", async () => {
    await letCopy(page, { clipboard: false, event: false });
    await pressFor(page, "Copy", /does not let this page copy/);
    const secret = await secretOf("Token");
    await eventually(async () => assert.equal(await selected(page), secret));
  });

  await t.step("a click beside it does not lose it", async () => {
    await page.mouse.click(5, 5);
    await secretOf("Token");
    await dialog.getByRole("button", { name: "Close" }).click();
    await untilGone(dialog);
  });

  await t.step("the next key is for the dialog, and after it for what had the focus", async () => {
    await visit(page, "profile");
    await page.getByRole("button", { name: "New token" }).waitFor();
    // Nothing but microtasks is before the next key, not even a frame.
    const focused = await page.evaluate(`(async () => {
        const click = async (name) => {
          const button = [...document.querySelectorAll("button")].find(({ textContent }) => textContent === name);
          button.focus();
          button.click();
          for (let turn = 0; turn < 100; turn++) await null;
          return document.activeElement;
        };
        return [(await click("New token")).closest("dialog[open]") !== null, (await click("Cancel")).textContent];
      })()`);
    assert.deepEqual(focused, [true, "New token"]);
  });

  await t.step("so are addresses of invitations, and secrets of webhooks and plugins", async () => {
    await create("admin/invitations", "New invitation", { For: "Design" });
    assert.match(await secretOf("Address of the invitation"), /^http:.+#invite=/);
    await page.keyboard.press("Escape");
    await create("admin/webhooks", "New webhook", { Address: "https://example.com/events" });
    const before = await secretOf("Secret");
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: /^Menu of/ }).click();
    await page.getByRole("menuitem", { name: "New secret" }).click();
    assert.notEqual(await secretOf("Secret"), before);
    await page.keyboard.press("Escape");
    const manifest = {
      id: "org.example.helper",
      name: "helper",
      version: "1.0.0",
      apiVersion: 1,
      transport: "http",
      endpoint: "https://example.com/plugin",
      scopes: ["command.read", "message.read"],
      hooks: [{ on: "message.before_send" }],
      commands: [{ name: "hello", description: "Says hello" }],
    };
    await create("admin/plugins", "Install", { Manifest: JSON.stringify(manifest) });
    const secrets = [await secretOf("Token"), await secretOf("Secret that signs calls")];
    await letCopy(page, { clipboard: true, event: false });
    for (const [at, secret] of secrets.entries()) {
      await dialog.getByRole("button", { name: "Copy" }).nth(at).click();
      await eventually(async () => assert.equal(await page.evaluate("globalThis.copied"), secret));
    }
    await page.keyboard.press("Escape");
  });

  await t.step("so are addresses of feeds and hooks, and secrets of slash commands", async () => {
    await visit(page, "calendar");
    await page.getByRole("button", { name: "Calendar menu" }).click();
    await page.getByRole("menuitem", { name: "Feeds" }).click();
    await dialog.getByRole("button", { name: "New feed" }).click();
    const feed = await fetch(await secretOf("Address"));
    assert.match(await feed.text(), /^BEGIN:VCALENDAR/);
    await page.keyboard.press("Escape");
    const { id } = await target.call(ada, "POST", "/v1/rooms", { name: "Builds" });
    const open = async (button: string): Promise<void> => {
      await page.getByRole("button", { name: "Room menu" }).click();
      await page.getByRole("menuitem", { name: "Room settings" }).click();
      await dialog.getByRole("button", { name: "Integrations" }).click();
      await dialog.getByRole("button", { name: button }).click();
    };
    await visit(page, `rooms/${id}`);
    await open("New hook");
    await dialog.getByLabel("Name").fill("CI");
    await dialog.getByRole("button", { name: "Create" }).click();
    const posted = await fetch(await secretOf("Address"), { method: "POST", body: "Built." });
    assert.equal(await posted.text(), "ok");
    await page.keyboard.press("Escape");
    await open("New command");
    const command = {
      Command: "/build",
      Description: "Builds",
      "Address of": "https://example.com/",
      "Name under": "CI",
    };
    for (const [label, value] of Object.entries(command)) await dialog.getByLabel(label).fill(value);
    await dialog.getByRole("button", { name: "Create" }).click();
    await secretOf("Secret");
    await page.keyboard.press("Escape");
  });

  await t.step(
    "an owner decides who finds a room and to whom agents respond, and only what is changed is sent",
    async () => {
      const room = await target.call(ada, "POST", "/v1/rooms", {
        name: "Attic",
        visibility: "public",
        topic: "Dust",
      });
      await visit(page, `rooms/${room.id}`);
      const change = async (label: string, option: string): Promise<void> => {
        await page.getByRole("button", { name: "Room menu" }).click();
        await page.getByRole("menuitem", { name: "Room settings" }).click();
        await dialog.getByLabel(label).selectOption(option);
        await dialog.getByRole("button", { name: "Save" }).click();
        await dialog.waitFor({ state: "detached" });
      };
      const read = () => target.call(ada, "GET", `/v1/rooms/${room.id}`);
      await change("Notify me about", "mentions only");
      assert.equal((await read()).version, room.version);
      await change("Who finds it", "only its members");
      await change("Agents respond", "never");
      const { visibility, topic, agentPolicy, version } = await read();
      assert.deepEqual({ visibility, topic, mode: agentPolicy.mode, version: version - room.version }, {
        visibility: "private",
        topic: "Dust",
        mode: "off",
        version: 2,
      });
      const plugin = "/v1/collaboration/plugins/org.example.helper";
      await target.call(ada, "POST", `${plugin}/grant`, { scopes: ["command.read", "message.read"] });
      await target.call(ada, "POST", `${plugin}/enable`, {});
      await page.getByRole("button", { name: "Room menu" }).click();
      await page.getByRole("menuitem", { name: "Room settings" }).click();
      await dialog.getByRole("button", { name: "Integrations" }).click();
      const filter = dialog.getByRole("listitem").filter({ hasText: "helper" });
      await filter.getByRole("button", { name: "Use" }).click();
      await filter.getByText("messages are sent while it fails").waitFor();
      await filter.getByRole("button", { name: "Stop" }).click();
      await filter.getByText("not used in this room").waitFor();
      await page.keyboard.press("Escape");
      const bot = await target.createPrincipal({ sub: "bot", name: "Bot", kind: "service" });
      await target.call(ada, "PUT", `/v1/rooms/${room.id}/members/bot`, {});
      const facts = "/v1/collaboration/memory/items";
      await target.call(bot, "POST", facts, { scope: { type: "room", id: room.id }, text: "It leaks" });
      await page.getByRole("button", { name: "Room menu" }).click();
      await page.getByRole("menuitem", { name: "Room settings" }).click();
      await dialog.getByRole("button", { name: "What agents know" }).click();
      await dialog.getByRole("button", { name: "Accept: It leaks" }).click();
      await untilGone(dialog.getByRole("button", { name: /^Accept/ }));
      await dialog.getByLabel("Add a fact").fill("It is dusty");
      await page.keyboard.press("Enter");
      await dialog.getByRole("button", { name: "Forget: It is dusty" }).waitFor();
      const known = await target.call(ada, "GET", `${facts}?scopeType=room&scopeId=${room.id}&status=active`);
      assert.deepEqual(known.items.map(({ text }: { text: string }) => text).toSorted(), ["It is dusty", "It leaks"]);
      await page.keyboard.press("Escape");
      await page.getByRole("button", { name: "2 members" }).click();
      await page.getByRole("complementary", { name: "Members" }).getByText("Dust").waitFor();
      // What members choose for themselves is changed in an archived room as well.
      await target.call(ada, "PATCH", `/v1/rooms/${room.id}`, { state: "archived" });
      await page.getByText("This room is archived.").waitFor();
      await change("Notify me about", "nothing");
      assert.notEqual((await read()).mySettings.mutedUntil ?? (await read()).mySettings.level, "mentions");
    },
  );
  await t.step("an export is downloaded, and imported", async () => {
    await visit(page, "admin/transfers");
    await page.getByRole("button", { name: "Export" }).click();
    await dialog.getByRole("button", { name: "Start" }).click();
    const [file] = await allEnded([
      page.waitForEvent("download"),
      page.getByRole("button", { name: "Download" }).click(),
    ]);
    await page.getByRole("button", { name: "Import" }).click();
    await dialog.getByLabel("From").selectOption("gateway");
    await dialog.getByLabel("Archive").setInputFiles(await file.path());
    await page.route("**/imports/*/content", (route) => {
      void dialog.getByRole("progressbar").waitFor().then(() => route.continue());
    });
    await dialog.getByRole("button", { name: "Upload" }).click();
    await page.locator("li", { hasText: "Import: Another gateway" }).getByText("done", { exact: true }).waitFor();
  });

  await t.step("a calendar file is imported, and what was left out is said", async () => {
    await visit(page, "calendar");
    await page.getByRole("button", { name: "Calendar menu" }).click();
    await page.getByRole("menuitem", { name: "Import a file" }).click();
    const day = `${new Date().toISOString().slice(0, 10).replaceAll("-", "")}`;
    const file = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//Test//EN"];
    for (const uid of ["1", "2"]) {
      file.push("BEGIN:VEVENT", `UID:${uid}`, `DTSTAMP:${day}T000000Z`, `SUMMARY:Harvest ${uid}`);
      file.push(...uid === "1" ? [`DTSTART:${day}T120000Z`] : [], "END:VEVENT");
    }
    await dialog.getByLabel("File", { exact: true }).setInputFiles({
      name: "team.ics",
      mimeType: "text/calendar",
      buffer: Buffer.from([...file, "END:VCALENDAR", ""].join("\r\n")),
    });
    await dialog.getByRole("button", { name: "Import" }).click();
    await dialog.getByText("1 event added").waitFor();
    await dialog.getByText("DTSTART is missing").waitFor();
    await dialog.getByRole("button", { name: "Close" }).click();
    await page.locator(".event", { hasText: "Harvest 1" }).waitFor();
  });

  await t.step("what is stored about a person can be forgotten by them", async () => {
    await target.call(ada, "POST", "/v1/collaboration/memory/items", {
      scope: { type: "tenant" },
      text: "Ada sows beans in May.",
      subjectIds: ["ada"],
    });
    await visit(page, "profile");
    await page.locator("li", { hasText: "Ada sows beans in May." }).getByRole("button").click();
    await dialog.getByRole("button", { name: "Forget" }).click();
    await page.getByText("Nothing is stored about you.").waitFor();
  });

  await t.step("a skill is attached and detached, and the index of the search rebuilt", async () => {
    await target.call(ada, "POST", "/v1/rooms", { name: "Minutes" });
    const content = "---\nname: minutes\ndescription: Writes minutes.\n---\n\nBe brief.\n";
    await target.call(ada, "POST", "/v1/collaboration/skills", { files: [{ path: "SKILL.md", content }] });
    await visit(page, "admin/skills");
    await page.getByRole("button", { name: "Approve" }).click();
    await untilGone(page.getByRole("button", { name: "Approve" }));
    await page.getByRole("button", { name: "Show" }).click();
    await dialog.getByText("Be brief.").waitFor();
    assert.equal(await dialog.getByText("description:").count(), 0);
    await dialog.getByLabel("Attach to").selectOption("room Minutes");
    await dialog.getByRole("button", { name: "Detach Minutes" }).click();
    await dialog.getByText("No agent or room has it yet.").waitFor();
    await page.keyboard.press("Escape");
    await visit(page, "admin/search");
    await page.getByText("Your team has no embedding model.").waitFor();
    await page.getByRole("button", { name: "Rebuild: Words" }).click();
    await allEnded([
      page.getByText("Rebuilding has started").waitFor(),
      dialog.getByRole("button", { name: "Rebuild" }).click(),
    ]);
  });

  await t.step("a hold is created, and released", async () => {
    await visit(page, "admin/people");
    await page.getByRole("button", { name: "Menu of Ada" }).click();
    await page.getByRole("menuitem", { name: "Legal hold" }).click();
    await dialog.getByLabel("Reason").fill("Case 17");
    await dialog.getByRole("button", { name: "Create" }).click();
    await page.locator("li", { hasText: "Case 17" }).getByRole("button", { name: "Release" }).click();
    await dialog.getByRole("button", { name: "Release" }).click();
    await page.getByText("No hold is in force.").waitFor();
    await page.getByLabel("State").selectOption("released");
    await page.locator("li", { hasText: "Case 17" }).getByText("released by Ada").waitFor();
  });

  await t.step("an erasure is counted, confirmed by the id, and cancelled", async () => {
    const bob = { id: "bob", kind: "human", displayName: "Bob" };
    await target.call(ada, "POST", "/v1/collaboration/principals", bob);
    const open = async (): Promise<void> => {
      await visit(page, "admin/people");
      await page.getByRole("button", { name: "Menu of Bob" }).click();
      await page.getByRole("menuitem", { name: "Erase" }).click();
    };
    await open();
    await dialog.getByRole("button", { name: "Only count" }).click();
    await page.locator("li", { hasText: "only counted" }).waitFor();
    await open();
    await dialog.getByLabel("Repeat the id").fill("bob");
    await dialog.getByRole("button", { name: "Erase" }).click();
    const row = page.locator("li", { hasText: "begins" });
    await row.waitFor();
    const isDisabled = async () => (await target.call(ada, "GET", "/v1/collaboration/principals/bob")).disabled;
    assert.ok(await isDisabled());
    await row.getByRole("button", { name: "Cancel" }).click();
    await page.getByText("cancelled", { exact: true }).waitFor();
    assert.ok(!await isDisabled());
  });

  await t.step("the audit log says what a person did, is verified and downloaded", async () => {
    await visit(page, "admin/people");
    await page.getByRole("button", { name: "Menu of Ada" }).click();
    await page.getByRole("menuitem", { name: "What they did" }).click();
    await page.locator("li", { hasText: "invitation.create" }).waitFor();
    await page.getByRole("button", { name: "Verify" }).click();
    await dialog.getByRole("button", { name: "Verify" }).click();
    await dialog.getByText("The log is intact").waitFor();
    await dialog.getByRole("button", { name: "Close" }).click();
    const [file] = await allEnded([
      page.waitForEvent("download"),
      page.getByRole("button", { name: "Download" }).click(),
    ]);
    assert.equal(file.suggestedFilename(), "audit.ndjson");
  });

  await t.step("why a form was refused is in its dialog", async () => {
    await visit(page, "admin/plugins");
    await page.getByRole("button", { name: "Install", exact: true }).click();
    await dialog.getByLabel("Manifest").fill("nonsense");
    await pressFor(page, "Install", /JSON/);
    assert.equal(await dialog.getByLabel("Manifest").inputValue(), "nonsense");
  });

  await t.step("neither Escape nor Ctrl+K loses what was entered, unless that is meant", async () => {
    const press = async (isMeant: boolean): Promise<void> => {
      page.once("dialog", (question) => void (isMeant ? question.accept() : question.dismiss()));
      await page.keyboard.press("Escape");
    };
    await press(false);
    await page.keyboard.press("Control+k");
    assert.equal(await dialog.getByLabel("Manifest").inputValue(), "nonsense");
    assert.match(page.url(), /#\/admin\/plugins$/);
    await press(true);
    await untilGone(dialog);
  });

  await t.step("a notice covers nothing that is used, and can be dismissed", async () => {
    await page.reload();
    await page.locator(".link-state.connected").waitFor();
    // It stays as long as this looks at it.
    await page.evaluate(`(() => {
        const start = setTimeout;
        globalThis.setTimeout = (work, ms, ...rest) => ms === 6000 ? 0 : start(work, ms, ...rest);
      })()`);
    await visit(page, "tasks/task_0123456789abcdef0123456789abcdef");
    const notice = page.locator(".notices > *");
    // It says why the dialog, which opens once the address is read, has closed.
    await notice.getByText(/No such task/).waitFor();
    await untilGone(dialog);
    const { x = 0, y = 0, width = 0, height = 0 } = await notice.boundingBox() ?? {};
    const below = `document.elementFromPoint(${x + width / 3}, ${y + height / 2}).closest(".notices, main").localName`;
    assert.equal(await page.evaluate(below), "main");
    await notice.getByRole("button", { name: "Dismiss" }).click();
    await untilGone(notice);
  });

  await t.step("in a local network, without https, a secret is copied", async () => {
    const local = await openClient(browser, target.baseUrl.replace("127.0.0.1", LOCAL));
    await local.getByLabel("Access token").fill(ada);
    await local.getByRole("button", { name: "Sign in" }).click();
    await local.locator(".sidebar .me", { hasText: "Ada" }).click();
    await local.getByRole("button", { name: "New token" }).click();
    await local.getByRole("dialog").getByLabel("Name").fill("Backup");
    await local.getByRole("dialog").getByRole("button", { name: "Create" }).click();
    await pressFor(local, "Copy", /^Copied$/);
    await local.context().close();
  });
  await assertNoReports(page);
});
