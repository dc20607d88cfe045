// The same client from plain Node, as most teams run it.
import assert from "node:assert/strict";
import { WAIT_MS } from "../wait.ts";
import { openTarget, uniqueName } from "./target.ts";

const hasNode = await new Deno.Command("node", { args: ["--version"], stdout: "null", stderr: "null" }).output()
  .then(({ success }) => success, () => false);

const SCRIPT = (entry: string, ws: string) => `
const { Centrifuge } = await import(${JSON.stringify(entry)});
const { default: WebSocket } = await import(${JSON.stringify(ws)});
const client = new Centrifuge(process.env.WS_URL, {
  token: process.env.TOKEN,
  websocket: WebSocket,
  timeout: ${WAIT_MS},
});
client.connect();
await client.ready();
const { data: room } = await client.rpc("room.create", { name: "from node" });
const subscription = client.newSubscription("room:" + room.id);
const heard = new Promise((resolve) => subscription.on("publication", ({ data }) => resolve(data.data.message.text)));
subscription.subscribe();
await subscription.ready();
await client.rpc("message.send", { roomId: room.id, text: "hello from node" });
console.log(await heard);
client.disconnect();
`;

Deno.test({
  name: "a client under Node connects, subscribes, sends and hears",
  ignore: !hasNode,
  async fn() {
    await using target = await openTarget();
    const token = await target.token({ sub: uniqueName("node") });
    const { stdout, stderr } = await new Deno.Command("node", {
      args: [
        "--input-type=module",
        "-e",
        SCRIPT(import.meta.resolve("npm:centrifuge@5.8.0"), import.meta.resolve("npm:ws@8.23.0")),
      ],
      env: { WS_URL: target.wsUrl, TOKEN: token },
      stdout: "piped",
      stderr: "piped",
    }).output();
    assert.equal(new TextDecoder().decode(stdout).trim(), "hello from node", new TextDecoder().decode(stderr));
  },
});
