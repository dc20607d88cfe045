// The protobuf flavour of the wire format, at the socket's edge: everything behind it speaks JSON. A frame holds messages, each
// after its length; a `bytes` field holds a JSON text. Loaded when the first client asks for it.
import { BinaryReader, BinaryWriter, type IBinaryWriter, WireType } from "@bufbuild/protobuf";
import { Command, type Field, type Kind, type Message, Reply, type Scalar } from "./protobuf_message.ts";

/** What a message says, by field; names, keys of maps and scalars are JSON texts, bytes are yet to show that they are one. */
type Content = Map<string, Value>;
type Value = string | Uint8Array | Content | Content[];

/** In place of a body whose data is no JSON: no body is a text, so its command is answered as a bad request. */
const BAD_BODY = `"data that is not JSON"`;

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** What all sockets of this flavour share. */
export class Protobuf {
  readonly #frameMaxBytes: number;
  #text = "";
  #frame = new Uint8Array();

  constructor(frameMaxBytes: number) {
    this.#frameMaxBytes = frameMaxBytes;
  }

  /** What lines of JSON say. Sockets of one room get the same text one after the other: it is encoded for the first. */
  encode(text: string): Uint8Array<ArrayBuffer> {
    if (text !== this.#text) {
      this.#frame = encodeFrame(text, Reply);
      this.#text = text;
    }
    return this.#frame;
  }

