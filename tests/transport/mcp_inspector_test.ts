// The official inspector's command line, unmodified, with an API token. OAuth is for clients with a browser: `mcp_client_test.ts`.
import assert from "node:assert/strict";
import { createCallers, createRoom, ok, sendMessage } from "../modules/fixtures.ts";
import { serveGateway } from "../modules/http_server.ts";
import { createTemporaryFolder } from "../temporary_folder.ts";
import { slowTest } from "../tier.ts";

const LOCK = new URL("../deno.lock", import.meta.url).pathname;
const INSPECTOR = new URL("mcp_inspector.ts", import.meta.url).pathname;

slowTest("the inspector's command line lists and calls tools, reads resources and prompts", async () => {
  await using server = await serveGateway();
  const { alice, bob } = await createCallers(server.gateway, "alice", "bob");
  const [roomId, hiddenId] = [await createRoom(alice, []), await createRoom(bob, [])];
  await sendMessage(bob, hiddenId, "not for alice");
  const scopes = ["room.*", "message.*"];
  const { token } = ok(await alice.post("/v1/collaboration/tokens", { name: "desk", scopes }));
  await using folder = await makeFolder();
  const inspect = (...args: string[]) => runInspector(folder.path, server.url, token, args);
  const call = (name: string, ...args: string[]) =>
    inspect("--method", "tools/call", "--tool-name", name, ...args.flatMap((arg) => ["--tool-arg", arg]));

  const { tools } = JSON.parse(await inspect("--method", "tools/list"));
  assert.ok(tools.some(({ name }: { name: string }) => name === "message_send"));
  assert.match(await call("message_send", `roomId=${roomId}`, "text=by an inspector"), /sent msg_[0-9a-f]{32} at seq/);
  assert.match(await call("message_list", `roomId=${roomId}`), /by an inspector/);
  const rooms = await call("room_list");
  assert.ok(rooms.includes(roomId) && !rooms.includes(hiddenId));
  assert.doesNotMatch(await call("message_list", `roomId=${hiddenId}`), /not for alice/);
  const uri = `gateway://room/${roomId}`;
  assert.match(await inspect("--method", "resources/list"), new RegExp(uri));
  assert.match(await inspect("--method", "resources/read", "--uri", uri), /by an inspector/);
  assert.match(await inspect("--method", "prompts/list"), /catch_up/);
  const prompt = ["--method", "prompts/get", "--prompt-name", "catch_up", "--prompt-args", `roomId=${roomId}`];
  assert.match(await inspect(...prompt), new RegExp(roomId));
  await assert.rejects(
    runInspector(folder.path, server.url, "wrong", ["--method", "tools/list"]),
    /[Uu]nauthori[sz]ed|401/,
  );
});

/** The inspector finds its own `package.json` only if there is one above the folder that it is run in. */
async function makeFolder(): ReturnType<typeof createTemporaryFolder> {
  const above = await createTemporaryFolder();
  await Deno.writeTextFile(`${above.path}/package.json`, "{}");
  const path = `${above.path}/current`;
  await Deno.mkdir(path);
  return { ...above, path };
}

/** What the inspector prints; throws what it says when it fails. */
async function runInspector(cwd: string, url: string, token: string, args: readonly string[]): Promise<string> {
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: [
      "run",
      "--quiet",
      "--no-check",
      "--allow-all",
      `--lock=${LOCK}`,
      INSPECTOR,
      `${url.replace("ws:", "http:")}/mcp`,
      ...["--transport", "http"],
      ...args,
      ...["--header", `Authorization: Bearer ${token}`],
    ],
    cwd,
  }).output();
  const text = new TextDecoder();
  if (!success) throw new Error(text.decode(stderr) || text.decode(stdout));
  return text.decode(stdout);
}
