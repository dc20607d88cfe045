// Clients that disconnect before their upgrade is answered: they leave nothing behind, neither a descriptor nor a slot. And clients
// that take all descriptors.
import assert from "node:assert/strict";
import { openTarget, type Target } from "../e2e/target.ts";
import { eventually, pause, until } from "../wait.ts";
import { encodeUpgradeRequest } from "../upgrade_request.ts";

const PATHS = ["/ws", "/ws?cf_protocol=protobuf", "/v1/collaboration/documents/sync"];
/** More than one address may have unauthenticated at the same time. */
const ABORTED = 60;
/** Before the process aborts requests that do not end. A busy machine may take as long, but not each time. */
const STOP_MS = 15_000;
const STOPS_MAX = 3;

Deno.test("aborted upgrades leave no descriptor and no slot, also after a freeze, and do not delay the stop", async (t) => {
  await using target = await openTarget({ isOwn: true, environment: { SVC_RATE_LIMIT: "on" } });
  const { process } = target;
  assert.ok(process);
  for (const path of PATHS) await completeUpgrade(target, path);
  const before = await waitForStableCount(process.pid);
  const abortAll = async (path: string): Promise<void> => {
    for (let count = 0; count < ABORTED; count++) await abortUpgrade(target, path);
  };
  const abortWhileFrozen = async (path: string): Promise<void> => {
    Deno.kill(process.pid, "SIGSTOP");
    await abortAll(path);
    Deno.kill(process.pid, "SIGCONT");
  };
  for (const path of PATHS) {
    await t.step(`${path} while it runs`, () => abortAll(path));
    await t.step(`${path} while it is frozen`, () => abortWhileFrozen(path));
    await t.step(`${path} takes others from the same address, and nothing is left`, async () => {
      await eventually(() => completeUpgrade(target, path));
      await eventually(() => assert.ok(descriptors(process.pid) <= before, `${descriptors(process.pid)} > ${before}`));
    });
  }
  await t.step("SIGTERM ends it", async () => {
    for (let stops = 1;; stops++) {
      const askedAt = performance.now();
      await process.stop("SIGTERM");
      if (performance.now() - askedAt < STOP_MS) return;
      assert.ok(stops < STOPS_MAX, "it waits for requests that were aborted");
      await process.start();
      for (const path of PATHS) {
        await abortAll(path);
        await abortWhileFrozen(path);
      }
    }
  });
});

Deno.test("more connections than the process may have end neither it nor the present connections, and later ones are accepted", async () => {
  await using target = await openTarget({ isOwn: true });
  const { process } = target;
  assert.ok(process);
  const client = await target.connect(await target.token({ sub: "alice" }));
  const { hostname, port } = new URL(target.baseUrl);
  const before = descriptors(process.pid);
  await limitDescriptors(process.pid, before + 20);
  const idle: Deno.Conn[] = [];
  await until(async () => {
    await Deno.connect({ hostname, port: Number(port) }).then((one) => idle.push(one), () => {});
    return process.log.includes("connections are refused");
  });
  const { data } = await client.rpc("room.create", { name: "Still here" });
  assert.match(data.id, /^room_/);
  // On a thread of its own.
  const long = { title: "Long", kind: "rich", text: "# Part\n\nWords\n\n".repeat(1000) };
  assert.match((await client.rpc("document.create", long)).data.id, /^doc_/);
  await limitDescriptors(process.pid, before + 600);
  await eventually(() => completeUpgrade(target, "/ws"));
  for (const one of idle) one.close();
});

async function limitDescriptors(pid: number, count: number): Promise<void> {
  const { code } = await new Deno.Command("prlimit", { args: [`--pid=${pid}`, `--nofile=${count}:`] }).output();
  assert.equal(code, 0);
}

async function abortUpgrade({ baseUrl }: Target, path: string): Promise<void> {
  const { hostname, port } = new URL(baseUrl);
  const socket = await Deno.connect({ hostname, port: Number(port) });
  await socket.write(encodeUpgradeRequest(path));
  socket.close();
}

/** Opens a socket and closes it; rejects if it is refused. */
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
