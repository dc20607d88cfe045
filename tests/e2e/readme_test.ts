// README's `chat.mjs`, as it is pasted: two people talk.
import assert from "node:assert/strict";
import { until } from "../wait.ts";
import { openTarget, type Target, uniqueName } from "./target.ts";

const PACKAGES = { centrifuge: "npm:centrifuge@5.8.0", ws: "npm:ws@8.23.0" };

/** A `chat.mjs` that runs. */
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
    await this.#keyboard.close().catch(() => {}); // Its reader is gone.
  }

  async #read(): Promise<void> {
    for await (const text of this.#child.stdout.pipeThrough(new TextDecoderStream())) this.screen += text;
  }
}

Deno.test("README's chat runs when pasted, and two people talk", async () => {
  const readme = await Deno.readTextFile(new URL("../../README.md", import.meta.url));
  const pasted = /```js\n(\/\/ .*chat\.mjs[^]*?)```/.exec(readme)?.[1];
  assert.ok(pasted !== undefined, "README has a chat.mjs");
  const source = pasted.replace(
    /from "(centrifuge|ws)"/g,
    (_, name: "centrifuge" | "ws") => `from "${PACKAGES[name]}"`,
  );
  const folder = await Deno.makeTempDir();
  const file = `${folder}/chat.mjs`;
  await Deno.writeTextFile(file, source);
  try {
    await using target = await openTarget();
    const [alice, bob] = [uniqueName("alice"), uniqueName("bob")];
    await using first = new Chat(file, target, await target.token({ sub: alice }), []);
    await first.shows("room_");
    const [roomId = ""] = /room_[0-9a-f]+/.exec(first.screen) ?? [];
    await first.type("hello");
    await first.shows(`${alice}: hello`);
    await using second = new Chat(file, target, await target.token({ sub: bob }), [roomId]);
    await second.shows(`${alice}: hello`);
    await second.type("hi");
    await first.shows(`${bob}: hi`);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
