// What the page has read before something changed, and receives after that: the change, which it has seen, stays.
import assert from "node:assert/strict";
import type { Page, Route, WebSocketRoute } from "npm:playwright-core@1.65.1";
import { browserTest, launchBrowser } from "../browser.ts";
import { allEnded, eventually, until } from "../wait.ts";
import { openTarget } from "./target.ts";
import { assertNoReports, messagesOn, sees, signIn, untilGone, visit } from "./web_page.ts";

/** More than four pages of messages, which is as many as the page keeps. */
const NOTES = 310;
/** One more than the pane reads at first. */
const FILES = 31;

type Meanwhile = {
  /** Before the gateway is asked. */
  before?: () => Promise<unknown>;
  /** Once it has responded, and before the page receives that. */
  after: () => Promise<unknown>;
  // deno-lint-ignore no-explicit-any -- bodies of every shape
  change?: (body: any) => void;
};

/** What `start` makes the page read from a path arrives late. */
async function readLate(
  page: Page,
  path: RegExp,
  start: () => Promise<unknown>,
  { before, after, change }: Meanwhile,
): Promise<void> {
  const hold = async (route: Route): Promise<void> => {
    await before?.();
    const response = await route.fetch();
    const json = await response.json();
    await after();
    change?.(json);
    await route.fulfill({ response, json });
    await (await route.request().response())?.finished();
  };
  const { promise: isReceived, resolve, reject } = Promise.withResolvers<void>();
  await page.route(path, (route) => hold(route).then(resolve, reject), { times: 1 });
  await allEnded([page.waitForRequest(path), start()]);
  await isReceived;
  // What the page makes of it is drawn.
  await page.evaluate(
    "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))))",
  );
}

/** Passes on what the gateway sends to a page, and what it never said. */
async function relaySocket(page: Page): Promise<{
  publish(channel: string, data: unknown): void;
  /** From the next message with this text on, nothing is passed on. */
  holdFrom(text: string): void;
  /** Whether there has been one. */
  isHolding(): boolean;
  /** Passes on the rest: what has the text comes last, as that of another channel may, then all that follows. */
  release(): void;
  /** Once a message was updated, says that the first of them has missed events, and passes on the rest but for events. */
  failRecovery(): Promise<void>;
  /** Cuts the connection; the page learns from the next one that it has missed events. */
  missEvents(): Promise<void>;
}> {
  let socket: WebSocketRoute | undefined;
  let held: string[] | undefined;
  let from = "";
  let willMiss = false;
  await page.routeWebSocket(/\/ws$/, (opened) => {
    socket = opened;
    // Not what the connection before still receives while it is cut.
    let isMissing = willMiss;
    willMiss = false;
    opened.connectToServer().onMessage((message) => {
      if (isMissing && String(message).includes('"recovered":true')) {
        isMissing = false;
        return opened.send(String(message).replace('"recovered":true', '"recovered":false'));
      }
      if (held === undefined || held.length === 0 && !String(message).includes(from)) opened.send(message);
      else held.push(String(message));
    });
  });
  return {
    publish: (channel, data) => socket?.send(JSON.stringify({ push: { channel, pub: { data } } })),
    holdFrom: (text) => void ([held, from] = [[], text]),
    isHolding: () => (held ?? []).length > 0,
    release() {
      const lines = (held ?? []).flatMap((message) => message.split("\n"));
      const last = lines.filter((line) => line.includes(from));
      socket?.send([...lines.filter((line) => !line.includes(from)), ...last].join("\n"));
      held = undefined;
    },
    async missEvents() {
      willMiss = true;
      await socket?.close({ code: 1001 });
    },
    async failRecovery() {
      await until(() => held?.some((message) => message.includes('"message.updated"')) === true);
      const lines = (held ?? []).flatMap((message) => message.split("\n")).filter((line) => !line.includes('"pub":'));
      held = undefined;
      socket?.send(lines.join("\n").replace('"recovered":true', '"recovered":false'));
    },
  };
}

