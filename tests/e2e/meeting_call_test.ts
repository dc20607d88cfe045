// Two browsers call each other through the gateway: real pages, fake cameras, the real client, and one that vanishes.
import assert from "node:assert/strict";
import type { Browser, Page } from "npm:playwright-core@1.65.1";
import { hasBrowser, launchBrowser, openPage } from "../browser.ts";
import { allEnded, eventually, pause } from "../wait.ts";
import { openTarget, type Target, uniqueName } from "./target.ts";

/** Where a page of a busy machine is silent for longer than the first, the next is taken. */
const LEASES_SECONDS = [6, 45];
const PATH = "/v1/collaboration/meetings";

type VideoState = { state: string; width: number; time: number; frames: number };
type Participation = { participantId: string; mode: string; participantCount: number };

/** Serves the page and the client's browser build, as an application of another origin. */
function servePage(): Deno.HttpServer<Deno.NetAddr> {
  const client = new URL("../dist/centrifuge.js", import.meta.resolve("npm:centrifuge@5.8.0"));
  return Deno.serve({ port: 0, hostname: "127.0.0.1", onListen: () => {} }, async ({ url }) => {
    if (new URL(url).pathname === "/centrifuge.js") {
      return new Response(await Deno.readTextFile(client), { headers: { "content-type": "text/javascript" } });
    }
    const page = await Deno.readTextFile(new URL("meeting_page.html", import.meta.url));
    return new Response(page, { headers: { "content-type": "text/html" } });
  });
}

function launch(): Promise<Browser> {
  return launchBrowser(
    "--use-fake-device-for-media-stream=fps=5",
    "--use-fake-ui-for-media-stream",
    "--allow-loopback-in-peer-connection",
    "--disable-features=WebRtcHideLocalIpsWithMdns",
    "--autoplay-policy=no-user-gesture-required",
  );
}

async function joinCall(browser: Browser, origin: string, target: Target, token: string, meeting: string) {
  const page = await openPage(browser);
  await page.goto(origin);
  const options = { gateway: target.baseUrl, token, meeting };
  const seat = await page.evaluate<Participation, typeof options>(
    (given) => (globalThis as unknown as { takePart(given: unknown): Promise<Participation> }).takePart(given),
    options,
  );
  return { page, seat };
}

function readVideoState(page: Page): Promise<VideoState> {
  return page.evaluate<VideoState>(() => (globalThis as unknown as { view(): Promise<VideoState> }).view());
}

function readLongestSilence(page: Page): Promise<number> {
  return page.evaluate<number>(() => (globalThis as unknown as { longestSilenceMs(): number }).longestSilenceMs());
}

/** Resolves to the first view that shows a moving picture. */
function waitForVideo(page: Page): Promise<VideoState> {
  return eventually(async () => {
    const before = await readVideoState(page);
    await pause(300);
    const after = await readVideoState(page);
    const isMoving = after.width > 0 && after.time > before.time && after.frames > before.frames;
    assert.ok(isMoving, `no picture: ${JSON.stringify([before, after])}`);
    return after;
  });
}

Deno.test({
  name: "two browsers see each other's pictures through our signalling, and one that vanishes is gone with its lease",
  ignore: !hasBrowser,
  async fn() {
    let isShown = false;
    for (const seconds of LEASES_SECONDS) isShown ||= await testCall(seconds);
    assert.ok(isShown, "pages send heartbeats within the lease");
  },
});

/** Resolves to false if a page was silent for longer than the lease, so that there is nothing to be seen. */
async function testCall(leaseSeconds: number): Promise<boolean> {
  const server = servePage();
  const origin = `http://127.0.0.1:${server.addr.port}`;
  const environment = {
    SVC_CORS_ALLOW_ORIGINS: origin,
    SVC_LIMIT_MEETING_LEASE_SECONDS: String(leaseSeconds),
    // The general rates as they are: a call must not need more.
    SVC_RATE_LIMIT: "on",
  };
  await using target = await openTarget({ isOwn: true, environment });
  const browser = await launch();
  const pages = new Set<Page>();
  const isAnySilent = async (): Promise<boolean> => {
    const silences = await Promise.all([...pages].map(readLongestSilence));
    return silences.some((ms) => ms >= leaseSeconds * 1000);
  };
  try {
    const [alice, bob, carol] = [uniqueName("alice"), uniqueName("bob"), uniqueName("carol")];
    const aliceToken = await target.createPrincipal({ sub: alice });
    const bobToken = await target.createPrincipal({ sub: bob });
    const carolToken = await target.createPrincipal({ sub: carol });
    const room = await target.call(aliceToken, "POST", "/v1/rooms", { name: "Call", memberIds: [bob, carol] });
    const meeting = await target.call(aliceToken, "POST", PATH, { roomId: room.id, kind: "video" });

    // A member of the room who is not in the call receives none of its signals.
    const listener = await target.connect(carolToken);
    const refused = listener.newSubscription(`meeting:${meeting.id}`);
    refused.subscribe();
    const verdict = await new Promise((resolve) => {
      refused.on("unsubscribed", ({ code }) => resolve(code));
      refused.on("subscribed", () => resolve("subscribed"));
    });
    assert.equal(verdict, 103);

    const first = await joinCall(browser, origin, target, aliceToken, meeting.id);
    pages.add(first.page);
    const second = await joinCall(browser, origin, target, bobToken, meeting.id);
    pages.add(second.page);
    assert.deepEqual([first.seat.mode, second.seat.mode], ["relay", "relay"]);
    assert.deepEqual([first.seat.participantCount, second.seat.participantCount], [1, 2]);
    const views = await allEnded([waitForVideo(first.page), waitForVideo(second.page)]);
    for (const view of views) {
      assert.equal(view.state, "connected");
      assert.equal(view.width, 320);
    }

    // Past the first lease both are still there: heartbeats carried them.
    await pause(leaseSeconds * 1000);
    assert.equal((await target.call(aliceToken, "GET", `${PATH}/${meeting.id}`)).participantCount, 2);

    if (await isAnySilent()) return false;
    pages.delete(second.page);
    await second.page.close({ runBeforeUnload: false });
    await eventually(async () => {
      await pause(100);
      const { items } = await target.call(aliceToken, "GET", `${PATH}/${meeting.id}/participants`);
      assert.equal(items.length, 1);
    });
    // The event comes from the sweep, once the job runner polls; and only once.
    const seen = async (): Promise<string[]> => {
      const { events } = await target.call(aliceToken, "GET", `/v1/rooms/${room.id}/events?after=0&limit=300`);
      return events.filter(({ type }: { type: string }) => type.startsWith("meeting.participant_"))
        .map(({ type, data }: { type: string; data: { meeting: { participantCount: number }; reason?: string } }) =>
          `${type} ${data.meeting.participantCount} ${data.reason ?? ""}`.trim()
        );
    };
    await eventually(async () => {
      await pause(100);
      assert.equal((await seen()).length, 3);
    });
    await pause(1000);
    assert.deepEqual(await seen(), [
      "meeting.participant_joined 1",
      "meeting.participant_joined 2",
      "meeting.participant_left 1 expired",
    ]);
    return true;
  } catch (error) {
    if (await isAnySilent()) return false;
    throw error;
  } finally {
    await browser.close();
    await server.shutdown();
  }
}
