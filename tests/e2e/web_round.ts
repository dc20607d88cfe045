// What two people do together again and again: chat, a thread, an agent, a task, a document, a call, and a network that is cut.
import assert from "node:assert/strict";
import type { Locator, Page } from "npm:playwright-core@1.65.1";
import { eventually } from "../wait.ts";
import type { Target } from "./target.ts";
import { sees, untilGone, write } from "./web_page.ts";

/** Rounds between two calls, and between two restarts. */
const CALL_EVERY = 4;
const RESTART_EVERY = 5;

/** The article of the message with this text. */
export function message(page: Page, text: string): Locator {
  return page.locator(".chat .message", { hasText: text }).first();
}

/** The text in the editor, without the names at the cursors of others. */
export function textOf(page: Page): Promise<string> {
  return page.locator(".cm-content").evaluate((content) => {
    type Node = {
      cloneNode(deep: true): Node;
      querySelectorAll(q: string): Iterable<Node>;
      remove(): void;
      textContent: string;
    };
    const copy = (content as unknown as Node).cloneNode(true);
    for (const caret of copy.querySelectorAll(".remote-caret")) caret.remove();
    return [...copy.querySelectorAll(".cm-line")].map((line) => line.textContent).join("\n");
  });
}

async function openRoom(page: Page, name: string): Promise<void> {
  await page.getByRole("link", { name: new RegExp(name) }).first().click();
}

/** A call of both, in which each sees the other and itself. */
export async function meet(ada: Page, bob: Page, room: string): Promise<void> {
  for (const page of [ada, bob]) {
    await openRoom(page, room);
    await page.getByRole("link", { name: "Call" }).click();
  }
  await ada.getByRole("button", { name: "Start a call" }).click();
  await bob.getByRole("button", { name: "Join" }).click();
  for (const page of [ada, bob]) {
    await eventually(async () => {
      const seconds = await page.locator(".participant video").evaluateAll((videos) =>
        (videos as unknown as { currentTime: number; videoWidth: number }[])
          .filter(({ videoWidth }) => videoWidth > 0).map(({ currentTime }) => currentTime)
      );
      const isSeen = seconds.length === 2 && seconds.every((at) => at > 0);
      assert.ok(isSeen, `videos at ${seconds}; ${await page.locator("main, .notices").allInnerTexts()}`);
    });
  }
  await bob.getByRole("button", { name: "Leave" }).click();
  await untilGone(ada.locator(".participant").nth(1));
  await ada.getByRole("button", { name: "End for all" }).click();
  await ada.getByText("No call is going on").waitFor();
}

/** An agent says what it is about to do, asks Ada, does it, and says so to both. */
async function askGardener(round: number, ada: Page, bob: Page): Promise<void> {
  await write(ada, `@gardener please create a task, round ${round}.`);
  for (const page of [ada, bob]) await page.locator(".run .text", { hasText: "I will" }).waitFor();
  await ada.locator(".approval", { hasText: `Water the plants, round ${round}` })
    .getByRole("button", { name: "Approve" }).click();
  for (const page of [ada, bob]) await sees(page, `The task is on your board, round ${round}.`);
}

/** One round in a room with a document of this title, and the text that is typed in it. */
export async function workTogether(
  round: number,
  { target, ada, bob, room, title }: { target: Target; ada: Page; bob: Page; room: string; title: string },
): Promise<void> {
  for (const page of [ada, bob]) await openRoom(page, room);
  await write(ada, `Ada, round ${round}.`);
  await sees(bob, `Ada, round ${round}.`);
  await write(bob, `Bob, round ${round}.`);
  await sees(ada, `Bob, round ${round}.`);
  await message(bob, `Ada, round ${round}.`).hover();
  await message(bob, `Ada, round ${round}.`).getByRole("button", { name: "Reply in thread" }).click();
  await write(bob, `Reply, round ${round}.`, ".pane");
  await message(ada, `Ada, round ${round}.`).getByRole("button", { name: /1 reply/ }).waitFor();
  await bob.locator(".pane").getByRole("button", { name: "Close" }).click();

  await askGardener(round, ada, bob);

  for (const page of [ada, bob]) await page.getByRole("link", { name: "Tasks" }).last().click();
  await ada.getByLabel("New task").fill(`Task ${round}.`);
  await ada.getByLabel("New task").press("Enter");
  await bob.getByLabel("To do").getByRole("button", { name: `Task ${round}.` }).focus();
  await bob.keyboard.press("Alt+ArrowRight");
  await ada.getByLabel("In progress").getByRole("button", { name: `Task ${round}.` }).waitFor();

  for (const page of [ada, bob]) {
    await page.getByRole("link", { name: "Documents" }).last().click();
    await page.getByRole("link", { name: title }).click();
    await page.locator(".cm-line").last().click();
    await page.locator(".cm-focused").waitFor();
  }
  await Promise.all([ada.keyboard.type(`Ada ${round}. `), bob.keyboard.type(`Bob ${round}. `)]);
  await eventually(async () => {
    const [adas, bobs] = [await textOf(ada), await textOf(bob)];
    assert.equal(adas, bobs);
    for (const letter of "AdaBob") assert.ok(adas.includes(letter));
  });

  if (round % CALL_EVERY === 0) await meet(ada, bob, room);

  for (const page of [ada, bob]) await openRoom(page, room);
  await ada.context().setOffline(true);
  if (round % RESTART_EVERY === 0) await target.process?.stop("SIGKILL");
  await write(ada, `Offline, round ${round}.`);
  if (round % RESTART_EVERY === 0) await target.process?.start();
  await ada.context().setOffline(false);
  await sees(bob, `Offline, round ${round}.`);
  await untilGone(ada.locator(".unsent"));
}
