// The least of a WebSocket client that a benchmark needs, since its cost must be small beside that of the servers: the event
// loops of runtimes take longer over a frame than the gateway takes to send it. Here one loop asks epoll which sockets have
// something and reads it, by calls into the C library. Linux only.
import { Buffer } from "node:buffer";
import { randomBytes } from "node:crypto";

const { symbols: libc } = Deno.dlopen("libc.so.6", {
  socket: { parameters: ["i32", "i32", "i32"], result: "i32" },
  connect: { parameters: ["i32", "buffer", "u32"], result: "i32" },
  setsockopt: { parameters: ["i32", "i32", "i32", "buffer", "u32"], result: "i32" },
  recv: { parameters: ["i32", "buffer", "usize", "i32"], result: "i32" },
  send: { parameters: ["i32", "buffer", "usize", "i32"], result: "i32" },
  close: { parameters: ["i32"], result: "i32" },
  memcmp: { parameters: ["buffer", "buffer", "usize"], result: "i32" },
  epoll_create1: { parameters: ["i32"], result: "i32" },
  epoll_ctl: { parameters: ["i32", "i32", "i32", "buffer"], result: "i32" },
  epoll_wait: { parameters: ["i32", "buffer", "i32", "i32"], result: "i32" },
});

const AF_INET = 2;
const SOCK_STREAM = 1;
const IPPROTO_TCP = 6;
const TCP_NODELAY = 1;
const MSG_NOSIGNAL = 0x4000;
const EPOLLIN = 1;
const EPOLL_CTL_ADD = 1;
/** `struct epoll_event` has no padding on this one architecture. */
const EVENT = Deno.build.arch === "x86_64" ? { bytes: 12, fd: 4 } : { bytes: 16, fd: 8 };
const EVENTS_MAX = 1024;

const TEXT = 1;
const CLOSE = 8;
const PING = 9;
const PONG = 10;
const FINAL = 0x80;
const MASKED = 0x80;
const MASK_BYTES = 4;

type Frame = { opcode: number; start: number; end: number };

const epoll = assertSuccess("epoll_create1", libc.epoll_create1(0));
const events = new DataView(new ArrayBuffer(EVENTS_MAX * EVENT.bytes));
const eventBytes = new Uint8Array(events.buffer);
/** One for all sockets: what is in it is taken out before the next read. */
const receiveBuffer = Buffer.alloc(256 * 1024);
const READ_BYTES = BigInt(receiveBuffer.length);
/** The last chunk that was one text. All sockets of a room read the same one after the other, and it is decoded once. */
const lastText = { bytes: Buffer.alloc(64 * 1024), length: 0, text: "" };
/** Those that are open, by their descriptor. */
const sockets: FrameSocket[] = [];

/** Reads what has arrived at any socket; waits for it for `waitMs` at most, or not at all. */
export function pollSockets(waitMs: number): void {
  const count = libc.epoll_wait(epoll, eventBytes, EVENTS_MAX, waitMs);
  for (let at = 0; at < count; at++) sockets[events.getInt32(at * EVENT.bytes + EVENT.fd, true)]?.receive();
}

/** Speaks RFC 6455 with servers that send every message as one frame. */
export class FrameSocket {
  onOpen: () => void = () => {};
  onText: (text: string) => void = () => {};
  readonly #fd: number;
  readonly #url: string;
  /** The begin of a frame whose end has not come yet. */
  #rest: Buffer | undefined;
  #isUpgraded = false;
  #isOpen = true;

