// Plugins in processes of this host: they answer, may do nothing else, and are stopped when they hang, flood or end.
import assert from "node:assert/strict";
import { Fault } from "@/core/fault.ts";
import { ProcessTransport } from "@/modules/plugin/process_transport.ts";
import type { ActivePlugin } from "@/modules/plugin/registry.ts";
import { openGateway } from "../../harness.ts";
import { createTemporaryFolder } from "../../temporary_folder.ts";
import { slowTest } from "../../tier.ts";
import { eventually, pause } from "../../wait.ts";
import { assertProblem, createCallers, createRoom, ok, sendMessage } from "../fixtures.ts";
import { installPlugin, manifestOf, PLUGINS } from "./plugin_fixture.ts";

/** So many times as long as it should, a response is waited for. */
const TIMEOUT_FACTOR = 10;

const CODE = `
const respond = (id: string, response: unknown) => console.log(id + " " + JSON.stringify(response));
const tries: Record<string, () => unknown> = {
  read: () => Deno.readTextFileSync("/etc/passwd"),
  env: () => Deno.env.get("PATH"),
  net: () => Deno.listen({ port: 0 }),
  run: () => new Deno.Command("/bin/ls").outputSync(),
  write: () => Deno.writeTextFileSync("/tmp/plugin", "x"),
  keep: () => localStorage.setItem("x", "x"),
  cache: () => caches.open("x"),
};
let rest = "";
for await (const chunk of Deno.stdin.readable.pipeThrough(new TextDecoderStream())) {
  const lines = (rest + chunk).split("\\n");
  rest = lines.pop() ?? "";
  for (const line of lines) {
    const { id, data } = JSON.parse(line);
    // As good as an endless loop, and leaves the processor to other tests.
    if (data.text === "hang") Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
    if (data.text === "flood") console.log("x".repeat(200_000));
    if (data.text === "exit") Deno.exit();
    try {
      await tries[data.text]?.();
      respond(id, { kind: "ephemeral", text: "Did " + data.text });
    } catch (error) {
      respond(id, { kind: "ephemeral", text: "Refused: " + (error as Error).name });
    }
  }
}
`;

slowTest("a plugin in a process responds, may do nothing else, and is stopped when it misbehaves", async () => {
  // One call ends by this time: it is not as long as for the others.
  await using gateway = await openGateway({}, { timeoutFactor: 3 });
  const admin = await gateway.as("admin", { role: "admin" });
  const { alice } = await createCallers(gateway, "alice");
  const roomId = await createRoom(alice, []);
  await installPlugin(admin, manifestOf({ transport: "process", code: CODE }), [[alice, roomId]]);
  const run = (text: string) => alice.post("/v1/collaboration/commands/run", { roomId, text: `/poll ${text}` });
  const said = async (text: string) => ok(await run(text)).response.text;
  assert.equal(await said("hello"), "Did hello");
  for (const what of ["read", "env", "net", "run", "write"]) {
    assert.equal(await said(what), "Refused: NotCapable", what);
  }
  for (const what of ["keep", "cache"]) assert.match(await said(what), /^Refused: /, what);
  const hanging = run("hang");
  await sendMessage(alice, roomId, "Meanwhile");
  assertProblem(await hanging, 504, "plugin_timeout");
  // Started again by the next call.
  assert.equal(await said("again"), "Did again");
  assertProblem(await run("flood"), 502, "plugin_failed");
  assertProblem(await run("exit"), 502, "plugin_failed");
  assert.equal(await said("once more"), "Did once more");
  for (const code of [undefined, "", "x".repeat(16 * 1024 + 1)]) {
    const manifest = manifestOf({ id: "org.example.bad", transport: "process", code });
    assert.equal((await admin.post(PLUGINS, { manifest })).status, 422);
  }
});

const COUNTING = `
let calls = 0;
const hoard: Uint8Array[] = [];
for await (const chunk of Deno.stdin.readable.pipeThrough(new TextDecoderStream())) {
  for (const line of chunk.trim().split("\\n")) {
    const { id, data } = JSON.parse(line);
    if (data.text === "wait") continue;
    if (data.text === "hoard") {
      while (hoard.length < 16) hoard.push(new Uint8Array(64 * 2 ** 20).fill(1));
      continue;
    }
    console.log(id + " " + JSON.stringify({ kind: "ephemeral", text: String(++calls) }));
    if (data.text === "flood") for (let n = 0; n < 2100; n++) console.log("x".repeat(1000));
  }
}
`;

