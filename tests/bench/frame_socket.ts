// The least of a WebSocket client that a benchmark needs, since its cost must be small beside that of the servers: the
// clients of runtimes and packages take longer over a frame than the gateway takes to send it.
import { Buffer } from "node:buffer";
import { randomBytes } from "node:crypto";
import { createConnection, type Socket } from "node:net";

const TEXT = 1;
const CLOSE = 8;
const PING = 9;
const PONG = 10;
const FINAL = 0x80;
const MASKED = 0x80;
const MASK_BYTES = 4;
/** One for all sockets: what is in it is taken out before the next read. */
const read = Buffer.alloc(256 * 1024);

type Frame = { opcode: number; start: number; end: number };

/** The last chunk that was one text. All sockets of a room read the same one after the other, and it is decoded once. */
class Last {
  text = "";
  readonly #bytes = Buffer.alloc(64 * 1024);
  #length = 0;

  is(chunk: Buffer): boolean {
    return chunk.length === this.#length && chunk.compare(this.#bytes, 0, this.#length) === 0;
  }

  keep(chunk: Buffer, text: string): void {
    if (chunk.length > this.#bytes.length) return;
    this.#length = chunk.copy(this.#bytes);
    this.text = text;
  }
}

const last = new Last();

/** Speaks RFC 6455 with servers that send every message as one frame. */
export class FrameSocket {
  onText: (text: string) => void = () => {};
  readonly #socket: Socket;
  /** The begin of a frame whose end has not come yet. */
  #rest: Buffer | undefined;
  #isGreeted = false;
  #isOpen = true;

  private constructor(socket: Socket) {
    this.#socket = socket;
  }

  /** Resolves when the server has switched protocols; rejects when it does not, or the socket fails. */
  static open(url: string): Promise<FrameSocket> {
    const { hostname, port, host, pathname, search } = new URL(url);
    return new Promise((resolve, reject) => {
      const socket: Socket = createConnection({
        host: hostname,
        port: Number(port),
        noDelay: true,
        onread: {
          buffer: read,
          callback: (size) => {
            const chunk = read.subarray(0, size);
            if (opened.#isGreeted) opened.#take(chunk);
            else if (opened.#greet(chunk)) resolve(opened);
            else reject(new Error(`${url}: ${chunk.toString("latin1", 0, 40)}`));
            return true;
          },
        },
      });
      const opened = new FrameSocket(socket);
      socket.on("error", reject);
      socket.on("close", () => opened.#isOpen = false);
      socket.write(
        `GET ${pathname}${search} HTTP/1.1\r\nHost: ${host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n` +
          `Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${randomBytes(16).toString("base64")}\r\n\r\n`,
      );
    });
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  send(text: string): void {
    this.#write(TEXT, Buffer.from(text));
  }

  close(): void {
    this.#write(CLOSE, Buffer.alloc(0));
    this.#socket.end();
  }

  /** Whether the answer to the upgrade is the right one; a frame may follow it at once. */
  #greet(chunk: Buffer): boolean {
    const end = chunk.indexOf("\r\n\r\n");
    this.#isGreeted = end > 0 && chunk.toString("latin1", 9, 12) === "101";
    // After the opener has had its turn, so that the frame finds who listens.
    const frames = Buffer.from(chunk.subarray(end + 4));
    if (this.#isGreeted && frames.length > 0) setTimeout(() => this.#take(frames), 0);
    return this.#isGreeted;
  }

  #take(chunk: Buffer): void {
    if (this.#rest === undefined && last.is(chunk)) return this.onText(last.text);
    const data = this.#rest === undefined ? chunk : Buffer.concat([this.#rest, chunk]);
    let at = 0;
    for (let frame = frameAt(data, at); frame !== undefined; frame = frameAt(data, at)) {
      if (frame.opcode === TEXT) this.#hear(data, at, frame);
      else if (frame.opcode === PING) this.#write(PONG, data.subarray(frame.start, frame.end));
      else if (frame.opcode === CLOSE) this.#socket.end();
      at = frame.end;
    }
    this.#rest = at < data.length ? Buffer.from(data.subarray(at)) : undefined;
  }

  #hear(data: Buffer, at: number, { start, end }: Frame): void {
    // What a benchmark says is ASCII, and to take it for Latin-1 needs no look at each byte.
    const text = data.toString("latin1", start, end);
    if (at === 0 && end === data.length) last.keep(data, text);
    this.onText(text);
  }

  /** Masked with zeros, which is masked enough for a server on this machine. */
  #write(opcode: number, payload: Uint8Array): void {
    if (!this.#isOpen) return;
    const size = payload.length;
    const head = Buffer.alloc((size < 126 ? 2 : size < 65_536 ? 4 : 10) + MASK_BYTES);
    head[0] = FINAL | opcode;
    if (size < 126) head[1] = MASKED | size;
    else if (size < 65_536) {
      head[1] = MASKED | 126;
      head.writeUInt16BE(size, 2);
    } else {
      head[1] = MASKED | 127;
      head.writeBigUInt64BE(BigInt(size), 2);
    }
    this.#socket.write(Buffer.concat([head, payload]));
  }
}

/** The frame that begins here; `undefined` while some of it is missing. */
function frameAt(data: Buffer, at: number): Frame | undefined {
  if (data.length < at + 2) return undefined;
  const first = data[at] ?? 0;
  if ((first & FINAL) === 0) throw new Error("Expected messages of one frame, received a part of one");
  const short = data[at + 1] ?? 0;
  const start = at + (short < 126 ? 2 : short === 126 ? 4 : 10);
  if (data.length < start) return undefined;
  const size = short < 126 ? short : short === 126 ? data.readUInt16BE(at + 2) : Number(data.readBigUInt64BE(at + 2));
  const end = start + size;
  return data.length < end ? undefined : { opcode: first & 0x0f, start, end };
}
