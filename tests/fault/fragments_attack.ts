// A hostile client as a process of its own: sockets that send one message in fragments without end, and come back when closed.
// Arguments: port, path, sockets, fragment KiB, milliseconds, and optionally the first frame. It stops by itself.
import { encodeUpgradeRequest } from "../upgrade_request.ts";

const [port, path = "/ws", sockets, kib, ms, first] = Deno.args;
const BYTES_MAX = 4 * 1024 ** 3;
const CONTINUATION = 0;
const BINARY = 2;
const TEXT = 1;
const FINAL = 0x80;

const size = Number(kib) * 1024;
const end = performance.now() + Number(ms);
const [begin, more] = [frame(BINARY, new Uint8Array(size)), frame(CONTINUATION, new Uint8Array(size))];
const hello = first === undefined ? undefined : frame(TEXT | FINAL, new TextEncoder().encode(first));
const head = encodeUpgradeRequest(path);
let sent = 0;
const isOver = (): boolean => performance.now() > end || sent > BYTES_MAX;

await Promise.all(Array.from({ length: Number(sockets) }, async () => {
  while (!isOver()) {
    try {
      await attack();
    } catch {
      // It was cut off, as it should be.
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}));
await Deno.stdout.write(new TextEncoder().encode(String(Math.round(sent / 1024 ** 2))));
Deno.exit(0);

async function attack(): Promise<void> {
  using socket = await Deno.connect({ hostname: "127.0.0.1", port: Number(port) });
  await send(socket, head);
  const answer = new Uint8Array(1024);
  const length = await socket.read(answer);
  if (!new TextDecoder().decode(answer.subarray(0, length ?? 0)).startsWith("HTTP/1.1 101")) return;
  if (hello !== undefined) await send(socket, hello);
  for (let part = begin; !isOver(); part = more) await send(socket, part);
}

async function send(socket: Deno.TcpConn, bytes: Uint8Array): Promise<void> {
  for (let at = 0; at < bytes.length;) {
    const written = await socket.write(bytes.subarray(at));
    at += written;
    sent += written;
  }
}

/** Masked, with a mask of zeros that changes nothing. */
function frame(kind: number, payload: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(14 + payload.length);
  bytes.set([kind, 0x80 | 127]);
  new DataView(bytes.buffer).setBigUint64(2, BigInt(payload.length));
  bytes.set(payload, 14);
  return bytes;
}