slowTest(
  "idle processes release their slots; those that hoard, read files or write unasked end",
  async () => {
    const transport = new ProcessTransport({ processesMax: 1, timeoutFactor: TIMEOUT_FACTOR });
    let n = 0;
    const call = async (id: string, text: string, timeoutMs = 60_000, code = COUNTING): Promise<unknown> => {
      const plugin = { tenantId: "t", id, manifest: { code }, row: { version: 1 } } as unknown as ActivePlugin;
      const { signal } = new AbortController();
      const called = { id: `call_${n++}`, kind: "command.run", data: { text }, timeoutMs, signal } as const;
      return await transport.call(plugin, called).then((response) => "text" in response && response.text, codeOf);
    };
    try {
      assert.deepEqual([await call("one", ""), await call("one", ""), await call("two", "")], ["1", "2", "1"]);
      const waiting = call("two", "wait", 500);
      assert.equal(await call("one", ""), "plugin_unavailable");
      assert.equal(await waiting, "plugin_timeout");
      assert.equal(await call("one", "flood"), "1");
      const after = await eventually(async () => {
        const response = await call("one", "");
        assert.notEqual(response, "plugin_failed");
        return response;
      });
      assert.equal(after, "1", "a process of its own");
      const file = import.meta.url;
      const imports = [
        `import text from "${file}" with { type: "text" };`,
        `import * as text from "${new URL("../../wait.ts", file)}";`,
        `const text = await import("${file}", { with: { type: "text" } });`,
      ];
      for (const [n, line] of imports.entries()) {
        assert.equal(
          await call(`reader${n}`, "", 60_000, `${line}\nglobalThis.name = String(text);${COUNTING}`),
          "plugin_failed",
          line,
        );
      }
      assert.equal(await call("one", "hoard"), "plugin_failed", "buffers are not in the heap");
      assert.equal(await call("one", ""), "1");
    } finally {
      await transport.stop();
    }
  },
);

/** Responds with the longest time that its timer did not run. */
const TICKING = `
let last = performance.now();
let longest = 0;
setInterval(() => {
  const now = performance.now();
  longest = Math.max(longest, now - last);
  last = now;
}, 5);
for await (const chunk of Deno.stdin.readable.pipeThrough(new TextDecoderStream())) {
  const { id } = JSON.parse(chunk);
  await new Promise((resolve) => setTimeout(resolve, 50));
  console.log(id + " " + JSON.stringify({ kind: "ephemeral", text: String(longest) }));
}
`;

Deno.test("a plugin in a process computes only while a call waits for it", async () => {
  const transport = new ProcessTransport({ timeoutFactor: TIMEOUT_FACTOR });
  const plugin = {
    tenantId: "t",
    id: "p",
    manifest: { code: TICKING },
    row: { version: 1 },
  } as unknown as ActivePlugin;
  const { signal } = new AbortController();
  const call = async (id: string): Promise<number> => {
    const called = { id, kind: "command.run", data: {}, timeoutMs: 60_000, signal } as const;
    const response = await transport.call(plugin, called);
    return Number("text" in response ? response.text : NaN);
  };
  try {
    await call("one");
    await pause(1000);
    assert.ok(await call("two") > 900);
  } finally {
    await transport.stop();
  }
});

function codeOf(thrown: unknown): unknown {
  return thrown instanceof Fault ? thrown.code : thrown;
}

Deno.test("README's plugin that the gateway runs responds when pasted", async () => {
  const readme = await Deno.readTextFile(new URL("../../../README.md", import.meta.url));
  const [, code = "", program = ""] =
    /\*\*A plugin that the gateway runs\*\*[^]*?```js\n([^]*?)```[^]*?deno eval '([^']*)'/.exec(readme) ?? [];
  await using folder = await createTemporaryFolder();
  await Deno.writeTextFile(`${folder.path}/dice.js`, code);
  const written = await new Deno.Command(Deno.execPath(), { args: ["eval", program], cwd: folder.path }).output();
  const { manifest } = JSON.parse(new TextDecoder().decode(written.stdout));
  await using gateway = await openGateway();
  const admin = await gateway.as("admin", { role: "admin" });
  const { alice } = await createCallers(gateway, "alice");
  const roomId = await createRoom(alice, []);
  await installPlugin(admin, manifest, [[alice, roomId]]);
  const { response } = ok(await alice.post("/v1/collaboration/commands/run", { roomId, text: "/roll" }));
  assert.match(ok(await alice.get(`/v1/messages/${response.messageId}`)).text, /^🎲 [1-6]$/u);
});
