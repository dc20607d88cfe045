// Client ID Metadata Documents: an address as a client id, whose document is fetched and believed about itself only.
import assert from "node:assert/strict";
import { Encryptor } from "@/core/crypto.ts";
import { createOutbound } from "@/adapters/outbound/http.ts";
import { Clients } from "@/modules/oauth/clients.ts";
import { OauthError } from "@/modules/oauth/error.ts";
import type { Outbound } from "@/ports/outbound.ts";
import { SECRET, TestClock } from "../../harness.ts";

const URL_ID = "https://app.example/client.json";
const ADDRESS = "192.0.2.1";
const encryptor = new Encryptor([new TextEncoder().encode(SECRET)], "test");

function clientsWith(
  answer: (url: string) => Response | Promise<Response>,
): { clients: Clients; asked: string[]; clock: TestClock } {
  const asked: string[] = [];
  const fetch = (url: string | URL): Promise<Response> => {
    asked.push(String(url));
    return Promise.resolve(answer(String(url)));
  };
  const outbound: Outbound = Object.assign(fetch, { assertAllowed() {} });
  const clock = new TestClock();
  return { clients: new Clients({ encryptor, outbound, clock }), asked, clock };
}

async function assertRefused(clients: Clients, clientId: string, address = ADDRESS): Promise<void> {
  await assert.rejects(clients.require(clientId, address), (error) => {
    assert.ok(error instanceof OauthError, String(error));
    return true;
  });
}

const document = { client_id: URL_ID, client_name: "App", redirect_uris: ["https://app.example/cb"], more: { x: 1 } };

Deno.test("a metadata document describes its client, and is cached", async () => {
  const { clients, asked, clock } = clientsWith(() => Response.json(document));
  const [one, two] = await Promise.all([clients.require(URL_ID, ADDRESS), clients.require(URL_ID, ADDRESS)]);
  assert.deepEqual(one, { name: "App", host: "app.example", redirectUris: ["https://app.example/cb"] });
  assert.deepEqual(two, one);
  assert.equal(asked.length, 1);
  clock.advance(11 * 60_000);
  await clients.require(URL_ID, ADDRESS);
  assert.equal(asked.length, 2);
});

Deno.test("a document that is missing, broken, or of another client is refused, and not asked for at once again", async () => {
  const answers: (() => Response)[] = [
    () => new Response("no", { status: 404 }),
    () => new Response("{", { status: 200 }),
    () => new Response("[".repeat(5000)),
    () => new Response("null"),
    () => Response.json({ ...document, client_id: "https://other.example/client.json" }),
    () => Response.json({ ...document, redirect_uris: ["javascript:alert(1)"] }),
    () => Response.json({ ...document, redirect_uris: [] }),
    () => new Response(null, { status: 302, headers: { Location: "https://other.example" } }),
  ];
  for (const answer of answers) {
    const { clients, asked } = clientsWith(answer);
    await assertRefused(clients, URL_ID);
    await assertRefused(clients, URL_ID);
    assert.equal(asked.length, 1);
  }
});

Deno.test("an address with another spelling, without a path or with credentials is refused unasked", async () => {
  const { clients, asked } = clientsWith(() => Response.json(document));
  for (
    const id of [
      "https://app.example/",
      "https://app.example",
      "https://APP.example/client.json",
      "https://app.example/a/../client.json",
      "https://user:pw@app.example/client.json",
      "https://app.example/client.json#x",
      "http://app.example/client.json",
      `https://app.example/${"x".repeat(400)}`,
    ]
  ) await assertRefused(clients, id);
  assert.deepEqual(asked, []);
});

Deno.test("documents on private addresses are refused", async () => {
  const clients = new Clients({
    encryptor,
    outbound: createOutbound({ allow: [], resolve: () => Promise.resolve(["10.0.0.1"]) }),
    clock: new TestClock(),
  });
  for (const host of ["127.0.0.1", "[::1]", "169.254.169.254", "10.0.0.1", "internal.example"]) {
    await assertRefused(clients, `https://${host}/client.json`);
  }
});

Deno.test("many documents at once are not fetched, of one address two", async () => {
  const waiting = Promise.withResolvers<void>();
  const { clients, asked } = clientsWith(async () => {
    await waiting.promise;
    return new Response("no", { status: 404 });
  });
  const running = Array.from({ length: 32 }, (_, n) => clients.require(`https://app.example/${n}`, `${n >> 1}`));
  await assertRefused(clients, "https://app.example/third", "0");
  await assertRefused(clients, "https://app.example/last", "another");
  assert.equal(asked.length, 32);
  // What is being fetched already can be waited for.
  running.push(clients.require("https://app.example/5", "another"));
  waiting.resolve();
  assert.equal((await Promise.allSettled(running)).filter(({ status }) => status === "rejected").length, 33);
  await assertRefused(clients, "https://app.example/third", "0");
  assert.equal(asked.length, 33);
});
