// What newcomers see first: where to go, what happened, and all of it on a phone.
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import type { Locator } from "npm:playwright-core@1.65.1";
import { DAY_MS } from "@/core/time/clock.ts";
import { browserTest, launchBrowser } from "../browser.ts";
import { eventually } from "../wait.ts";
import { openTarget } from "./target.ts";
import { assertNoReports, signIn, untilGone, visit } from "./web_page.ts";

const PHONE = { width: 360, height: 740 };
const TEXT =
  "## Answer\n\n- **Sow** the _beans_, see [the plan](https://plan.example)\n- `2 < 3` & <b>\n\n| a | b |\n|-|-|\n| c | d |";

/** Whether an element is between the edges of the screen. */
async function isOnPhone(element: Locator): Promise<boolean> {
  const { x = -1, width = 0 } = await element.boundingBox() ?? {};
  return x >= 0 && x + width <= PHONE.width;
}

browserTest("newcomers see what to do and what happened, also on a phone", async (t) => {
  await using target = await openTarget({ isOwn: true });
  const ada = await target.createPrincipal({ sub: "ada", name: "Ada", role: "owner" });
  const bob = await target.createPrincipal({ sub: "bob", name: "Bob" });
  const carol = await target.createPrincipal({ sub: "carol", name: "Carol" });
  await target.createPrincipal({ sub: "hook", name: "Deploy hook", kind: "service" });
  await target.createPrincipal({ sub: "max", name: "Maximilian Featherstone" });
  const post = (token: string, path: string, body: unknown) => target.call(token, "POST", path, body);
  const { id: roomId } = await post(ada, "/v1/rooms", {
    name: "garden",
    visibility: "public",
    memberIds: ["bob", "hook"],
  });
  const { id: replyToId } = await post(ada, "/v1/messages", { roomId, text: "What now?" });
  await post(bob, "/v1/messages", { roomId, text: TEXT, replyToId });
  const { id: documentId } = await post(ada, "/v1/collaboration/documents", {
    roomId,
    title: "Notes",
    text: "# Notes",
  });
  // The end of this week, which is furthest from where the calendar begins.
  const sunday = new Date(Date.now() + (7 - (new Date().getUTCDay() || 7)) * DAY_MS);
  const start = { dateTime: `${sunday.toISOString().slice(0, 10)}T12:00:00`, timeZone: "UTC" };
  await post(ada, "/v1/collaboration/calendar/events", { roomId, title: "Harvest", start });
  await using browser = await launchBrowser();
  await t.step("who is in no room is led to those that there are", async () => {
    const page = await signIn(browser, target, carol);
    const browse = page.getByRole("main").getByRole("button", { name: "Browse rooms" });
    await browse.waitFor();
    assert.match(await browse.getAttribute("class") ?? "", /primary/);
    assert.equal(await page.getByText("Create your first room").count(), 0);
    await page.locator("main button:focus", { hasText: "Browse rooms" }).waitFor();
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "Join" }).click();
    await page.getByText("What now?").first().waitFor();
    await page.close();
  });
  const page = await signIn(browser, target, ada);
  const open = (place: string) => visit(page, place);
  await t.step("the inbox and the search show texts without the marks of their formatting", async () => {
    const text = "Answer Sow the beans, see the plan 2 < 3 & <b> a b c d";
    await open("inbox");
    const entry = page.locator(".notification");
    await entry.getByText("Bob replied in garden").waitFor();
    assert.equal(await entry.locator("p").innerText(), text);
    await open("search?q=beans");
    const result = page.locator(".cards li p");
    await result.waitFor();
    assert.equal(await result.innerText(), text);
    assert.deepEqual(await result.locator("mark").allInnerTexts(), ["beans"]);
  });
  await t.step("a search is narrowed to a room, a person, a kind and days", async () => {
    const [result, none] = [page.locator(".cards li p"), page.getByText("Nothing was found.")];
    const person = page.getByLabel("Written by");
    await person.fill("Ad");
    await page.locator('datalist option[value="Ada (@ada)"]').waitFor({ state: "attached" });
    await person.fill("Ada (@ada)");
    await none.waitFor();
    await page.getByRole("button", { name: "Search everything" }).click();
    await result.waitFor();
    await page.getByLabel("Kind").selectOption("Tasks");
    await none.waitFor();
    await page.getByLabel("Kind").selectOption("Messages");
    await page.getByRole("combobox", { name: "Room" }).selectOption("garden");
    await page.getByLabel("To", { exact: true }).fill("2020-01-01");
    await none.waitFor();
    await page.getByLabel("To", { exact: true }).fill("2099-01-01");
    await result.waitFor();
    assert.match(page.url(), /q=beans&room=room_\w+&type=message&until=2099-01-01$/);
  });
  await t.step("people and agents are invited to events, not services", async () => {
    await open(`rooms/${roomId}/calendar`);
    await page.getByRole("button", { name: "New event" }).click();
    await page.getByRole("dialog").getByLabel("Bob").waitFor();
    assert.equal(await page.getByRole("dialog").getByLabel("Deploy hook").count(), 0);
    await page.keyboard.press("Escape");
  });
  await t.step("an event without a room is for those who are found by name", async () => {
    await open("calendar");
    await page.getByRole("button", { name: "New event" }).click();
    const dialog = page.getByRole("dialog", { name: "New event" });
    await dialog.getByLabel("Title").fill("Lunch");
    const day = new Date(sunday.getTime() + 60 * DAY_MS).toISOString().slice(0, 10);
    await dialog.getByLabel("Start").fill(`${day}T12:00`);
    // It stays as long as it is.
    assert.equal(await dialog.getByLabel("End").inputValue(), `${day}T13:00`);
    await dialog.getByLabel("End").fill(`${day}T12:25`);
    const bobs = dialog.getByRole("checkbox", { name: "Bob" });
    await bobs.check();
    const find = dialog.getByLabel("Find people to invite");
    await find.fill("Nobody");
    await find.press("Enter");
    await dialog.getByText("No person has this name.").waitFor();
    // Whom one has chosen stays.
    assert.ok(await bobs.isChecked());
    await dialog.getByRole("button", { name: "Create" }).click();
    // In the week of it, which is shown then.
    await page.getByRole("button", { name: "Lunch" }).waitFor();
    await open("search?q=Lunch");
    await page.getByRole("link", { name: "Lunch" }).click();
    await page.getByRole("dialog", { name: "Lunch" }).getByText("Bob").waitFor();
    await page.getByRole("dialog", { name: "Lunch" }).getByText("12:25").waitFor();
    await page.getByText("Reminder 10 minutes before").waitFor();
    await page.keyboard.press("Escape");
  });
  await t.step("an event may have several whole days", async () => {
    const [friday = "", last = ""] = [-2, 0].map((days) =>
      new Date(sunday.getTime() + days * DAY_MS).toISOString().slice(0, 10)
    );
    const dialog = page.getByRole("dialog", { name: "New event" });
    await page.getByRole("button", { name: "New event" }).click();
    await dialog.getByLabel("Title").fill("Retreat");
    await dialog.getByLabel("All day").check();
    await dialog.getByLabel("Last day").fill(friday);
    await dialog.getByLabel("First day").fill(friday);
    await dialog.getByLabel("Last day").fill(last);
    await dialog.getByLabel("Reminder").selectOption("on the day before");
    await dialog.getByRole("button", { name: "Create" }).click();
    const days = page.getByRole("button", { name: "Retreat" });
    await eventually(async () => assert.equal(await days.count(), 3));
    await days.first().click();
    await page.getByText(/ – .+, all day/).waitFor();
    await page.getByText("Reminder on the day before").waitFor();
    await page.getByRole("button", { name: "Edit", exact: true }).click();
    await page.getByLabel("Last day").fill(friday);
    await page.getByRole("button", { name: "Save" }).click();
    await eventually(async () => assert.equal(await days.count(), 1));
  });
  await t.step("an invitation leads to its event, and a change to the week of it", async () => {
    const dateTime = `${new Date(sunday.getTime() + 30 * DAY_MS).toISOString().slice(0, 10)}T12:00:00`;
    const path = "/v1/collaboration/calendar/events";
    const attendees = [{ principalId: "ada" }];
    const picnic = { roomId, title: "Picnic", start: { dateTime, timeZone: "UTC" }, attendees };
    const event = await post(bob, path, picnic);
    await open("inbox");
    await page.getByRole("link", { name: /Bob\s+invited you/ }).click();
    const dialog = page.getByRole("dialog", { name: "Picnic" });
    await dialog.getByRole("button", { name: "Yes" }).click();
    await dialog.locator("[aria-pressed=true]", { hasText: "Yes" }).waitFor();
    await page.keyboard.press("Escape");
    const { version } = await target.call(bob, "GET", `${path}/${event.id}`);
    const start = { dateTime: dateTime.replace("T12", "T15"), timeZone: "UTC" };
    await target.call(bob, "PATCH", `${path}/${event.id}`, { start, version });
    await open("inbox");
    await page.getByRole("link", { name: /moved an event/ }).click();
    await page.locator(".event", { hasText: "Picnic" }).waitFor();
  });
  await t.step("a document is created in a room from anywhere, and found by its title", async () => {
    await Promise.all(
      Array.from(
        { length: 10 },
        (_, n) => post(ada, "/v1/collaboration/documents", { roomId, title: `Page ${n}`, text: "" }),
      ),
    );
    await open("documents");
    await page.getByRole("button", { name: "New document" }).click();
    await page.getByRole("dialog").getByLabel("Title").fill("Seeds");
    await page.getByRole("dialog").getByRole("combobox", { name: "Room" }).selectOption("garden");
    await page.getByRole("button", { name: "Create" }).click();
    await page.locator(".page-head .back[href$=documents]").click();
    await page.getByRole("link", { name: "Page 1" }).waitFor();
    await page.getByLabel("Find by title").fill("seed");
    await untilGone(page.getByRole("link", { name: "Page 1" }));
    assert.match(await page.locator(".rows li").innerText(), /^Seeds/);
    const buffer = Buffer.from("# Weeds\n\nAll of them.\n");
    await page.getByLabel("Import Markdown").setInputFiles({ name: "old.md", mimeType: "text/markdown", buffer });
    await page.getByRole("heading", { name: "Weeds", level: 1 }).waitFor();
    await page.getByText("All of them.").waitFor();
  });
  await t.step("the description of a task is formatted, and its Markdown is edited", async () => {
    const task = await post(ada, "/v1/collaboration/tasks", { roomId, title: "Sow", description: TEXT });
    await open(`tasks/${task.id}`);
    const dialog = page.getByRole("dialog");
    const field = dialog.getByLabel("Description", { exact: true });
    const edit = dialog.getByRole("button", { name: "Edit description" });
    await dialog.locator(".text strong", { hasText: "Sow" }).waitFor();
    assert.equal(await field.count(), 0);
    await edit.click();
    await dialog.locator("textarea:focus").waitFor();
    assert.equal(await field.inputValue(), TEXT);
    await field.press("Tab");
    await untilGone(field);
    await edit.click();
    await field.fill("Sow _peas_");
    await field.press("Tab");
    await dialog.locator(".text em", { hasText: "peas" }).waitFor();
    assert.equal(await field.count(), 0);
    await page.keyboard.press("Escape");
    await untilGone(dialog);
    const path = `/v1/collaboration/tasks/${task.id}`;
    assert.equal((await target.call(ada, "GET", path)).description, "Sow _peas_");
    await target.call(ada, "DELETE", path);
  });
  await t.step("tasks are related, released, and changed together", async () => {
    const tasks = [];
    for (const title of ["Dig", "Fence", "Compost"]) {
      tasks.push(await post(ada, "/v1/collaboration/tasks", { roomId, title }));
    }
    const [dig, fence] = tasks;
    await post(bob, `/v1/collaboration/tasks/${dig.id}/claim`, {});
    await open(`rooms/${roomId}/tasks`);
    await page.locator(".task-card", { hasText: "Dig" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("button", { name: "release" }).click();
    await untilGone(dialog.getByText("Claimed by"));
    await dialog.getByRole("button", { name: "Add a relation" }).click();
    await dialog.getByLabel("Other task").fill("fenc");
    await dialog.getByRole("button", { name: fence.key }).click();
    await dialog.getByText("Blocks, to do").waitFor();
    await dialog.getByRole("link", { name: fence.key }).click();
    await dialog.getByText("Is blocked by, to do").waitFor();
    await dialog.getByRole("button", { name: `Remove the relation to ${dig.key}` }).click();
    await untilGone(dialog.getByText("Is blocked by, to do"));
    await dialog.getByLabel("Repeats").selectOption("every week");
    await dialog.getByLabel("Add a subtask").fill("Paint it");
    await dialog.getByLabel("Add a subtask").press("Enter");
    await dialog.getByRole("button", { name: "Paint it" }).click();
    await dialog.getByRole("button", { name: "another task" }).click();
    await dialog.getByLabel("Paint it is done").check();
    const { recurrence, subtaskCount } = await target.call(ada, "GET", `/v1/collaboration/tasks/${fence.id}`);
    assert.deepEqual([recurrence.rrule, subtaskCount], ["FREQ=WEEKLY", 1]);
    await target.call(ada, "PATCH", `/v1/collaboration/tasks/${fence.id}`, { recurrence: null });
    await dialog.getByRole("button", { name: "Close" }).click();
    await page.getByRole("button", { name: "Select", exact: true }).click();
    await page.locator(".task-card", { hasText: "Fence" }).click();
    await page.locator(".task-card", { hasText: "Compost" }).click();
    await page.getByText("2 tasks selected").waitFor();
    await page.getByLabel("Status", { exact: true }).selectOption("done");
    await page.getByText("Changed 2 tasks").waitFor();
    await page.getByRole("button", { name: "Done" }).click();
    const { items } = await target.call(
      ada,
      "GET",
      `/v1/collaboration/tasks?roomId=${roomId}&status=done&topLevel=true`,
    );
    assert.deepEqual(items.map(({ title }: { title: string }) => title).toSorted(), ["Compost", "Fence"]);
    for (const { id } of tasks) await target.call(ada, "DELETE", `/v1/collaboration/tasks/${id}`);
  });
  await t.step("the editor has no border of its own", async () => {
    await open(`documents/${documentId}`);
    await page.locator(".cm-content").click();
    await page.locator(".cm-editor.cm-focused").waitFor();
    assert.equal(await page.evaluate("getComputedStyle(document.querySelector('.cm-editor')).outlineStyle"), "none");
  });
  await t.step("an administrator gives the team a name", async () => {
    await open("admin");
    await page.getByLabel("Name of your team").fill("Gardeners");
    await page.getByLabel("Name of your team").press("Enter");
    await page.getByRole("heading", { name: "Gardeners" }).waitFor();
  });
  await page.setViewportSize(PHONE);
  await t.step("on a phone, a board begins with the first column that has a task", async () => {
    await post(ada, "/v1/collaboration/tasks", { roomId, title: "Rake the leaves", status: "blocked" });
    await open(`rooms/${roomId}/tasks`);
    const card = page.getByRole("button", { name: "Rake the leaves" });
    await card.waitFor();
    await eventually(async () => assert.ok(await isOnPhone(card)));
  });
  await t.step("on a phone, the calendar begins with today, and writes all times alike", async () => {
    await page.clock.setFixedTime(`${start.dateTime}Z`);
    await open("calendar");
    const today = page.locator(".day-column.today");
    await today.waitFor();
    await eventually(async () => assert.ok(await isOnPhone(today)));
    const topOf = async (name: string) => (await today.locator(name).boundingBox())?.y;
    await eventually(async () => assert.equal(await topOf(".now"), await topOf(".event"), "what begins now is there"));
    const [time = ""] = (await page.locator(".event span").innerText()).split(" · ");
    const shapes = (await page.locator(".hours span").allInnerTexts()).map((text) => text.replaceAll(/\d+/g, "0"));
    assert.ok(shapes.includes(time.replaceAll(/\d+/g, "0")), time);
    // A week later it begins with Monday, and the button leads back.
    await page.getByRole("button", { name: "Next week" }).click();
    await eventually(async () => assert.ok(await isOnPhone(page.locator(".day-column").first())));
    await page.getByRole("button", { name: "Today" }).click();
    await eventually(async () => assert.ok(await isOnPhone(today)));
  });
  await t.step("on a phone, the open tab and whole names of people are on the screen", async () => {
    await open("admin/jobs");
    await eventually(async () => assert.ok(await isOnPhone(page.locator(".sub-tabs .open", { hasText: "Jobs" }))));
    await open("admin/people");
    const name = page.locator(".person-link > span:last-child", { hasText: "Maximilian Featherstone" });
    await name.waitFor();
    const isWhole = await name.evaluate((element) => {
      const { scrollWidth, clientWidth } = element as unknown as { scrollWidth: number; clientWidth: number };
      return scrollWidth <= clientWidth;
    });
    assert.ok(isWhole);
  });
  await assertNoReports(page);
});
