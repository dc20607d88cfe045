// A call of people who lack a microphone or a camera: they read what to do, and still receive the others' media.
import assert from "node:assert/strict";
import type { Page } from "npm:playwright-core@1.65.1";
import { browserTest, launchBrowser } from "../browser.ts";
import { allEnded, eventually } from "../wait.ts";
import { openTarget } from "./target.ts";
import { assertNoReports, holdTimers, signIn, untilGone, visit } from "./web_page.ts";

type Video = { getVideoPlaybackQuality(): { totalVideoFrames: number } };

/** Widths of the pictures on the screen. */
function pictures(page: Page): Promise<number[]> {
  return page.locator(".participant video").evaluateAll((videos) =>
    (videos as unknown as { currentTime: number; videoWidth: number }[])
      .filter(({ currentTime }) => currentTime > 0).map(({ videoWidth }) => videoWidth).filter((width) => width > 0)
  );
}

/** From now on, the page notes each microphone and camera that it opens. */
async function noteOpened(page: Page): Promise<void> {
  await page.evaluate(`(() => {
    globalThis.opened = [];
    const open = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
    navigator.mediaDevices.getUserMedia = async (wanted) => {
      const stream = await open(wanted);
      opened.push(...stream.getTracks());
      return stream;
    };
  })()`);
}

/** Their states. */
function opened(page: Page): Promise<string[]> {
  return page.evaluate("opened.map(({ readyState }) => readyState)");
}

/** The page without these kinds of devices: the browser refuses them with an error of this name. */
async function refuse(page: Page, name: string, kinds: readonly ("audio" | "video")[]): Promise<void> {
  await page.evaluate(([name, ...kinds]) => {
    type Devices = { getUserMedia(wanted: Record<string, boolean>): Promise<unknown> };
    const { mediaDevices } = navigator as unknown as { mediaDevices: Devices };
    const open = mediaDevices.getUserMedia.bind(mediaDevices);
    mediaDevices.getUserMedia = (wanted) =>
      kinds.some((kind) => wanted[kind]) ? Promise.reject(new DOMException("", name)) : open(wanted);
  }, [name, ...kinds]);
}

