// What a person does in an editor: places the cursor, types, and uses the editor's own commands.
import type { Page } from "npm:playwright-core@1.65.1";

export function run(page: Page, command: string, argument?: unknown): Promise<unknown> {
  return page.evaluate(`editorPage.run(${JSON.stringify(command)}, ${JSON.stringify(argument ?? null)})`);
}

/** Waits until something is true in a page, without asking in every frame, which takes the processor from those that work. */
export async function holds(page: Page, expression: string): Promise<void> {
  await page.waitForFunction(expression, undefined, { polling: 50 });
}

/** Waits until a page has these words. */
export async function seen(page: Page, words: string): Promise<void> {
  await holds(page, `JSON.stringify(editorPage.read()).includes(${JSON.stringify(words)})`);
}

/** Places the cursor at the end of the block that contains these words, once they are there. */
export async function focusBlock(page: Page, words: string): Promise<void> {
  await seen(page, words);
  await run(page, "focusBlock", words);
  await focused(page);
}

/** Places the cursor at the end of the document. */
export async function focusEnd(page: Page): Promise<void> {
  await run(page, "focusEnd");
  await focused(page);
}

/** Waits for the focus, which editors take in the next frame: keys before it are lost. */
async function focused(page: Page): Promise<void> {
  await page.evaluate("new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))");
  await holds(page, "document.activeElement?.isContentEditable");
}

/** Types as a person does, key by key. */
export async function type(page: Page, text: string): Promise<void> {
  await page.keyboard.type(text, { delay: 12 });
}

export async function typeAtEndOf(page: Page, words: string, text: string): Promise<void> {
  await focusBlock(page, words);
  await type(page, text);
}
