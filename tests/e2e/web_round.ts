// What two people do together again and again: chat, a thread, a task, a document, and a network that is cut.
import assert from "node:assert/strict";
import type { Locator, Page } from "npm:playwright-core@1.65.1";
import { eventually } from "../wait.ts";
import type { Target } from "./target.ts";
import { sees, write } from "./web_page.ts";

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

export async function openRoom(page: Page, name: string): Promise<void> {
  await page.getByRole("link", { name: new RegExp(name) }).first().click();
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

  for (const page of [ada, bob]) await openRoom(page, room);
  await ada.context().setOffline(true);
  if (round % 5 === 0) await target.process?.stop("SIGKILL");
  await write(ada, `Offline, round ${round}.`);
  if (round % 5 === 0) await target.process?.start();
  await ada.context().setOffline(false);
  await sees(bob, `Offline, round ${round}.`);
  await ada.locator(".unsent").waitFor({ state: "detached" });
}
