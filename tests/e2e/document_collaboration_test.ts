// Live editing under failures: processes are killed while clients type, and clients change nodes. Two real editors and a REST
// client converge to one text, which contains every acknowledged edit exactly once.
import assert from "node:assert/strict";
import { hasRedisServer, startRedis } from "../conformance/redis_server.ts";
import { freePort } from "../free_port.ts";
import { Editor } from "../modules/document/document_editor.ts";
import { createTemporaryDatabase } from "../temporary_database.ts";
import { postgresUrl, slowTest } from "../tier.ts";
import { pause, until } from "../wait.ts";
import { GatewayProcess, openTarget, Target, uniqueName } from "./target.ts";

const PATH = "/v1/collaboration/documents";
const KILLS = 3;

const syncUrl = (target: Target): string => `${target.baseUrl.replace(/^http/, "ws")}${PATH}/sync`;

async function openDocument(target: Target) {
  const subs = [uniqueName("ada"), uniqueName("bob"), uniqueName("robot")];
  const tokens = await Promise.all(subs.map((sub) => target.createPrincipal({ sub })));
  const [ada = "", bob = "", robot = ""] = tokens;
  const room = await target.call(ada, "POST", "/v1/rooms", { name: "Live", memberIds: subs.slice(1) });
  const { id } = await target.call(ada, "POST", PATH, { roomId: room.id, title: "Live", text: "" });
  return { id: id as string, roomId: room.id as string, ada, bob, robot, bobId: subs[1] ?? "" };
}

/**
 * Types words until stopped; each must be in the text exactly once. After some it waits until all are acknowledged, so that a slow
 * machine has no more to do than a fast one.
 */
async function typeText(
  editor: Editor,
  name: string,
  isOn: () => boolean,
  words: string[],
  unsavedMax = 20,
): Promise<void> {
  for (let count = 0; isOn(); count++) {
    const word = `<${name}${count}>`;
    editor.insert(count % 2 === 0 ? editor.text.length : 0, word);
    words.push(word);
    await pause(4);
    if (count % unsavedMax === 0) await until(() => editor.isSaved || !isOn(), "what was typed is acknowledged");
  }
}

/** Appends words over REST; only those with a response, in `answered`, are certain. */
async function append(
  target: () => Target,
  token: string,
  id: string,
  isOn: () => boolean,
  words: string[],
  answered: Set<string>,
): Promise<void> {
  for (let count = 0; isOn(); count++) {
    const word = `<r${count}>`;
    words.push(word);
    const edits = [{ op: "append", text: word }];
    try {
      await target().call(token, "PATCH", `${PATH}/${id}/content`, { baseRevision: 1, onStale: "rebase", edits });
      answered.add(word);
    } catch {
      await pause(20);
    }
  }
}

function countOf(text: string, word: string): number {
  return text.split(word).length - 1;
}

slowTest("kill -9 while people edit loses and duplicates nothing, even of one who never reconnects", async () => {
  await using target = await openTarget({ isOwn: true });
  const { id, ada, bob, robot, roomId } = await openDocument(target);
  // Nobody else has this one open, that would restore what is lost.
  const { id: lonelyId } = await target.call(ada, "POST", PATH, { roomId, title: "Lonely", text: "" });
  const editors = [ada, bob].map((token) => new Editor({ url: syncUrl(target), document: id, token }));
  await until(() => editors.every((editor) => editor.provider.isSynced), "both are in sync");
  let isOn = true;
  const typed: string[][] = [[], []];
  const appended: string[] = [];
  const typing = editors.map((editor, at) => typeText(editor, "ab"[at] ?? "", () => isOn, typed[at] ?? []));
  const answered = new Set<string>();
  const appending = append(() => target, robot, id, () => isOn, appended, answered);
  for (let kill = 0; kill < KILLS; kill++) {
    const leaver = await Leaver.open(target, lonelyId, ada);
    const [words, answers] = [typed.flat().length, answered.size];
    await until(() => typed.flat().length > words + 50 && answered.size > answers + 5, "there is something to lose");
    const before = leaver.saved.length;
    await until(() => leaver.saved.length > before + 10, "something of who leaves was saved");
    await target.process?.stop("SIGKILL");
    const left = await leaver.leave();
    await target.process?.start();
    const { text } = await target.call(ada, "GET", `${PATH}/${lonelyId}/content`);
    for (const word of left) assert.equal(countOf(text, word), 1, word);
    await until(() => editors.every((editor) => editor.provider.isSynced), "both are back");
  }
  await pause(200);
  isOn = false;
  await Promise.all([...typing, appending]);
  await until(() => editors.every((editor) => editor.isSaved), "all is saved");
  const { text } = await target.call(ada, "GET", `${PATH}/${id}/content`);
  await until(() => editors.every((editor) => editor.text === text), "all show the text of the store");
  for (const word of typed.flat()) assert.equal(countOf(text, word), 1, word);
  for (const word of appended) {
    const count = countOf(text, word);
    assert.ok(answered.has(word) ? count === 1 : count <= 1, `${word}: ${count} times`);
  }
  await Promise.all(editors.map((editor) => editor.close()));
});

