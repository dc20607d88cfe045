// Many editors in one rich document: what a keystroke costs the server, and when the others see it. The peer is Hocuspocus as its
// documentation starts it, on Node, which stores nothing; the gateway commits each keystroke before anyone receives it.
import { DocumentClients } from "./document_clients.ts";
import { Gateway } from "./gateway.ts";
import type { Row } from "./report.ts";
import { pinSelf, Server } from "./server.ts";

const [EDITORS, TYPISTS] = [100, 10];
const [KEYS_EACH, EVERY_MS] = [60, 200];
const PEER = new URL("./peers/hocuspocus.mjs", import.meta.url);
const PEER_VERSION = "4.7.0";
const PATH = "/v1/collaboration/documents";

type Measured = { cpuMs: number; p95Ms: number };

export async function documents(rounds: number): Promise<Row[]> {
  const peerFolder = await installPeer();
  await pinSelf("1");
  const gateway = await Gateway.start();
  const peer = await Server.start("node", [`${peerFolder}/hocuspocus.mjs`], {});
  const [ours, theirs]: Measured[][] = [[], []];
  for (let round = 0; round < rounds; round++) {
    const [roomId] = await gateway.rooms(1);
    const { id } = await gateway.call("POST", PATH, { roomId, title: "Bench", kind: "rich", text: markdown() });
    const content = await gateway.call("GET", `${PATH}/${id}/content?format=yjs`);
    const url = `${gateway.server.url.replace("http", "ws")}${PATH}/sync`;
    ours?.push(await measure(gateway.server, url, id, gateway.token));
    const update = Uint8Array.fromBase64(content.update);
    theirs?.push(await measure(peer, peer.url.replace("http", "ws"), `bench-${round}`, "token", update));
  }
  await peer.stop();
  await gateway.server.stop();
  await Deno.remove(peerFolder, { recursive: true });
  const row = (what: string, key: keyof Measured): Row => ({
    what,
    unit: "ms",
    peer: "Hocuspocus on Node, without storage",
    ours: ours?.map((one) => one[key]) ?? [],
    theirs: theirs?.map((one) => one[key]) ?? [],
    isLowerBetter: true,
  });
  return [
    row(`CPU of a keystroke, ${EDITORS} editors of 50 KB`, "cpuMs"),
    row(`p95 until an editor of ${EDITORS} sees a keystroke`, "p95Ms"),
  ];
}

async function measure(server: Server, url: string, name: string, token: string, content?: Uint8Array) {
  if (content !== undefined) {
    const writer = await DocumentClients.open(url, name, token, 2, 0);
    await writer.write(content);
    const clients = await measureTyping(server, url, name, token);
    writer.close();
    return clients;
  }
  return await measureTyping(server, url, name, token);
}

async function measureTyping(server: Server, url: string, name: string, token: string): Promise<Measured> {
  const clients = await DocumentClients.open(url, name, token, EDITORS, TYPISTS);
  await clients.type(5, EVERY_MS);
  const before = server.cpuSeconds();
  const { keystrokes, latenciesMs } = await clients.type(KEYS_EACH, EVERY_MS);
  const cpuMs = (server.cpuSeconds() - before) * 1000 / keystrokes;
  clients.close();
  const sorted = latenciesMs.toSorted((a, b) => a - b);
  return { cpuMs, p95Ms: sorted[Math.floor(sorted.length * 0.95)] ?? NaN };
}

/** About 50 KB of headings and paragraphs. */
function markdown(): string {
  const words = "The quick brown fox jumps over the lazy dog, and **nobody** minds *at all*. ".repeat(4);
  return Array.from({ length: 80 }, (_, n) => `## Section ${n}\n\n${words}\n\n${words}`).join("\n\n");
}

/** A folder with the peer and its packages, which Node needs on disk. */
async function installPeer(): Promise<string> {
  const folder = await Deno.makeTempDir({ prefix: "gateway-bench-peer-" });
  await Deno.copyFile(PEER, `${folder}/hocuspocus.mjs`);
  const args = ["install", "--silent", "--prefix", folder, `@hocuspocus/server@${PEER_VERSION}`, "yjs@13.6.33"];
  const { success, stderr } = await new Deno.Command("npm", { args, stdout: "null", stderr: "piped" }).output();
  if (!success) throw new Error(new TextDecoder().decode(stderr));
  return folder;
}
