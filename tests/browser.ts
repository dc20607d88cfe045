// A real browser for tests of pages; those are ignored where none is installed.
import assert from "node:assert/strict";
import type { Browser, BrowserContextOptions, Page } from "npm:playwright-core@1.65.1";
import { isQuick } from "./tier.ts";
import { WAIT_MS } from "./wait.ts";

/** What has no window needs a third less CPU. */
const CHROMIUM = isQuick ? undefined : await findFile("/usr/bin/chromium-headless-shell", "/usr/bin/chromium");

export const hasBrowser = CHROMIUM !== undefined;

/** A test with a browser, which is driven through pipes and timers that outlive single calls. */
export function browserTest(name: string, fn: (t: Deno.TestContext) => Promise<void>): void {
  Deno.test({ name, ignore: !hasBrowser, sanitizeOps: false, sanitizeResources: false, fn });
}

/** Starts one, with little shared memory, as in containers. Its library is loaded only here: that takes longer than most tests. */
export async function launchBrowser(...args: string[]): Promise<Browser> {
  const { chromium } = await import("npm:playwright-core@1.65.1");
  const flags = ["--no-sandbox", "--disable-dev-shm-usage", ...args];
  if (CHROMIUM === undefined) throw new Error("Chromium is not installed");
  return await chromium.launch({ executablePath: CHROMIUM, args: flags, timeout: WAIT_MS });
}

/** A page of its own, as patient as the tests. */
export async function openPage(browser: Browser, options: BrowserContextOptions = {}): Promise<Page> {
  const page = await (await browser.newContext(options)).newPage();
  page.setDefaultTimeout(WAIT_MS);
  page.on("pageerror", (error) => assert.fail(`the page failed: ${error.message}`));
  return page;
}

/** The first of these files that there is. */
async function findFile(...paths: string[]): Promise<string | undefined> {
  for (const path of paths) if (await Deno.stat(path).then(({ isFile }) => isFile, () => false)) return path;
  return undefined;
}
