// A real browser for tests of pages; those are ignored where none is installed.
import type { Browser } from "npm:playwright-core@1.65.1";
import { isQuick } from "./tier.ts";

const CHROMIUM = "/usr/bin/chromium";

export const hasBrowser = !isQuick && await Deno.stat(CHROMIUM).then(({ isFile }) => isFile, () => false);

/** Starts one. Its library is loaded only here: that takes longer than most tests. */
export async function launchBrowser(...args: string[]): Promise<Browser> {
  const { chromium } = await import("npm:playwright-core@1.65.1");
  return await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox", ...args] });
}
