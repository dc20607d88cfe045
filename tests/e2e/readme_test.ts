// README's `chat.mjs`, `robo.mjs`, `poll.mjs` and requests of recipes, as they are pasted.
import assert from "node:assert/strict";
import { createTemporaryFolder } from "../temporary_folder.ts";
import { eventually, until } from "../wait.ts";
import { type Target, testOfParts, uniqueName } from "./target.ts";

const SCOPES = '["command.read","message.write"]';
const PACKAGES = { centrifuge: "npm:centrifuge@5.8.0", ws: "npm:ws@8.23.0" };

const recipeTest = testOfParts("README's recipes");
const README = await Deno.readTextFile(new URL("../../README.md", import.meta.url));

/** Pastes a program of README; returns its file. */
async function paste(folder: string, name: string): Promise<string> {
  const source = README.matchAll(/```js\n([^]*?)```/g).map(([, code = ""]) => code)
    .find((code) => code.startsWith("// TOKEN=") && code.split("\n")[0]?.includes(name));
  assert.ok(source !== undefined, `README has a ${name}`);
  const file = `${folder}/${name}`;
  await Deno.writeTextFile(file, withPackages(source));
  return file;
}

/** A pasted program that runs. */
class Chat {
  readonly #child: Deno.ChildProcess;
  readonly #reading: Promise<void>;
  readonly #keyboard: WritableStreamDefaultWriter<Uint8Array>;
  screen = "";