browserTest("who has no microphone or camera is told what to do, and still sees the others", async (t) => {
  await using target = await openTarget({ isOwn: true });
  const ada = await target.createPrincipal({ sub: "ada", name: "ada", role: "owner" });
  const bob = await target.createPrincipal({ sub: "bob", name: "bob" });
  const carol = await target.createPrincipal({ sub: "carol", name: "carol" });
  const room = await target.call(ada, "POST", "/v1/rooms", { name: "Talk", memberIds: ["bob", "carol"] });
  await using browser = await launchBrowser(
    "--use-fake-ui-for-media-stream",
    // Connections send nothing of the second camera, which is one of depths. Few pictures, as a call takes CPU time as long as it lasts.
    "--use-fake-device-for-media-stream=device-count=3,fps=5",
    "--allow-loopback-in-peer-connection",
    "--disable-features=WebRtcHideLocalIpsWithMdns",
    "--autoplay-policy=no-user-gesture-required",
  );
  const enter = async (token: string, action: string, refused: [string, ...("audio" | "video")[]]): Promise<Page> => {
    const [name, ...kinds] = refused;
    const page = await signIn(browser, target, token);
    await refuse(page, name, kinds);
    await visit(page, `rooms/${room.id}/call`);
    await page.getByRole("button", { name: action }).click();
    await page.getByRole("button", { name: "Leave" }).waitFor();
    return page;
  };
  const button = (page: Page, name: string) => page.getByRole("button", { name, exact: true });
  const first = await enter(ada, "Start a call", [""]);
  await t.step("with both, nothing is missing", async () => {
    assert.ok(await button(first, "Mute").isEnabled());
    assert.ok(await button(first, "Stop camera").isEnabled());
    assert.equal(await first.locator(".call .banner").count(), 0);
  });
  await t.step("a member in another room is notified of a call, and one that rings can be declined", async () => {
    const page = await signIn(browser, target, bob);
    await visit(page, `rooms/${room.id}`);
    const notice = page.locator(".banner", { hasText: "A call is going on" });
    await notice.getByRole("link", { name: "Join" }).click();
    await button(page, "Join").waitFor();
    await untilGone(notice);
    await visit(page, "inbox");
    const direct = await target.call(carol, "POST", "/v1/rooms", { kind: "direct", memberIds: ["bob"] });
    const { id } = await target.call(carol, "POST", "/v1/collaboration/meetings", {
      roomId: direct.id,
      kind: "video",
    });
    await page.getByText("carol is calling you.").waitFor();
    await button(page, "Decline").click();
    await untilGone(page.getByText("carol is calling you."));
    assert.equal((await target.call(carol, "GET", `/v1/collaboration/meetings/${id}`)).state, "ended");
    await page.close();
  });
  await t.step("who joins while another one waits for the response to that is seen by both", async () => {
    const page = await signIn(browser, target, bob);
    let seat: { meeting: { id: string }; participantId: string } | undefined;
    await page.route("**/meetings/*/join", async (route) => {
      const response = await route.fetch();
      const { meeting: { id } } = await response.json();
      seat = await target.call(carol, "POST", `/v1/collaboration/meetings/${id}/join`, { deviceId: "phone" });
      // The page has read that again, because of the event.
      await page.getByText("3 participants so far.").waitFor();
      await route.fulfill({ response });
    });
    await visit(page, `rooms/${room.id}/call`);
    await button(page, "Join").click();
    for (const name of ["ada", "carol"]) await page.locator("figcaption", { hasText: name }).waitFor();
    assert.ok(seat !== undefined);
    const { meeting: { id }, participantId } = seat;
    await target.call(carol, "POST", `/v1/collaboration/meetings/${id}/leave`, { participantId });
    await untilGone(page.locator("figcaption", { hasText: "carol" }));
    await button(page, "Leave").click();
    await untilGone(first.locator("figcaption", { hasText: "bob" }));
    await page.close();
  });
  await t.step("who mutes the microphone before the event of joining is there stays muted", async () => {
    const page = await signIn(browser, target, bob);
    const held: (() => void)[] = [];
    let isHeld = false;
    const { promise: hasJoined, resolve } = Promise.withResolvers<number>();
    await page.routeWebSocket(/\/ws$/, (socket) => {
      const server = socket.connectToServer();
      server.onMessage((message) => {
        if (!isHeld) return socket.send(message);
        held.push(() => socket.send(message));
        if (String(message).includes("meeting.participant_joined")) resolve(held.length);
      });
    });
    await page.reload();
    await visit(page, `rooms/${room.id}/call`);
    await button(page, "Join").waitFor();
    isHeld = true;
    await button(page, "Join").click();
    await button(page, "Mute").click();
    await button(page, "Unmute").waitFor();
    for (const release of held.slice(0, await hasJoined)) release();
    const isEnabled = await page.evaluate(
      "document.querySelector('.participant video').srcObject.getAudioTracks()[0].enabled",
    );
    assert.equal(isEnabled, false);
    assert.equal(await button(page, "Unmute").count(), 1);
    isHeld = false;
    await button(page, "Leave").click();
    await untilGone(first.locator("figcaption", { hasText: "bob" }));
    await page.close();
  });
  await t.step(
    "muted, and without the camera, one stays so after a look at the chat, and others see it",
    async () => {
      const page = await enter(bob, "Join", [""]);
      await button(page, "Mute").click();
      await button(page, "Stop camera").click();
      await first.locator("figcaption", { hasText: "bob (muted)" }).waitFor();
      const bobs = first.locator(".participant", { hasText: "bob" });
      await bobs.locator(".large-avatar").waitFor();
      await page.getByRole("link", { name: "Chat" }).click();
      await page.getByRole("link", { name: "Return to it" }).click();
      await button(page, "Start camera").click();
      await untilGone(bobs.locator(".large-avatar"));
      await button(page, "Unmute").click();
      await first.locator("figcaption", { hasText: /^bob$/ }).waitFor();
      await button(page, "Leave").click();
      await untilGone(first.locator("figcaption", { hasText: "bob" }));
      await page.close();
    },
  );
  await t.step("one joins with the camera that was chosen before, muted and without a picture", async () => {
    const page = await signIn(browser, target, bob);
    await noteOpened(page);
    const check = button(page, "Check microphone and camera");
    await visit(page, `rooms/${room.id}/call`);
    await check.click();
    await eventually(async () => assert.equal((await pictures(page)).length, 1, "the own picture"));
    await visit(page, `rooms/${room.id}`);
    await eventually(async () => assert.deepEqual(await opened(page), ["ended", "ended"]));
    await visit(page, `rooms/${room.id}/call`);
    await check.click();
    const choice = page.getByRole("combobox", { name: "Camera" });
    await choice.waitFor();
    const id = await choice.locator("option:not(:checked)").last().getAttribute("value");
    await choice.selectOption(id);
    await eventually(async () => assert.equal(await choice.inputValue(), id));
    for (const name of ["Microphone on", "Camera on"]) await page.getByRole("checkbox", { name }).uncheck();
    await button(page, "Join").click();
    for (const name of ["Unmute", "Start camera"]) await button(page, name).waitFor();
    const bobs = first.locator(".participant", { hasText: "bob (muted)" });
    await bobs.locator(".large-avatar").waitFor();
    const states = await page.evaluate(
      "document.querySelector('.participant video').srcObject.getTracks().map(({ enabled }) => enabled)",
    );
    assert.deepEqual(states, [false, false]);
    const used = "document.querySelector('.participant video').srcObject.getVideoTracks()[0].getSettings().deviceId";
    assert.equal(await page.evaluate(used), id);
    await button(page, "Leave").click();
    await untilGone(first.locator("figcaption", { hasText: "bob" }));
    assert.ok((await opened(page)).every((state) => state === "ended"));
    await page.close();
  });
  await t.step("a connection that both are making is not begun again", async () => {
    const page = await signIn(browser, target, bob);
    // Without addresses it is never connected.
    await page.evaluate(`(() => {
        globalThis.made = [];
        globalThis.RTCPeerConnection = class extends RTCPeerConnection {
          constructor(...settings) {
            super(...settings);
            made.push(this);
          }
          set onicecandidate(_) {}
          addIceCandidate() {
            return Promise.resolve();
          }
        };
      })()`);
    await holdTimers(page, 10_000);
    await visit(page, `rooms/${room.id}/call`);
    await button(page, "Join").click();
    await eventually(async () => assert.equal(await page.evaluate("made[0]?.remoteDescription?.type"), "answer"));
    await page.evaluate("release()");
    assert.equal(await page.evaluate("made.length"), 1);
    await button(page, "Leave").click();
    await untilGone(first.locator("figcaption", { hasText: "bob" }));
    await page.close();
  });
  await t.step("another microphone and camera are used from then on, also by the others", async () => {
    const page = await enter(bob, "Join", [""]);
    const ownTrack = (kind: string): Promise<{ id: string; state: string; isEnabled: boolean }> =>
      page.evaluate(`(() => {
          const { srcObject } = document.querySelector(".participant video");
          const [track] = srcObject.get${kind}Tracks();
          return { id: track.getSettings().deviceId, state: track.readyState, isEnabled: track.enabled };
        })()`);
    await button(page, "Mute").click();
    await button(page, "Unmute").waitFor();
    const seen = (): Promise<number> =>
      first.locator(".participant", { hasText: "bob" }).locator("video").evaluate((video) =>
        (video as unknown as Video).getVideoPlaybackQuality().totalVideoFrames
      );
    await eventually(async () => assert.ok(await seen() > 0, "the picture of the first camera"));
    for (const [label, kind, isEnabled] of [["Camera", "Video", true], ["Microphone", "Audio", false]] as const) {
      const choice = page.getByRole("combobox", { name: label });
      await choice.waitFor();
      const ids = await choice.locator("option").evaluateAll((all) =>
        (all as unknown as { value: string }[]).map(({ value }) => value)
      );
      const { id: before } = await ownTrack(kind);
      const id = ids.findLast((one) => one !== before) ?? "";
      await choice.selectOption(id);
      await eventually(async () => assert.deepEqual(await ownTrack(kind), { id, state: "live", isEnabled }));
      await eventually(async () => assert.equal(await choice.inputValue(), id));
    }
    const goesOn = async (): Promise<void> => {
      const before = await seen();
      await eventually(async () => assert.ok(await seen() > before, "the picture goes on"));
    };
    await goesOn();
    // Of two choices at once the second one counts, and no other camera stays open.
    const choice = page.getByRole("combobox", { name: "Camera" });
    const last = await choice.evaluate((select) => {
      const { options } = select as unknown as { options: ArrayLike<{ value: string }> };
      for (const at of [1, 0]) {
        Object.assign(select, { value: options[at]?.value });
        select.dispatchEvent(new Event("change", { bubbles: true }));
      }
      return options[0]?.value;
    });
    const open = `document.querySelector(".participant video").srcObject.getVideoTracks()
        .map((track) => track.getSettings().deviceId)`;
    await eventually(async () => assert.deepEqual(await page.evaluate(open), [last]));
    await eventually(async () => assert.equal(await choice.inputValue(), last));
    assert.deepEqual(await page.evaluate(open), [last]);
    await goesOn();
    await button(page, "Leave").click();
    await untilGone(first.locator("figcaption", { hasText: "bob" }));
    await page.close();
  });
  await t.step("who cannot join a call leaves microphone and camera closed", async () => {
    const page = await signIn(browser, target, bob);
    await noteOpened(page);
    await page.route("**/meetings/*/join", (route) => route.abort());
    await visit(page, `rooms/${room.id}/call`);
    // It is there for some seconds only.
    const isRefused = page.getByText("The gateway cannot be reached").waitFor();
    await allEnded([isRefused, page.getByRole("button", { name: "Join" }).click()]);
    assert.deepEqual(await opened(page), ["ended", "ended"]);
    await page.close();
  });
  await t.step(
    "without permission, the page says where to give it, and its buttons have nothing to stop",
    async () => {
      const page = await enter(bob, "Join", ["NotAllowedError", "audio", "video"]);
      await page.getByText(/may not use your microphone or camera\. Allow it/).waitFor();
      assert.ok(await button(page, "No microphone").isDisabled());
      assert.ok(await button(page, "No camera").isDisabled());
      await eventually(async () => assert.equal((await pictures(page)).length, 1, "of the one who has a camera"));
      await assertNoReports(page);
    },
  );
  await t.step("without a camera, the microphone is used, and the screen can be shared", async () => {
    const page = await enter(carol, "Join", ["NotFoundError", "video"]);
    await page.getByText("No camera was found. Connect one").waitFor();
    assert.ok(await button(page, "Mute").isEnabled());
    assert.ok(await button(page, "No camera").isDisabled());
    await eventually(async () => assert.equal((await pictures(page)).length, 1, "of the one who has a camera"));
    await page.evaluate(() => {
      type Canvas = { width: number; getContext(kind: "2d"): Pen; captureStream(rate: number): unknown };
      type Pen = { fillStyle: string; fillRect(...at: number[]): void };
      const { document, navigator } = globalThis as unknown as {
        document: { createElement(name: "canvas"): Canvas };
        navigator: { mediaDevices: { getDisplayMedia(): Promise<unknown> } };
      };
      const canvas = document.createElement("canvas");
      canvas.width = 200;
      const pen = canvas.getContext("2d");
      let n = 0;
      setInterval(() => {
        pen.fillStyle = ["red", "blue"][n++ % 2] ?? "";
        pen.fillRect(0, 0, 200, 100);
      }, 100);
      navigator.mediaDevices.getDisplayMedia = () => Promise.resolve(canvas.captureStream(10));
    });
    assert.ok(!(await pictures(first)).includes(200));
    await button(page, "Share screen").click();
    await eventually(async () => assert.ok((await pictures(first)).includes(200), "a screen is seen without a camera"));
    await assertNoReports(first);
  });
  await t.step("who waits in the lobby agrees to a recording, is admitted, muted and removed", async () => {
    const hall = await target.call(ada, "POST", "/v1/rooms", { name: "Hall", memberIds: ["bob"] });
    const path = "/v1/collaboration/meetings";
    await visit(first, `rooms/${hall.id}/call`);
    await first.getByLabel("Others wait in a lobby").check();
    await button(first, "Start a call").click();
    await button(first, "Leave").waitFor();
    const { items: [meeting] } = await target.call(ada, "GET", `${path}?roomId=${hall.id}`);
    const page = await signIn(browser, target, bob);
    // Only a media server records.
    await page.route("**/meetings/*/join", async (route) => {
      const response = await route.fetch();
      const joined = await response.json();
      joined.meeting.recording = {
        state: "requested",
        consentText: "For Dora",
        requestedBy: "ada",
        startedAt: null,
        pendingIds: ["bob"],
      };
      // What others do meanwhile says that there is none.
      joined.meeting.version += 100;
      await route.fulfill({ json: joined });
    }, { times: 1 });
    const answers: unknown[] = [];
    await page.route("**/recording/consent", async (route) => {
      answers.push(route.request().postDataJSON());
      await route.fulfill({ json: {} });
    });
    await visit(page, `rooms/${hall.id}/call?meeting=${meeting.id}`);
    await button(page, "Join").click();
    await page.getByRole("alert").getByText("asks to record this call: For Dora").waitFor();
    await button(page, "Agree").click();
    await eventually(() => assert.deepEqual(answers, [{ consent: true }]));
    await page.getByText("You are in the lobby").waitFor();
    await button(first, "Admit bob").click();
    for (const one of [first, page]) {
      await eventually(async () => assert.equal((await pictures(one)).length, 2, "both see each other"));
    }
    const choose = async (item: string): Promise<void> => {
      await button(first, "Menu of bob").click();
      await first.getByRole("menuitem", { name: item }).click();
    };
    await choose("Mute");
    await button(page, "Unmute").waitFor();
    await choose("Remove from call");
    const isRemoved = page.getByText("A moderator has removed you from the call").waitFor();
    await allEnded([isRemoved, first.getByRole("dialog").getByRole("button", { name: "Remove" }).click()]);
    await target.call(ada, "POST", `${path}/${meeting.id}/transcript`, {
      segments: [{ startMs: 65_000, endMs: 66_000, speakerId: "bob", text: "Good morning." }],
    });
    await button(first, "End for all").click();
    await button(first, "Transcript").click();
    assert.match(await first.getByRole("dialog").locator("li").innerText(), /1:05\s+bob\s+Good morning\./);
    await assertNoReports(page);
  });
});
