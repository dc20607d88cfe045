// Access tokens of a family on an open connection: the SDK renews each before it expires, without a disconnect.
import assert from "node:assert/strict";
import { Centrifuge } from "npm:centrifuge@5.8.0";
import { until } from "../wait.ts";
import { serveGateway } from "./http_server.ts";
import { SECOND, TokenFamily, TOKENS } from "./refresh_token_fixture.ts";
import { ok } from "./fixtures.ts";

Deno.test("the SDK renews its connection by a refresh token, and is disconnected with the family", async () => {
  await using served = await serveGateway();
  const { gateway, url } = served;
  const family = await TokenFamily.logIn(gateway, "alice", { expiresInSeconds: 60 });
  let pair = family.initial;
  // The SDK's own timers run: the tokens end a second from now for it, and the gateway's clock is moved up to that.
  gateway.clock.advance(59 * SECOND);
  let renewals = 0;
  const client = new Centrifuge(`${url}/ws`, {
    token: pair.accessToken,
    async getToken() {
      pair = await family.rotate(pair);
      renewals++;
      gateway.clock.advance(59 * SECOND);
      return pair.accessToken;
    },
  });
  const states: string[] = [];
  client.on("state", ({ newState }) => states.push(newState));
  client.connect();
  await client.ready();
  await until(() => renewals === 2, "two renewals");
  assert.equal((await client.rpc("me.read", {})).data.principal.id, "alice");
  assert.deepEqual(states, ["connecting", "connected"]);
  const closed = new Promise<number>((resolve) => client.on("disconnected", ({ code }) => resolve(code)));
  ok(await (await gateway.as("alice")).delete(`${TOKENS}/${family.id}`));
  assert.equal(await closed, 3503);
});
