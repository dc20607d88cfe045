// An endpoint of webhooks, and what it received.
import assert from "node:assert/strict";
import { Webhook } from "npm:standardwebhooks@1.1.1";
import type { WebhookTables } from "@/modules/webhook/tables.ts";
import type { Store } from "@/ports/store.ts";
import { type Caller, type Harness, openGateway } from "../../harness.ts";
import { until } from "../../wait.ts";
import { createCallers, createRoom, ok, sendMessage } from "../fixtures.ts";

export const WEBHOOKS = "/v1/collaboration/webhooks";

// deno-lint-ignore no-explicit-any -- tests read bodies of every shape
export type Received = { id: string; headers: Headers; text: string; body: any };
type Answer = (received: Received) => Response | Promise<Response>;

const accept = (): Response => new Response(null, { status: 204 });

/** An endpoint that responds as a test says, and stores what it accepted. */
export class Endpoint implements AsyncDisposable {
  /** All requests, in the order of their arrival. */
  readonly requests: Received[] = [];
  /** Those that it answered with success. */
  readonly accepted: Received[] = [];
  answer: Answer = accept;
  readonly #server: Deno.HttpServer<Deno.NetAddr>;

  constructor(port = 0) {
    this.#server = Deno.serve({ hostname: "127.0.0.1", port, onListen() {} }, async (request) => {
      const text = await request.text();
      const received = {
        id: request.headers.get("webhook-id") ?? "",
        headers: request.headers,
        text,
        body: text === "" ? null : JSON.parse(text),
      };
      this.requests.push(received);
      const response = await this.answer(received);
      if (response.ok) this.accepted.push(received);
      return response;
    });
  }

  get port(): number {
    return this.#server.addr.port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}/hook`;
  }

  get types(): string[] {
    return this.accepted.map(({ body }) => body.type);
  }

  /** Texts of the messages that it accepted. */
  get texts(): string[] {
    return this.accepted.filter(({ body }) => body.type === "message.created").map(({ body }) =>
      body.data.message.text
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.shutdown();
  }
}

/** A gateway that may call endpoints of this host. */
export function openWithEndpoints(settings: Record<string, string> = {}): Promise<Harness> {
  return openGateway({ SVC_OUTBOUND_ALLOW: "127.0.0.1", ...settings });
}

/** Creates a webhook. */
// deno-lint-ignore no-explicit-any -- as above
export async function createWebhook(who: Caller, url: string, more: Record<string, unknown> = {}): Promise<any> {
  return ok(await who.post(WEBHOOKS, { url, ...more }));
}

/** Waits until a webhook is as the test says. */
export async function untilWebhook(
  who: Caller,
  id: string,
  // deno-lint-ignore no-explicit-any -- as above
  isTrue: (webhook: any) => boolean,
  // deno-lint-ignore no-explicit-any -- as above
): Promise<any> {
  await until(async () => isTrue(ok(await who.get(`${WEBHOOKS}/${id}`))), `webhook: ${isTrue}`);
  return ok(await who.get(`${WEBHOOKS}/${id}`));
}

/** A webhook of alice for the messages of her room, whose endpoint is ill: it has refused the first one once, as `first` says. */
export async function failFirst(
  gateway: Harness,
  endpoint: Endpoint,
  // deno-lint-ignore no-explicit-any -- as above
): Promise<{ alice: Caller; roomId: string; id: string; first: any }> {
  const { alice } = await createCallers(gateway, "alice");
  const roomId = await createRoom(alice, []);
  const { id } = await createWebhook(alice, endpoint.url, { roomIds: [roomId], events: ["message.created"] });
  endpoint.answer = () => new Response(null, { status: 503 });
  await sendMessage(alice, roomId, "one");
  const first = await untilWebhook(alice, id, ({ state }) => state === "retrying");
  return { alice, roomId, id, first };
}

/** Waits until a stream is left alone, because a run has found that the creator of its webhook may not read it. */
export async function untilPaused({ app }: Harness): Promise<void> {
  const { db } = app.store as unknown as Store<WebhookTables>;
  const paused = db.selectFrom("webhook_cursor").select("stream").where("paused_until", "is not", null);
  await until(async () => (await paused.execute()).length > 0, "a stream that is left alone");
}

/** Waits until no webhook is leased. */
export async function untilRunsEnded({ app }: Harness): Promise<void> {
  const { db } = app.store as unknown as Store<WebhookTables>;
  const leased = db.selectFrom("webhook").select("id").where("lease_owner", "is not", null);
  await until(async () => (await leased.execute()).length === 0, "the end of all runs");
}

/** Verifies the signature as a receiver does; `now` is the clock of the gateway. */
export function verify(secret: string, { headers, text, id }: Received, now: number): void {
  const timestamp = Number(headers.get("webhook-timestamp"));
  assert.equal(timestamp, Math.floor(now / 1000));
  // The package compares the time with the host's clock, which a test does not set.
  const at = Math.floor(Date.now() / 1000);
  const signer = new Webhook(secret);
  assert.ok(
    (headers.get("webhook-signature") ?? "").split(" ").includes(signer.sign(id, new Date(timestamp * 1000), text)),
    "signature",
  );
  signer.verify(text, {
    "webhook-id": id,
    "webhook-timestamp": String(at),
    "webhook-signature": signer.sign(id, new Date(at * 1000), text),
  });
}
