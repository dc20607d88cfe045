// What a page of another origin shows by links alone: a picture, its small one, and a film that is wound forward.
import assert from "node:assert/strict";
import { browserTest, launchBrowser, openPage } from "../browser.ts";
import { eventually } from "../wait.ts";
import { openTarget, type Target, uniqueName } from "./target.ts";

const FILES = "/v1/collaboration/files";

const RATE = 8000;
const SECONDS = 1200;

/** Twenty minutes of a quiet tone, which a <video> plays as well: so long that no browser loads it as a whole to wind it. */
function wave(): Uint8Array<ArrayBuffer> {
  const length = RATE * SECONDS * 2;
  const bytes = new Uint8Array(44 + length);
  const view = new DataView(bytes.buffer);
  const write = (at: number, text: string) => bytes.set(new TextEncoder().encode(text), at);
  write(0, "RIFF");
  view.setUint32(4, 36 + length, true);
  write(8, "WAVEfmt ");
  view.setUint32(16, 16, true);
  view.setUint16(20, 1, true);
  view.setUint16(22, 1, true);
  view.setUint32(24, RATE, true);
  view.setUint32(28, RATE * 2, true);
  view.setUint16(32, 2, true);
  view.setUint16(34, 16, true);
  write(36, "data");
  view.setUint32(40, length, true);
  for (let n = 0; n < RATE * SECONDS; n++) view.setInt16(44 + n * 2, (n % 80) * 20, true);
  return bytes;
}

async function upload(target: Target, token: string, name: string, body: Uint8Array<ArrayBuffer>): Promise<string> {
  const response = await fetch(`${target.baseUrl}${FILES}?name=${name}`, {
    method: "POST",
    headers: { authorization: `Bearer ${token}` },
    body,
  });
  assert.equal(response.status, 201);
  return (await response.json()).id;
}

/** What the page does, of which it says how far it came. */
const SHOW = `async ([picture, small, film]) => {
  const load = (src, more = {}) => new Promise((resolve, reject) => {
    const image = Object.assign(new Image(), more);
    image.onload = () => resolve(image);
    image.onerror = () => reject(new Error("no picture at " + src));
    image.src = src;
  });
  const [whole, little] = [await load(picture), await load(small)];
  // A canvas gives out what is on it only where the page may read that.
  const canvas = document.createElement("canvas");
  canvas.getContext("2d").drawImage(await load(picture, { crossOrigin: "anonymous" }), 0, 0);
  canvas.toDataURL();
  const video = document.createElement("video");
  const told = (name) => new Promise((resolve, reject) => {
    video.addEventListener(name, resolve, { once: true });
    video.addEventListener("error", () => reject(new Error("no film: " + video.error.message)), { once: true });
  });
  const ready = told("loadedmetadata");
  video.preload = "metadata";
  video.muted = true;
  video.src = film;
  document.body.append(video);
  await ready;
  const sought = told("seeked");
  video.currentTime = 1100;
  await sought;
  await video.play();
  await told("timeupdate");
  return { sizes: [whole.naturalWidth, little.naturalWidth], duration: video.duration, at: video.currentTime };
}`;

browserTest("a page of another origin shows pictures and films by links, also where it is isolated", async () => {
  // An isolated page shows of other origins only what says that it may be shown.
  const headers = {
    "content-type": "text/html",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-embedder-policy": "require-corp",
  };
  await using server = Deno.serve(
    { port: 0, hostname: "127.0.0.1", onListen() {} },
    () => new Response("<!doctype html><meta charset=utf-8><body>", { headers }),
  );
  const origin = `http://127.0.0.1:${server.addr.port}`;
  await using target = await openTarget({ isOwn: true, environment: { SVC_CORS_ALLOW_ORIGINS: origin } });
  const token = await target.createPrincipal({ sub: uniqueName("ada") });
  await using browser = await launchBrowser();
  const page = await openPage(browser);
  await page.goto(`${origin}/`);
  const png: string = await page.evaluate(`(() => {
        const canvas = Object.assign(document.createElement("canvas"), { width: 400, height: 200 });
        canvas.getContext("2d").fillRect(10, 10, 50, 50);
        return canvas.toDataURL("image/png").split(",")[1];
      })()`);
  const picture = await upload(target, token, "picture.png", Uint8Array.fromBase64(png));
  const film = await upload(target, token, "film.wav", wave());
  const link = async (id: string, more = {}): Promise<string> => {
    const { items } = await target.call(token, "POST", `${FILES}/links`, { ids: [id], ...more });
    return target.baseUrl + items[0].url;
  };
  const ranges: string[] = [];
  const filmUrl = await link(film);
  page.on("response", (response) => {
    const range = response.headers()["content-range"];
    if (response.url() === filmUrl && range !== undefined) ranges.push(`${response.status()} ${range}`);
  });
  const urls = [await link(picture), await link(picture, { thumbnail: 64 }), filmUrl];
  const shown: { sizes: number[]; duration: number; at: number } = await page.evaluate(
    `(${SHOW})(${JSON.stringify(urls)})`,
  );
  assert.deepEqual(shown.sizes, [400, 64]);
  assert.equal(shown.duration, SECONDS);
  assert.ok(shown.at >= 1100, `${shown.at}`);
  // The browser reports a response beside what the page says.
  await eventually(() => {
    const starts = ranges.map((range) => Number(/^206 bytes (\d+)-/.exec(range)?.[1]));
    assert.ok(starts.some((start) => start > RATE * 2 * 1000), `wound forward: ${ranges}`);
  });
  // Saved under its name, though the page is of another origin.
  const saving = page.waitForEvent("download");
  await page.evaluate(`location.href = ${JSON.stringify(await link(picture, { download: true }))}`);
  assert.equal((await saving).suggestedFilename(), "picture.png");
});
