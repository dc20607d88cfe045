// The promise under `kill -9`: what was acknowledged is there once, the line has no hole, and those who listen miss nothing.
import assert from "node:assert/strict";
import type { Centrifuge, PublicationContext } from "centrifuge";
import { openTarget, type Target, unique, until } from "./target.ts";

const KILLS = 5;
const SENDERS = 4;

type Heard = { seq: number; text: string };

Deno.test("kill -9 while clients send loses nothing, doubles nothing, and leaves no hole", async () => {
  await using target = await openTarget({ isOwn: true });
  const subs = Array.from({ length: SENDERS }, (_, at) => unique(`sender${at}`));
  const tokens = await Promise.all(subs.map((sub) => target.token({ sub })));
  for (const token of tokens) await target.call(token, "GET", "/v1/collaboration/me");
  const room = await target.call(tokens[0] ?? "", "POST", "/v1/rooms", { name: "kill", memberIds: subs.slice(1) });
  const heard: Heard[][] = [];
  const clients: Centrifuge[] = [];
  for (const token of tokens) {
    const client = await target.connect(token);
    clients.push(client);
    heard.push(await listen(client, `room:${room.id}`));
  }

  const acknowledged = new Map<string, number>();
  let isSending = true;
  const sending = clients.map(async (client, sender) => {
    for (let count = 0; isSending; count++) {
      await sendUntilAcknowledged(client, room.id, `${sender}:${count}`, acknowledged);
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
  });
  for (let kill = 0; kill < KILLS; kill++) {
    const before = acknowledged.size;
    await until(() => acknowledged.size > before + 100, "a hundred more messages");
    await target.process?.stop("SIGKILL");
    await target.process?.start();
  }
  isSending = false;
  await Promise.all(sending);

  const log = await readAll(target, tokens[0] ?? "", room.id);
  const seqs = log.events.map(({ seq }) => seq);
  assert.deepEqual(seqs, Array.from({ length: seqs.length }, (_, at) => at + 1), "the line has no hole");
  const messages = log.events.filter(({ type }) => type === "message.created")
    .map(({ seq, data }) => ({ seq, text: data.message.text }));
  assert.equal(new Set(messages.map(({ text }) => text)).size, messages.length, "no message twice");
  const stored = new Map(messages.map(({ seq, text }) => [text, seq]));
  for (const [text, seq] of acknowledged) assert.equal(stored.get(text), seq, `${text} was acknowledged at ${seq}`);
  for (const one of heard) {
    await until(() => one.length >= messages.length, "everybody has heard everything");
    assert.deepEqual(one, messages);
  }
});

async function listen(client: Centrifuge, channel: string): Promise<Heard[]> {
  const heard: Heard[] = [];
  const subscription = client.newSubscription(channel);
  subscription.on("publication", ({ data, offset }: PublicationContext) => {
    if (data.type === "message.created") heard.push({ seq: offset ?? 0, text: data.data.message.text });
  });
  subscription.on("subscribed", ({ wasRecovering, recovered }) => assert.equal(wasRecovering, recovered));
  subscription.subscribe();
  await subscription.ready();
  return heard;
}

async function sendUntilAcknowledged(
  client: Centrifuge,
  roomId: string,
  text: string,
  acknowledged: Map<string, number>,
): Promise<void> {
  while (true) {
    try {
      const { data } = await client.rpc("message.send", { roomId, text, clientMessageId: text });
      acknowledged.set(text, data.seq);
      return;
    } catch {
      // Cut off: nobody knows whether it was written, so the same clientMessageId is sent again.
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}

type Log = { events: { seq: number; type: string; data: { message: { text: string } } }[] };

async function readAll(target: Target, token: string, roomId: string): Promise<Log> {
  const all: Log = { events: [] };
  while (true) {
    const after = all.events.at(-1)?.seq ?? 0;
    const page = await target.call(token, "GET", `/v1/rooms/${roomId}/events?after=${after}&limit=300`);
    all.events.push(...page.events);
    if (page.complete) return all;
  }
}
