// Clients that are gone before their upgrade is answered: they leave nothing behind, neither a descriptor nor a slot.
import assert from "node:assert/strict";
import { openTarget, type Target } from "../e2e/target.ts";
import { eventually, pause } from "../wait.ts";
import { encodeUpgradeRequest } from "../upgrade_request.ts";

const PATHS = ["/ws", "/ws?cf_protocol=protobuf", "/v1/collaboration/documents/sync"];
/** More than one address may have unauthenticated at the same time. */
const ABORTED = 60;
/** Before the process gives up on requests that do not end. */
const STOP_MS = 15_000;

Deno.test("aborted upgrades leave no descriptor and no slot, also after a freeze, and do not delay the stop", async (t) => {
  await using target = await openTarget({ isOwn: true, environment: { SVC_RATE_LIMIT: "on" } });
  const { process } = target;
  assert.ok(process);
  for (const path of PATHS) await completeUpgrade(target, path);
  const before = await waitForStableCount(process.pid);
  for (const path of PATHS) {
    await t.step(`${path} while it runs`, async () => {
      for (let count = 0; count < ABORTED; count++) await abortUpgrade(target, path);
    });
    await t.step(`${path} while it is frozen`, async () => {
      Deno.kill(process.pid, "SIGSTOP");
      for (let count = 0; count < ABORTED; count++) await abortUpgrade(target, path);
      Deno.kill(process.pid, "SIGCONT");
    });
    await t.step(`${path} takes others from the same address, and nothing is left`, async () => {
      await eventually(() => completeUpgrade(target, path));
      await eventually(() => assert.ok(descriptors(process.pid) <= before, `${descriptors(process.pid)} > ${before}`));
    });
  }
  await t.step("SIGTERM ends it", async () => {
    let hasEnded = false;
    Deno.kill(process.pid, "SIGTERM");
    void process.waitForExit().then(() => hasEnded = true);
    await eventually(() => assert.ok(hasEnded), STOP_MS);
  });
});

async function abortUpgrade({ baseUrl }: Target, path: string): Promise<void> {
  const { hostname, port } = new URL(baseUrl);
  const socket = await Deno.connect({ hostname, port: Number(port) });
  await socket.write(encodeUpgradeRequest(path));
  socket.close();
}

/** Opens a socket and closes it; rejects where none is let in. */
async function completeUpgrade({ baseUrl }: Target, path: string): Promise<void> {
  const socket = new WebSocket(`${baseUrl.replace(/^http/, "ws")}${path}`);
  await new Promise<void>((resolve, reject) => {
    socket.onopen = () => socket.close();
    socket.onerror = () => reject(new Error(`${path} lets nobody in`));
    socket.onclose = () => resolve();
  });
}

/** The number of descriptors once it has stopped falling. */
async function waitForStableCount(pid: number): Promise<number> {
  for (let last = Infinity;;) {
    await pause(500);
    const now = descriptors(pid);
    if (now >= last) return now;
    last = now;
  }
}

function descriptors(pid: number): number {
  return [...Deno.readDirSync(`/proc/${pid}/fd`)].length;
}