  constructor(file: string, target: Target, token: string, args: string[]) {
    this.#child = new Deno.Command(Deno.execPath(), {
      args: ["run", "--quiet", "--no-lock", "--allow-all", file, ...args],
      env: { TOKEN: token, GATEWAY: `${target.baseUrl.replace("http", "ws")}/ws` },
      stdin: "piped",
      stdout: "piped",
      stderr: "inherit",
    }).spawn();
    this.#keyboard = this.#child.stdin.getWriter();
    this.#reading = this.#read();
  }

  async type(line: string): Promise<void> {
    await this.#keyboard.write(new TextEncoder().encode(`${line}\n`));
  }

  shows(text: string): Promise<void> {
    return until(() => this.screen.includes(text), `the chat shows ${text}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#child.status;
    await this.#reading;
    await this.#keyboard.close().catch(() => {}); // Its reader has ended.
  }

  async #read(): Promise<void> {
    for await (const text of this.#child.stdout.pipeThrough(new TextDecoderStream())) this.screen += text;
  }
}

recipeTest("README's chat runs when pasted, and two people talk", async (target) => {
  await using folder = await createTemporaryFolder();
  const file = await paste(folder.path, "chat.mjs");
  const [alice, bob] = [uniqueName("alice"), uniqueName("bob")];
  await using first = new Chat(file, target, await target.token({ sub: alice }), []);
  const room = /room_[0-9a-f]+(?=\s)/;
  await until(() => room.test(first.screen), "the chat shows its room");
  const [roomId = ""] = room.exec(first.screen) ?? [];
  await first.type("hello");
  await first.shows(`${alice}: hello`);
  await using second = new Chat(file, target, await target.token({ sub: bob }), [roomId]);
  await second.shows(`${alice}: hello`);
  await second.type("hi");
  await first.shows(`${bob}: hi`);
});

recipeTest("README's agent runs when pasted: it responds to a mention, and its run is seen", async (target) => {
  const [, pasted = "", start = "", question = ""] =
    /```js\n(\/\/ [^\n]*robo\.mjs[^]*?)```[^]*?```sh\n([^]*?)```[^]*?```sh\n([^]*?)```/.exec(README) ?? [];
  const lines = pasted.trim().split("\n").filter((line) => line !== "" && !line.startsWith("//"));
  assert.ok(lines.length > 0 && lines.length <= 33, `about thirty lines: ${lines.length}`);
  await using folder = await createTemporaryFolder();
  const file = await paste(folder.path, "robo.mjs");
  const token = await target.token({ sub: "alice", role: "owner", tenant: uniqueName("recipes") });
  const { id: roomId } = await target.call(token, "POST", "/v1/rooms", { name: "Recipes" });
  const [createAgent, createToken, addMember, ask, ...rest] = requestsOf(
    `${start}${question}`.replaceAll(/'?\$ROOM'?/g, roomId),
  );
  assert.ok(createAgent && createToken && addMember && ask && rest.length === 0);
  const send = ({ method, path, body }: PastedRequest) => target.call(token, method, path, body);
  await send(createAgent);
  const issued = await send(createToken);
  await send(addMember);
  await using agent = new Chat(file, target, issued.token, [roomId]);
  await agent.shows("Ready");
  const { id: questionId } = await send(ask);
  const run = await eventually(async () => {
    const { items } = await target.call(token, "GET", `/v1/collaboration/ai/runs?roomId=${roomId}`);
    assert.equal(items[0]?.status, "succeeded");
    return items[0];
  });
  assert.equal(run.triggerMessageId, questionId);
  const answer = await target.call(token, "GET", `/v1/messages/${run.outputMessageId}`);
  assert.deepEqual([answer.senderId, answer.text], ["robo", "there hello"]);
  assert.deepEqual([answer.replyToId, answer.threadId], [questionId, null]);
});

recipeTest("README's plugin runs when pasted: it answers a command and counts votes", async (target) => {
  const [, manifest] = /'({"manifest":{[^]*?)' \|/.exec(README.replaceAll("'$SCOPES'", SCOPES)) ?? [];
  assert.ok(manifest !== undefined, "README has a manifest");
  await using folder = await createTemporaryFolder();
  const file = await paste(folder.path, "poll.mjs");
  const token = await target.token({ sub: uniqueName("admin"), role: "admin" });
  const call = async (method: string, path: string, body: unknown = {}) => {
    const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
    const text = typeof body === "string" ? body : JSON.stringify(body);
    const response = await fetch(`${target.baseUrl}${path}`, {
      method,
      headers,
      body: method === "GET" || method === "DELETE" ? null : text,
    });
    const answer = await response.text();
    assert.ok(response.ok, `${path}: ${answer}`);
    return answer === "" ? undefined : JSON.parse(answer);
  };
  const plugins = "/v1/collaboration/plugins";
  const { id: roomId } = await call("POST", "/v1/rooms", { name: "Polls" });
  const installed = await call("POST", plugins, manifest);
  await call("POST", `${plugins}/org.example.poll/grant`, `{"scopes":${SCOPES}}`);
  await call("POST", `${plugins}/org.example.poll/enable`);
  await call("PUT", `/v1/rooms/${roomId}/members/plugin:org.example.poll`);
  await using plugin = new Chat(file, target, installed.token, []);
  await plugin.shows("Ready");
  const run = { roomId, text: "/poll Lunch?" };
  const { response } = await call("POST", "/v1/collaboration/commands/run", run);
  const message = await call("GET", `/v1/messages/${response.messageId}`);
  assert.equal(message.text, "**Lunch?**");
  await call("POST", `/v1/messages/${message.id}/elements/vote-Yes/action`);
  assert.equal((await call("GET", `/v1/messages/${message.id}`)).text, "**Lunch?** Yes: 1, No: 0");
  await call("DELETE", `${plugins}/org.example.poll`);
});

recipeTest("README's script posts into a room, and its export comes in again", async (target) => {
  const token = await target.token({ sub: "alice", role: "owner", tenant: uniqueName("recipes") });
  const { id: roomId } = await target.call(token, "POST", "/v1/rooms", { name: "Recipes" });
  const [, exporting = "", importing = "", script = ""] =
    /\*\*Out and in again[^]*?```sh\n([^]*?)```[^]*?```sh\n([^]*?)```[^]*?\*\*A script, [^]*?```sh\n([^]*?)```/
      .exec(README) ?? [];
  const [createHook, post, createExport, createImport, upload, readImport, ...rest] = requestsOf(
    `${script}${exporting}${importing}`.replaceAll(/'?\$ROOM'?/g, roomId),
  );
  assert.ok(createHook && post && createExport && createImport && upload && readImport && rest.length === 0);
  const send = ({ method, path, body }: PastedRequest) => target.call(token, method, path, body);
  const sendRaw = async (path: string, init: RequestInit) => {
    const response = await fetch(`${target.baseUrl}${path}`, init);
    const answer = await response.text();
    assert.ok(response.ok, `${path}: ${answer}`);
    return answer;
  };
  const { path } = await send(createHook);
  assert.equal(post.path, "$HOOK");
  const text = String(post.body);
  await sendRaw(path, { method: "POST", headers: { "content-type": "text/plain" }, body: text });
  const { items } = await target.call(token, "GET", `/v1/messages?roomId=${roomId}`);
  assert.deepEqual(items.map((message: { text: string }) => message.text), [text]);

  const made = await send(createExport);
  const headers = { authorization: `Bearer ${token}` };
  const archive = await eventually(() => sendRaw(`/v1/collaboration/exports/${made.id}/content`, { headers }));
  const { id: importId } = await send(createImport);
  await sendRaw(upload.path.replace("$IMPORT", importId), { method: "PUT", headers, body: archive });
  const done = await eventually(async () => {
    const read = await send({ ...readImport, path: readImport.path.replace("$IMPORT", importId) });
    assert.equal(read.state, "done");
    return read;
  });
  assert.deepEqual([done.report, done.progress.added.messages], [[], 0]);
});

type PastedRequest = { method: string; path: string; body: unknown };

/** What the commands of a recipe send: those of `curl`, and of the function `api` that README defines. */
function requestsOf(commands: string): PastedRequest[] {
  const calls = commands.matchAll(
    /^(?:\w+=\$\()?(?:api (\S+)|curl .*?localhost:8080(\S+))((?:[^'\n]|'[^']*')*)/gm,
  );
  return [...calls].map(([, call, path = `/v1/${call}`, options = ""]) => {
    const [, method] = /-X (\w+)/.exec(options) ?? [];
    const [, text] = / -d '([^']*)'/.exec(options) ?? [];
    return {
      method: method ?? (text === undefined ? "GET" : "POST"),
      path,
      body: text?.startsWith("{") ? JSON.parse(text) : text,
    };
  });
}

function withPackages(source: string): string {
  return source.replace(/from "(centrifuge|ws)"/g, (_, name: "centrifuge" | "ws") => `from "${PACKAGES[name]}"`);
}
