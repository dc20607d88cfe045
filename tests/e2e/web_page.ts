// What the tests of the browser client share: a person at a browser, who sees the screen and nothing else.
import assert from "node:assert/strict";
import type { Browser, Locator, Page } from "npm:playwright-core@1.65.1";
import { openPage } from "../browser.ts";
import { eventually, until } from "../wait.ts";
import type { Target } from "./target.ts";

/** A page that fails its test if it reports anything: an error, or a breach of the content security policy. */
export async function openClient(browser: Browser, url: string, size = { width: 1280, height: 800 }): Promise<Page> {
  const page = await openPage(browser, { viewport: size });
  page.on("console", (message) => {
    const text = message.text();
    // A network that is cut, and calls that are refused on purpose, are logged by the browser itself.
    if (message.type() === "error" && !/Failed to load resource|^WebSocket /.test(text)) assert.fail(text);
  });
  await page.addInitScript(() => {
    const reports: string[] = [];
    Object.assign(globalThis, { reports });
    addEventListener("securitypolicyviolation", (event) => {
      const { violatedDirective, blockedURI } = event as Event & { violatedDirective: string; blockedURI: string };
      reports.push(`${violatedDirective} ${blockedURI}`);
    });
  });
  await page.goto(url);
  return page;
}

/** The address that a development gateway logs when it starts. */
export async function signInAddress({ process }: Target): Promise<string> {
  const find = (): string | undefined => /"url":"([^"]+#code=[\w-]+)"/.exec(process?.log ?? "")?.[1];
  await until(() => find() !== undefined);
  return (find() ?? "").replace("localhost", "127.0.0.1");
}

/** Signs in with an access token, as a person would paste it. */
export async function signIn(browser: Browser, target: Target, token: string): Promise<Page> {
  const page = await openClient(browser, target.baseUrl);
  await page.getByLabel("Access token").fill(token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.locator(".link-state.connected").waitFor();
  return page;
}

/**
 * Opens a place of the client by its address, and waits until the page knows. The browser notifies it after the address has
 * changed: who acts before that, as after `goto`, acts in the place that is left.
 */
export async function visit(page: Page, place: string): Promise<void> {
  await page.evaluate(`new Promise((resolve) => {
    const { hash } = new URL(${JSON.stringify(`#/${place}`)}, location.href);
    if (location.hash === hash) return resolve();
    addEventListener("hashchange", () => resolve(), { once: true });
    location.hash = hash;
  })`);
}

/**
 * Holds back the timers of a page that wait so long, and its frames, if these are meant, as on a machine that is busy. They are
 * in `held`; evaluate `release()` to let all happen.
 */
export async function holdTimers(page: Page, ms: number, areFramesHeld = false): Promise<void> {
  await page.evaluate(`(() => {
    const { setTimeout, clearTimeout, requestAnimationFrame } = globalThis;
    const held = globalThis.held = new Map();
    const hold = (work) => {
      held.set(-1 - held.size, work);
      return -held.size;
    };
    globalThis.setTimeout = (work, after, ...rest) =>
      after === ${ms} ? hold(() => work(...rest)) : setTimeout(work, after, ...rest);
    globalThis.clearTimeout = (id) => held.has(id) ? held.set(id, () => {}) : clearTimeout(id);
    if (${areFramesHeld}) globalThis.requestAnimationFrame = (work) => hold(() => work(performance.now()));
    globalThis.release = () => {
      Object.assign(globalThis, { setTimeout, clearTimeout, requestAnimationFrame });
      for (const work of held.values()) work();
    };
  })()`);
}

/** Holds back the effects of what is drawn, for which the page waits this long where no frame is drawn. */
export const holdEffects = (page: Page): Promise<void> => holdTimers(page, 35, true);

export async function write(page: Page, text: string, within = ".chat"): Promise<void> {
  const box = page.locator(`${within} .composer textarea`);
  await box.fill(text);
  await box.press("Enter");
}

/** Texts of the messages on the screen, in order. */
export function messagesOn(page: Page, within = ".chat"): Promise<string[]> {
  return page.locator(`${within} .messages .message .text`).allInnerTexts();
}

export async function sees(page: Page, text: string, within = ".chat"): Promise<void> {
  await eventually(async () => assert.ok((await messagesOn(page, within)).some((one) => one.includes(text)), text));
}

/** Rooms in which a caller has something unread, as the gateway knows it. */
export async function unreadRooms(target: Target, token: string): Promise<string[]> {
  const { items } = await target.call(token, "GET", "/v1/collaboration/unreads");
  const unread = items.filter(({ unreadCount }: { unreadCount: number }) => unreadCount > 0);
  return unread.map(({ roomId }: { roomId: string }) => roomId);
}

/** Until the page has no such element, however many it has now: to wait for one of several is refused by the library. */
export async function untilGone(elements: Locator): Promise<void> {
  await elements.first().waitFor({ state: "detached" });
}

export async function assertNoReports(page: Page): Promise<void> {
  assert.deepEqual(await page.evaluate("globalThis.reports"), []);
}