browserTest("what is received late undoes nothing that has been seen", async (t) => {
  await using target = await openTarget({ isOwn: true });
  const ada = await target.token({ sub: "ada", name: "Ada", role: "owner" });
  const bob = await target.createPrincipal({ sub: "bob", name: "Bob" });
  const post = (path: string, body: unknown, by = bob) => target.call(by, "POST", path, body);
  const createRoom = (name: string) => post("/v1/rooms", { name, memberIds: ["bob"] }, ada);
  const [plans, garden, shed] = [await createRoom("Plans"), await createRoom("Garden"), await createRoom("Shed")];
  const send = (room: { id: string }, text: string, more = {}) =>
    post("/v1/messages", { roomId: room.id, text, parseMentions: true, ...more });
  const edit = (id: string, text: string) => target.call(bob, "PATCH", `/v1/messages/${id}`, { text });
  const erase = (id: string) => target.call(bob, "DELETE", `/v1/messages/${id}`);
  const notes: { id: string; seq: number }[] = [];
  for (let n = 0; n < NOTES; n++) notes.push(await send(plans, `note ${n}`));
  await using browser = await launchBrowser();
  const page = await signIn(browser, target, ada);
  const room = (name: string) => page.locator(".sidebar .room", { hasText: name });
  const open = (place: string) => visit(page, place);
  const list = page.locator(".chat .messages");

  await t.step("a room that is read while a message comes counts that message", async () => {
    await open("inbox");
    await send(garden, "@ada one");
    const noise = await send(garden, "noise");
    await room("Garden").locator(".badge", { hasText: "1" }).waitFor();
    // Whether that one was unread is in no event, so the room is read again.
    await readLate(page, new RegExp(`/rooms/${garden.id}\\?`), () => erase(noise.id), {
      async after() {
        await send(garden, "@ada two");
        await room("Garden").locator(".badge", { hasText: "2" }).waitFor();
      },
      change: (body) => body.name = "Garden beds",
    });
    await room("Garden beds").waitFor();
    assert.equal(await room("Garden beds").locator(".badge").innerText(), "2");
  });

  await t.step("a room that is deleted while it is read stays away", async () => {
    await send(shed, "@ada one");
    const noise = await send(shed, "noise");
    await room("Shed").locator(".badge", { hasText: "1" }).waitFor();
    await readLate(page, new RegExp(`/rooms/${shed.id}\\?`), () => erase(noise.id), {
      async after() {
        await target.call(ada, "DELETE", `/v1/rooms/${shed.id}`);
        await untilGone(room("Shed"));
      },
    });
    assert.equal(await room("Shed").count(), 0);
  });

  await t.step("what is read elsewhere while a position is sent stays read", async () => {
    let last = { seq: 0 };
    await readLate(page, new RegExp(`/rooms/${garden.id}/read$`), () => room("Garden").click(), {
      async before() {
        await open("inbox");
        await page.getByRole("heading", { name: "Inbox" }).waitFor();
        last = await send(garden, "three");
        await page.locator(".room.unread", { hasText: "Garden" }).waitFor();
      },
      async after() {
        await target.call(ada, "PUT", `/v1/rooms/${garden.id}/read`, { seq: last.seq });
        await page.locator(".room:not(.unread)", { hasText: "Garden" }).waitFor();
      },
    });
    assert.equal(await page.locator(".room.unread", { hasText: "Garden" }).count(), 0);
  });

  const isOlder = /\/v1\/messages\?.*before=/;
  const isNewest = new RegExp(`/v1/messages\\?roomId=${plans.id}(?!.*(?:before|after|around)=)`);
  const note = (n: number) => page.locator(`.chat [data-id="${notes.at(n)?.id}"]`);
  const latest = page.getByRole("button", { name: "Latest" });
  const toOldest = async (): Promise<void> => {
    await open("inbox");
    await page.getByRole("heading", { name: "Inbox" }).waitFor();
    await open(`rooms/${plans.id}?message=${notes[0]?.id}`);
    await note(0).and(page.locator(".marked")).waitFor();
  };
  /** From the oldest messages to the newest ones, which are read late. */
  const jump = async (meanwhile: Meanwhile): Promise<void> => {
    await toOldest();
    await readLate(page, isNewest, () => latest.click(), meanwhile);
    await note(-1).waitFor();
  };

  await t.step("a message that came and was edited while the newest ones were read stays edited", async () => {
    let id = "";
    await jump({
      async before() {
        ({ id } = await send(plans, "Too early"));
        await sees(page, "Too early");
      },
      async after() {
        await edit(id, "In time");
        await sees(page, "In time");
      },
    });
    assert.ok((await messagesOn(page)).some((text) => text.includes("In time")));
  });

  await t.step("while a full window reads older messages, a new one leaves no gap", async () => {
    await toOldest();
    let reads = 0;
    await page.route(isOlder, async (route) => {
      const response = await route.fetch();
      if (++reads === 4) {
        await send(plans, "The newest one");
        await sees(page, "The newest one");
      }
      await route.fulfill({ response });
    });
    await latest.click();
    await note(-1).waitFor();
    await page.evaluate("globalThis.left = new WeakRef([...document.querySelectorAll('.chat article')].at(-1))");
    await eventually(async () => {
      await list.evaluate((element) => Object.assign(element, { scrollTop: 0 }));
      assert.ok(reads >= 4, `${reads} pages`);
    });
    // The page drops it at the other end.
    await untilGone(page.locator(".chat .message", { hasText: "The newest one" }));
    // Neither does it keep what was there in its memory.
    const devtools = await page.context().newCDPSession(page);
    await eventually(async () => {
      await devtools.send("HeapProfiler.collectGarbage");
      assert.ok(await page.evaluate("left.deref() === undefined"));
    });
    const shown = (await messagesOn(page)).map((text) => Number(/^note (\d+)$/.exec(text)?.[1])).filter((n) => n >= 0);
    assert.deepEqual(shown, shown.map((_, at) => (shown[0] ?? NaN) + at));
    await page.unrouteAll({ behavior: "wait" });
  });

  const relay = await relaySocket(page);
  await page.reload();
  await page.locator(".link-state.connected").waitFor();

  await t.step("a message that is counted before it arrives is counted once", async () => {
    await open("inbox");
    await send(garden, "four");
    await page.locator(".room.unread", { hasText: "Garden" }).waitFor();
    await readLate(page, new RegExp(`/rooms/${garden.id}/read$`), () => room("Garden").click(), {
      async before() {
        await open("inbox");
        await page.getByRole("heading", { name: "Inbox" }).waitFor();
        relay.holdFrom('"message.created"');
        await send(garden, "@ada five");
        await until(relay.isHolding);
      },
      after: () => Promise.resolve(),
    });
    const badge = room("Garden").locator(".badge");
    await badge.waitFor();
    relay.release();
    // After the message, so that it has arrived.
    await target.call(ada, "PATCH", `/v1/rooms/${garden.id}`, { name: "Garden gate" });
    await room("Garden gate").waitFor();
    assert.equal(await badge.innerText(), "1");
  });

  await t.step("messages that expire while they are read stay away", async () => {
    // The gateway still has them.
    await page.route(isOlder, (route) => route.abort());
    await jump({
      async after() {
        // Until the page has subscribed, it ignores what is published to it.
        await send(plans, "Before that");
        await sees(page, "Before that");
        const data = { roomId: plans.id, upToSeq: notes.at(-20)?.seq };
        relay.publish(`room:${plans.id}`, {
          type: "message.expired",
          at: new Date().toISOString(),
          actor: null,
          data,
        });
        await send(plans, "After that");
        await sees(page, "After that");
      },
    });
    assert.deepEqual([await note(-20).count(), await note(-19).count()], [0, 1]);
    await page.unrouteAll({ behavior: "wait" });
  });

  await t.step("what was missed while messages were read is read again", async () => {
    await open(`rooms/${plans.id}`);
    const id = notes.at(-1)?.id ?? "";
    relay.holdFrom('"subscribe":');
    await readLate(page, isNewest, () => page.reload(), {
      async after() {
        await edit(id, "Edited meanwhile");
        await allEnded([page.waitForResponse(isNewest), relay.failRecovery()]);
      },
    });
    await note(-1).getByText("Edited meanwhile").waitFor();
  });

  await t.step("a state that was read for a connection does not replace that of the next one", async () => {
    const pond = await createRoom("Pond");
    await open(`rooms/${plans.id}`);
    await room("Pond").waitFor();
    const isState = /\/collaboration\/sync/;
    await readLate(page, isState, () => relay.missEvents(), {
      async after() {
        await send(pond, "@ada one");
        await allEnded([page.waitForResponse(isState), relay.missEvents()]);
        await room("Pond").locator(".badge", { hasText: "1" }).waitFor();
      },
    });
    assert.equal(await room("Pond").locator(".badge").count(), 1);
  });

  await t.step("replies that expire leave the thread that is open", async () => {
    const reply = (text: string) => send(plans, text, { threadId: notes.at(-1)?.id });
    const [old] = [await reply("An old reply"), await reply("A new reply")];
    await open(`rooms/${plans.id}?thread=${notes.at(-1)?.id}`);
    const shown = (text: string) => page.locator(".pane .messages .message", { hasText: text });
    await shown("An old reply").waitFor();
    await reply("The last reply");
    await shown("The last reply").waitFor();
    const data = { roomId: plans.id, upToSeq: old.seq };
    relay.publish(`room:${plans.id}`, { type: "message.expired", at: new Date().toISOString(), actor: null, data });
    await untilGone(shown("An old reply"));
    assert.equal(await shown("A new reply").count(), 1);
  });

  await t.step("a pinned message that is edited or deleted is so beside the conversation, too", async () => {
    const { id } = await send(plans, "Pinned for now");
    await target.call(ada, "PUT", `/v1/messages/${id}/pin`);
    await open(`rooms/${plans.id}?pane=pins`);
    const pinned = (text: string) => page.locator(".pane li", { hasText: text });
    await pinned("Pinned for now").waitFor();
    await edit(id, "Pinned and edited");
    await pinned("Pinned and edited").waitFor();
    await erase(id);
    await untilGone(pinned("Pinned and edited"));
  });

  await t.step("a message that is pinned while the pinned ones are read stays pinned", async () => {
    const pin = (n: number) => target.call(ada, "PUT", `/v1/messages/${notes[n]?.id}/pin`);
    const pinned = (n: number) => page.locator(".pane li", { hasText: `note ${n}` });
    await pin(5);
    await open(`rooms/${plans.id}?pane=pins`);
    await pinned(5).waitFor();
    await readLate(page, /\/pins\?/, () => pin(6), {
      async after() {
        await pin(7);
        await pinned(7).waitFor();
      },
    });
    assert.equal(await pinned(7).count(), 1);
  });

  await t.step("a file that is sent while more are read stays there", async () => {
    const headers = { authorization: `Bearer ${bob}`, "content-type": "text/plain" };
    const path = `${target.baseUrl}/v1/collaboration/files?roomId=${plans.id}&name=`;
    const upload = async (name: string): Promise<string> =>
      (await (await fetch(`${path}${name}`, { method: "POST", headers, body: name })).json()).id;
    for (let n = 0; n < FILES; n++) await send(plans, "A file", { fileIds: [await upload(`${n}.txt`)] });
    const file = (name: string) => page.locator(".pane .file-card", { hasText: name });
    await open(`rooms/${plans.id}?pane=files`);
    await file(`${FILES - 1}.txt`).waitFor();
    const more = page.locator(".pane").getByRole("button", { name: "Show more" });
    await readLate(page, /\/files\?.*cursor=/, () => more.click(), {
      async after() {
        await send(plans, "A file", { fileIds: [await upload("new.txt")] });
        await file("new.txt").waitFor();
      },
    });
    assert.equal(await file("new.txt").count(), 1);
    await page.locator(".pane").getByRole("button", { name: "Close" }).click();
  });

  await t.step("a call that has ended while it was read is over", async () => {
    await open(`rooms/${plans.id}`);
    await untilGone(page.locator(".pane"));
    // The page may read it before the one who has started it knows its id.
    const { promise: started, resolve } = Promise.withResolvers<string>();
    const start = async () =>
      resolve((await post("/v1/collaboration/meetings", { roomId: plans.id, kind: "video" })).id);
    await readLate(page, /\/meetings\?/, start, {
      async after() {
        const id = await started;
        const isReadAgain = page.waitForResponse(async (response) =>
          response.url().includes("/meetings?") && (await response.json()).items.length === 0
        );
        await allEnded([isReadAgain, post(`/v1/collaboration/meetings/${id}/end`, {})]);
      },
    });
    assert.equal(await page.locator(".banner", { hasText: "A call is going on" }).count(), 0);
  });

  await t.step("a task that changes while it is read shows the change", async () => {
    const { id } = await post("/v1/collaboration/tasks", { roomId: plans.id, title: "First" });
    const change = (fields: unknown) => target.call(bob, "PATCH", `/v1/collaboration/tasks/${id}`, fields);
    await open(`rooms/${plans.id}/tasks?task=${id}`);
    const priority = page.getByLabel("Priority");
    await priority.waitFor();
    await readLate(page, new RegExp(`/tasks/${id}$`), () => change({ title: "Second" }), {
      async after() {
        await change({ priority: "high" });
        await eventually(async () => assert.equal(await priority.inputValue(), "high"));
      },
    });
    assert.equal(await priority.inputValue(), "high");
  });
  await assertNoReports(page);
});