  /** Connects to an IPv4 address and asks the server to switch protocols. */
  constructor(url: string) {
    const { hostname, port, host, pathname, search } = new URL(url);
    this.#url = url;
    this.#fd = assertSuccess("socket", libc.socket(AF_INET, SOCK_STREAM, 0));
    const address = Buffer.alloc(16);
    address.writeUInt16LE(AF_INET, 0);
    address.writeUInt16BE(Number(port), 2);
    address.set(hostname.split(".").map(Number), 4);
    assertSuccess("connect", libc.connect(this.#fd, address, address.length));
    assertSuccess("setsockopt", libc.setsockopt(this.#fd, IPPROTO_TCP, TCP_NODELAY, Buffer.from([1, 0, 0, 0]), 4));
    events.setUint32(0, EPOLLIN, true);
    events.setInt32(EVENT.fd, this.#fd, true);
    assertSuccess("epoll_ctl", libc.epoll_ctl(epoll, EPOLL_CTL_ADD, this.#fd, eventBytes));
    sockets[this.#fd] = this;
    this.#writeBytes(Buffer.from(
      `GET ${pathname}${search} HTTP/1.1\r\nHost: ${host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n` +
        `Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${randomBytes(16).toString("base64")}\r\n\r\n`,
    ));
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  send(text: string): void {
    this.#write(TEXT, Buffer.from(text));
  }

  close(): void {
    this.#write(CLOSE, Buffer.alloc(0));
    this.#closeSocket();
  }

  /** Takes what has arrived. */
  receive(): void {
    const size = libc.recv(this.#fd, receiveBuffer, READ_BYTES, 0);
    if (size <= 0) return this.#closeSocket();
    const isLast = this.#rest === undefined && size === lastText.length &&
      libc.memcmp(receiveBuffer, lastText.bytes, BigInt(size)) === 0;
    if (isLast) this.onText(lastText.text);
    else if (this.#isUpgraded) this.#consume(receiveBuffer.subarray(0, size));
    else this.#completeUpgrade(receiveBuffer.subarray(0, size));
  }

  /** The response to the upgrade; a frame may follow it at once. */
  #completeUpgrade(chunk: Buffer): void {
    const end = chunk.indexOf("\r\n\r\n");
    if (end < 0 || chunk.toString("latin1", 9, 12) !== "101") {
      throw new Error(`${this.#url}: ${chunk.toString("latin1", 0, 40)}`);
    }
    this.#isUpgraded = true;
    this.onOpen();
    this.#consume(chunk.subarray(end + 4));
  }

  #consume(chunk: Buffer): void {
    const data = this.#rest === undefined ? chunk : Buffer.concat([this.#rest, chunk]);
    let at = 0;
    for (let frame = frameAt(data, at); frame !== undefined; frame = frameAt(data, at)) {
      if (frame.opcode === TEXT) this.#onFrame(data, at, frame);
      else if (frame.opcode === PING) this.#write(PONG, data.subarray(frame.start, frame.end));
      else if (frame.opcode === CLOSE) this.#closeSocket();
      at = frame.end;
    }
    this.#rest = at < data.length ? Buffer.from(data.subarray(at)) : undefined;
  }

  #onFrame(data: Buffer, at: number, { start, end }: Frame): void {
    // What a benchmark says is ASCII, and to take it for Latin-1 needs no look at each byte.
    const text = data.toString("latin1", start, end);
    if (at === 0 && end === data.length && end <= lastText.bytes.length) {
      lastText.length = data.copy(lastText.bytes);
      lastText.text = text;
    }
    this.onText(text);
  }

  /** Masked with zeros, which is masked enough for a server on this machine. */
  #write(opcode: number, payload: Uint8Array): void {
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
    this.#writeBytes(Buffer.concat([head, payload]));
  }

  #writeBytes(bytes: Uint8Array): void {
    let rest = bytes;
    while (this.#isOpen && rest.length > 0) {
      const sent = libc.send(this.#fd, rest, BigInt(rest.length), MSG_NOSIGNAL);
      if (sent < 0) return this.#closeSocket();
      rest = rest.subarray(sent);
    }
  }

  #closeSocket(): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    delete sockets[this.#fd];
    libc.close(this.#fd);
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

function assertSuccess(call: string, result: number): number {
  if (result < 0) throw new Error(`${call} failed`);
  return result;
}