  /** What a connection is to be given for one frame of its client. */
  decode(data: unknown): Generator<unknown> {
    return decodeFrame(data, this.#frameMaxBytes, Command);
  }
}

/** A frame of one message per line of JSON. */
export function encodeFrame(text: string, message: Message): Uint8Array<ArrayBuffer> {
  const writer = new BinaryWriter();
  for (const line of text.split("\n")) {
    write(writer.fork(), message, JSON.parse(line));
    writer.join();
  }
  return writer.finish() as Uint8Array<ArrayBuffer>; // declared before buffers had types
}

/**
 * The messages of a frame as lines of JSON, read as they are asked for; and something else than text where one breaks the
 * protocol, which is the end of it.
 */
export function* decodeFrame(data: unknown, maxBytes: number, message: Message): Generator<unknown> {
  // Text is to this socket what bytes are to others.
  if (!(data instanceof ArrayBuffer)) return yield undefined;
  if (data.byteLength === 0 || data.byteLength > maxBytes) return yield data;
  const frame = new BinaryReader(new Uint8Array(data));
  while (frame.pos < frame.len) {
    const line = lineOf(frame, message);
    yield line;
    if (line === undefined) return;
  }
}

/** The next message of a frame; `undefined` when it is malformed in one of the many ways there are. */
function lineOf(frame: BinaryReader, message: Message): string | undefined {
  try {
    const fields = [...read(frame.bytes(), message, new Map())];
    return `{${fields.map(([name, value]) => `${name}:${textOf(value) ?? BAD_BODY}`).join(",")}}`;
  } catch {
    return undefined;
  }
}

/** The value as JSON; `undefined` where data in it is none. */
function textOf(value: Value): string | undefined {
  if (typeof value === "string") return value;
  if (value instanceof Uint8Array) return jsonOf(value);
  if (Array.isArray(value)) return joined("[", value.map(textOf), "]");
  const fields = [...value].map(([name, inner]) => {
    const text = textOf(inner);
    return text === undefined ? undefined : `${name}:${text}`;
  });
  return joined("{", fields, "}");
}

function joined(start: string, parts: (string | undefined)[], end: string): string | undefined {
  return parts.includes(undefined) ? undefined : `${start}${parts.join(",")}${end}`;
}

/** Adds what `bytes` say to what is known; of a field that comes twice the last counts, and a message is added to. */
function read(bytes: Uint8Array, message: Message, content: Content): Content {
  const reader = new BinaryReader(bytes, utf8);
  while (reader.pos < reader.len) {
    const [number, wireType] = reader.tag();
    const field = message.byNumber.get(number);
    if (field === undefined || wireType !== wireTypeOf(field.kind)) reader.skip(wireType, number);
    else readField(reader, field, content);
  }
  return content;
}

function readField(reader: BinaryReader, { name, kind }: Field, content: Content): void {
  const key = JSON.stringify(name);
  const known = content.get(key);
  if (typeof kind === "string") {
    const scalar = SCALARS[kind].read(reader);
    // No data is no JSON text, but the default of its field.
    if (scalar.length === 0) content.delete(key);
    else content.set(key, scalar);
  } else if ("list" in kind) {
    const item = read(reader.bytes(), kind.list, new Map());
    if (Array.isArray(known)) known.push(item);
    else content.set(key, [item]);
  } else if ("map" in kind) {
    const entry = read(reader.bytes(), kind.map, new Map());
    const inner: Content = known instanceof Map ? known : new Map();
    const value = entry.get(`"value"`) ?? (kind.map.byName.get("value")?.kind === "string" ? `""` : new Map());
    const entryKey = entry.get(`"key"`);
    content.set(key, inner.set(typeof entryKey === "string" ? entryKey : `""`, value));
  } else {
    content.set(key, read(reader.bytes(), kind, known instanceof Map ? known : new Map()));
  }
}

function write(writer: IBinaryWriter, message: Message, value: unknown): void {
  for (const [name, inner] of entriesOf(value)) {
    const field = message.byName.get(name);
    if (field !== undefined) writeField(writer, field.number, field.kind, inner);
  }
}

function writeField(writer: IBinaryWriter, number: number, kind: Kind, value: unknown): void {
  if (typeof kind === "string") {
    SCALARS[kind].write(writer.tag(number, wireTypeOf(kind)), value);
  } else if ("list" in kind) {
    for (const item of Array.isArray(value) ? value : []) writeField(writer, number, kind.list, item);
  } else if ("map" in kind) {
    for (const [key, inner] of entriesOf(value)) writeField(writer, number, kind.map, { key, value: inner });
  } else {
    write(writer.tag(number, WireType.LengthDelimited).fork(), kind, value);
    writer.join();
  }
}

function entriesOf(value: unknown): [name: string, value: unknown][] {
  return typeof value === "object" && value !== null ? Object.entries(value) : [];
}

function wireTypeOf(kind: Kind): WireType {
  return typeof kind === "string" ? SCALARS[kind].wireType : WireType.LengthDelimited;
}

type Codec = {
  wireType: WireType;
  /** As JSON, or the bytes that should be it. */
  read(reader: BinaryReader): string | Uint8Array;
  write(writer: IBinaryWriter, value: unknown): void;
};

/** Numbers are copied as digits, so that one beyond what JavaScript counts exactly is refused and not changed. */
const SCALARS: Readonly<Record<Scalar, Codec>> = {
  bool: {
    wireType: WireType.Varint,
    read: (reader) => String(reader.bool()),
    write: (writer, value) => writer.bool(value === true),
  },
  uint32: {
    wireType: WireType.Varint,
    read: (reader) => String(reader.uint32()),
    // Seconds may come as a fraction of one.
    write: (writer, value) => writer.uint32(Math.ceil(Number(value))),
  },
  int32: {
    wireType: WireType.Varint,
    read: (reader) => String(reader.int32()),
    write: (writer, value) => writer.int32(Number(value)),
  },
  uint64: {
    wireType: WireType.Varint,
    read: (reader) => String(reader.uint64()),
    write: (writer, value) => writer.uint64(String(value)),
  },
  int64: {
    wireType: WireType.Varint,
    read: (reader) => String(reader.int64()),
    write: (writer, value) => writer.int64(String(value)),
  },
  string: {
    wireType: WireType.LengthDelimited,
    read: (reader) => JSON.stringify(reader.string()),
    write: (writer, value) => writer.string(String(value)),
  },
  json: {
    wireType: WireType.LengthDelimited,
    read: (reader) => reader.bytes(),
    write: (writer, value) => writer.string(JSON.stringify(value)),
  },
};

/** The JSON text as it came, on one line; `undefined` when it is none. */
function jsonOf(bytes: Uint8Array): string | undefined {
  try {
    const text = utf8.decode(bytes);
    JSON.parse(text);
    // Inside a string it would have been an escape.
    return text.replaceAll("\n", " ");
  } catch {
    return undefined;
  }
}