/** An editor that types until the gateway is killed, and never reconnects. */
class Leaver {
  /** Words that are acknowledged; what follows may be lost. */
  saved: readonly string[];
  readonly #editor: Editor;
  readonly #working: Promise<unknown>;
  #isOn = true;

  private constructor(editor: Editor) {
    this.#editor = editor;
    this.saved = this.#words();
    const name = crypto.randomUUID().slice(0, 8);
    this.#working = Promise.all([typeText(editor, name, () => this.#isOn, [], 5), this.#watch()]);
  }

  static async open(target: Target, document: string, token: string): Promise<Leaver> {
    const editor = new Editor({ url: syncUrl(target), document, token });
    await until(() => editor.provider.isSynced, "in sync");
    return new Leaver(editor);
  }

  /** Resolves to what is certain. */
  async leave(): Promise<readonly string[]> {
    this.#isOn = false;
    await this.#working;
    await this.#editor.close();
    return this.saved;
  }

  async #watch(): Promise<void> {
    for (; this.#isOn; await pause(2)) {
      if (this.#editor.isSaved) this.saved = this.#words();
    }
  }

  #words(): readonly string[] {
    return this.#editor.text.match(/<\w+>/g) ?? [];
  }
}

Deno.test({
  name: "editors on two nodes, one of which is killed, converge to one text with every edit once",
  ignore: postgresUrl === undefined || !hasRedisServer,
  async fn() {
    const database = await createTemporaryDatabase(postgresUrl ?? "");
    {
      await using redis = await startRedis();
      const environment = {
        SVC_DATABASE_URL: database.url,
        SVC_REDIS_URL: redis.url,
        SVC_RATE_LIMIT: "off",
      };
      const secret = crypto.randomUUID() + crypto.randomUUID();
      const processes = [freePort(), freePort()].map((port) => new GatewayProcess(port, secret, environment));
      // One after the other: the first creates the tables.
      for (const process of processes) await process.start();
      const [one, two] = processes.map((process) => new Target(process.url, secret, process));
      assert.ok(one && two);
      await using _one = one;
      await using _two = two;

      const { id, ada, bob, robot, roomId, bobId } = await openDocument(one);
      let left = new Editor({ url: syncUrl(one), document: id, token: ada });
      const right = new Editor({ url: syncUrl(two), document: id, token: bob });
      await until(() => left.provider.isSynced && right.provider.isSynced, "both are in sync");
      left.provider.setAwarenessField("user", { name: "Ada" });
      right.provider.setAwarenessField("user", { name: "Bob" });
      await until(
        () => left.awarenessNames.join() === "Ada,Bob" && right.awarenessNames.join() === "Ada,Bob",
        "both see both",
      );
      let isOn = true;
      const typed: string[][] = [[], [], []];
      const appended: string[] = [];
      let turn = 0;
      const answered = new Set<string>();
      const appending = append(() => turn++ % 2 === 0 ? one : two, robot, id, () => isOn, appended, answered);
      let isLeftOn = true;
      const typingLeft = typeText(left, "a", () => isLeftOn, typed[0] ?? []);
      const typingRight = typeText(right, "b", () => isOn, typed[1] ?? []);
      await pause(600);
      await one.process?.stop("SIGKILL");
      isLeftOn = false;
      await typingLeft;
      // Ada continues with her copy on the other node.
      const { doc } = left;
      await left.close();
      left = new Editor({ url: syncUrl(two), document: id, token: ada, doc });
      isLeftOn = true;
      const typingAgain = typeText(left, "c", () => isLeftOn, typed[2] ?? []);
      await pause(300);
      await one.process?.start();
      await pause(300);
      isOn = false;
      isLeftOn = false;
      await Promise.all([typingAgain, typingRight, appending]);
      await until(() => left.isSaved && right.isSaved, "all is saved");
      const texts = await Promise.all(
        [one, two].map(async (target) => (await target.call(ada, "GET", `${PATH}/${id}/content`)).text as string),
      );
      const [text = ""] = texts;
      assert.equal(texts[1], text);
      await until(() => left.text === text && right.text === text, "all show the text of the store");
      for (const word of typed.flat()) assert.equal(countOf(text, word), 1, word);
      for (const word of appended) {
        const count = countOf(text, word);
        assert.ok(answered.has(word) ? count === 1 : count <= 1, `${word}: ${count} times`);
      }

      // Without Redis, edits of another node still arrive by polling the log, and access is revoked across nodes.
      await redis.stop();
      await one.call(ada, "PATCH", `${PATH}/${id}/content`, {
        baseRevision: 1,
        onStale: "rebase",
        edits: [{ op: "append", text: "<without redis>" }],
      });
      await until(() => right.text.endsWith("<without redis>"), "it arrives without Redis");
      await redis.start();
      await until(
        async () =>
          (await fetch(`${two.baseUrl}/v1/collaboration/ready`).then((response) => response.json())).checks.bus ===
            true,
        "Redis is back",
      );
      await one.call(ada, "DELETE", `/v1/rooms/${roomId}/members/${bobId}`);
      await until(() => right.authFailures.length > 0, "Bob is cut off on the other node");
      await left.close();
      await right.close();
    }
    await database.release();
  },
});
