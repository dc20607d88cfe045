// One member with forty agents, who takes what can be had: a process of its own, run by `fairness.ts` until it is stopped.
import { pause } from "../wait.ts";
import { say } from "./report.ts";

export const ATTACKS = ["metadata", "freebusy", "documents", "invitations", "exports", "completions"] as const;
export type AttackName = typeof ATTACKS[number];

/** What an attacker needs to know. */
export type AttackOptions = {
  name: AttackName;
  url: string;
  tokens: string[];
  roomId: string;
  guestIds: string[];
  /** Where the attacker's model is expected. */
  modelPort: number;
};

/** How long a client waits that ignores a response to come back later. */
const RETRY_DELAY_MS = 50;
const CHINESE = Array.from({ length: 330_000 }, (_, n) => String.fromCharCode(0x4e00 + (n * 7919) % 20_000)).join("");
const LARGE = JSON.stringify(
  Object.fromEntries(Array.from({ length: 9000 }, (_, n) => [`key${n}`, { a: [n, `${n}`.repeat(14)] }])),
);

/** What a model says that takes long to read and says nothing. */
const NONSENSE = new TextEncoder().encode('data: {"choices":[{"delta":{"role":"assistant"}}]}\n\n'.repeat(70_000));

type AttackCall = { method: string; path: string; body: string };

const ATTACK_CALLS: Readonly<Record<AttackName, (order: AttackOptions, n: number) => AttackCall>> = {
  metadata: ({ roomId }) => ({
    method: "POST",
    path: "/v1/messages",
    body: `{"roomId":"${roomId}","text":"x","metadata":${LARGE}}`,
  }),
  freebusy: () => ({
    method: "POST",
    path: "/v1/collaboration/calendar/freebusy",
    body: JSON.stringify({
      from: "2026-03-01T00:00:00Z",
      to: "2026-03-30T00:00:00Z",
      principalIds: ["mallory"],
      timeZone: "Europe/Vienna",
    }),
  }),
  documents: ({ roomId }, n) => ({
    method: "POST",
    path: "/v1/collaboration/documents",
    body: JSON.stringify({ roomId, title: `Book ${n}`, text: CHINESE.slice(n % 1000) }),
  }),
  invitations: ({ roomId, guestIds }, n) => ({
    method: "POST",
    path: "/v1/collaboration/calendar/events",
    body: JSON.stringify({
      roomId,
      title: `Party ${n}`,
      start: { dateTime: "2026-03-09T09:00:00", timeZone: "Europe/Vienna" },
      durationMinutes: 15,
      attendees: guestIds.map((principalId) => ({ principalId })),
    }),
  }),
  exports: ({ roomId }) => ({
    method: "POST",
    path: "/v1/collaboration/exports",
    body: JSON.stringify({ kind: "room", roomId }),
  }),
  completions: () => ({
    method: "POST",
    path: "/v1/collaboration/ai/completions",
    body: JSON.stringify({ messages: [{ role: "user", text: "Speak" }], maxOutputTokens: 4000 }),
  }),
};

async function attack(order: AttackOptions): Promise<never> {
  const statuses = new Map<number, number>();
  let n = 0;
  const headers = { "content-type": "text/event-stream" };
  Deno.serve({ port: order.modelPort, onListen() {} }, () => new Response(NONSENSE, { headers }));
  setInterval(() => say(JSON.stringify([...statuses])), 1000);
  await Promise.all(order.tokens.map(async (token) => {
    while (true) {
      const { method, path, body } = ATTACK_CALLS[order.name](order, n++);
      let status = 0;
      try {
        const response = await fetch(`${order.url}${path}`, {
          method,
          headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
          body,
        });
        status = response.status;
        await response.body?.cancel();
      } catch {
        // A connection that was closed on it is what an attacker expects.
      }
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
      if (status >= 400 || status === 0) await pause(RETRY_DELAY_MS);
    }
  }));
  throw new Error("an attack has no end");
}

if (import.meta.main) await attack(JSON.parse(Deno.args[0] ?? ""));
