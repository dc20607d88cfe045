// Access tokens of a family on an open connection: the SDK renews each before it expires, without a disconnect.
import assert from "node:assert/strict";
import { until } from "../../wait.ts";
import { SdkClient, serveGateway } from "../http_server.ts";
import { SECOND, TokenFamily, TOKENS } from "./refresh_token_fixture.ts";
import { ok } from "../fixtures.ts";

Deno.test("the SDK renews its connection by a refresh token, and is disconnected with the family", async () => {
  await using served = await serveGateway();
  const { gateway, url } = served;
  const family = await TokenFamily.logIn(gateway, "alice", { expiresInSeconds: 60 });
  let pair = family.initial;
  const accessTokens: string[] = [];
  // The tokens end 20 s after each other, which is less than the grace of one that has expired: however late the SDK renews,
  // the connection is not due to be closed.
  const rotate = async () => {
    gateway.clock.advance(20 * SECOND);
    pair = await family.rotate(pair);
    accessTokens.push(pair.accessToken);
  };
  await rotate();
  await rotate();
  // The SDK's own timers run: each token ends a second from now for it, because the gateway's clock is moved up to that.
  gateway.clock.advance(19 * SECOND);
  let renewals = 0;
  using client = new SdkClient(`${url}/ws`, {
    token: family.initial.accessToken,
    async getToken() {
      await rotate();
      renewals++;
      return accessTokens.shift() ?? "";
    },
  });
  const states: string[] = [];
  client.on("state", ({ newState }) => states.push(newState));
  client.connect();
  await client.ready();
  await until(() => renewals >= 2, "two renewals");
  assert.equal((await client.rpc("me.read", {})).data.principal.id, "alice");
  assert.deepEqual(states, ["connecting", "connected"]);
  const closed = new Promise<number>((resolve) => client.on("disconnected", ({ code }) => resolve(code)));
  ok(await (await gateway.as("alice")).delete(`${TOKENS}/${family.id}`));
  assert.equal(await closed, 3503);
});
