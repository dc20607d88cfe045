// A message of a socket that is longer than any text can be: the runtime limits a frame, but not the sum of its fragments.
import assert from "node:assert/strict";
import { openTarget } from "../e2e/target.ts";
import { eventually } from "../wait.ts";
import { encodeUpgradeRequest } from "../upgrade_request.ts";

const MIB = 1024 * 1024;
/** The longest text is a little below 512 MiB. */
const FRAGMENTS = 520;
const CONTINUED = 0;
const TEXT = 1;
const LAST = 0x80;
/** Masked, with a mask of zeros that changes nothing; the length follows in eight bytes. */
const LONG = 0x80 | 127;

Deno.test("a message without end ends neither the gateway nor what others do there", async () => {
  await using target = await openTarget({
    isOwn: true,
    // Else it would be cut off long before.
    environment: { SVC_LIMIT_SOCKET_MEMORY_BYTES: String(8 * 1024 * MIB) },
  });
  const gateway = target.process;
  assert.ok(gateway);
  const client = await target.connect(await target.token({ sub: "alice" }));
  const { hostname, port } = new URL(target.baseUrl);
  using hostile = await Deno.connect({ hostname, port: Number(port) });
  const send = async (bytes: Uint8Array): Promise<void> => {
    for (let sent = 0; sent < bytes.length;) sent += await hostile.write(bytes.subarray(sent));
  };
  await send(encodeUpgradeRequest("/ws"));
  await send(frame(TEXT | LAST, new TextEncoder().encode(await hello(target))));
  const part = new Uint8Array(MIB).fill(0x61);
  await send(frame(TEXT, part));
  for (let more = 2; more < FRAGMENTS; more++) await send(frame(CONTINUED, part));
  await send(frame(CONTINUED | LAST, part));
  await eventually(() => assert.match(gateway.log, /too long for the runtime/));
  const { data } = await client.rpc("room.create", { name: "Still here" });
  assert.match(data.id, /^room_/);
});

async function hello(target: Awaited<ReturnType<typeof openTarget>>): Promise<string> {
  return JSON.stringify({ id: 1, connect: { token: await target.token({ sub: "mallory" }) } });
}

function frame(kind: number, payload: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(14 + payload.length);
  bytes.set([kind, LONG]);
  new DataView(bytes.buffer).setBigUint64(2, BigInt(payload.length));
  bytes.set(payload, 14);
  return bytes;
}
