// Converts between the protobuf and the JSON encoding of `/ws`; connections use JSON only. A frame has messages, each after
// its length; a `bytes` field contains JSON text. Loaded for the first client that uses protobuf.
import {
  create,
  type DescField,
  type DescMessage,
  fromBinary,
  isFieldSet,
  type Message,
  ScalarType,
  toBinary,
} from "@bufbuild/protobuf";
import { BinaryReader, BinaryWriter } from "@bufbuild/protobuf/wire";
import { CommandSchema, ReplySchema } from "./client_pb.js";
import { objectOf } from "@/core/json.ts";

/** Replaces a body whose data is not JSON: it is a string, so the command fails as a bad request. */
const INVALID_BODY = `"data that is not JSON"`;

const toBytes = new TextEncoder();
const toText = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Shared by all protobuf sockets. */
export class ProtobufCodec {
  readonly #frameMaxBytes: number;
  #text = "";
  #frame = new Uint8Array();

  constructor(frameMaxBytes: number) {
    this.#frameMaxBytes = frameMaxBytes;
  }

  /** Lines of JSON as a frame. Sockets of a room get the same text in succession, so the last frame is cached. */
  encode(text: string): Uint8Array<ArrayBuffer> {
    if (text !== this.#text) {
      this.#frame = encodeFrame(text, ReplySchema);
      this.#text = text;
    }
    return this.#frame;
  }

  /** The messages of a frame, as input of `Connection.receive`. */
  decode(data: unknown): Generator<unknown> {
    return decodeFrame(data, this.#frameMaxBytes, CommandSchema);
  }
}

/** Encodes each line of JSON as a message of the frame. */
export function encodeFrame(text: string, schema: DescMessage): Uint8Array<ArrayBuffer> {
  const writer = new BinaryWriter();
  for (const line of text.split("\n")) writer.bytes(toBinary(schema, messageOf(schema, JSON.parse(line))));
  return writer.finish();
}

/**
 * The messages of a frame as JSON, decoded on demand. A message that violates the protocol yields a value that is not a
 * string, and ends the iteration.
 */
export function* decodeFrame(data: unknown, maxBytes: number, schema: DescMessage): Generator<unknown> {
  // A text frame is as invalid here as a binary frame is on a JSON socket.
  if (!(data instanceof ArrayBuffer)) return yield undefined;
  if (data.byteLength === 0 || data.byteLength > maxBytes) return yield data;
  const frame = new BinaryReader(new Uint8Array(data));
  while (frame.pos < frame.len) {
    const message = readMessage(frame, schema);
    yield message;
    if (message === undefined) return;
  }
}

/** The next message of a frame; `undefined` if it is malformed. */
function readMessage(frame: BinaryReader, schema: DescMessage): string | undefined {
  let message: Message;
  try {
    message = fromBinary(schema, frame.bytes(), { readUnknownFields: false });
  } catch {
    return undefined;
  }
  return textOf(message, schema, (field, value) => {
    try {
      return textOfField(field, value);
    } catch {
      return INVALID_BODY;
    }
  });
}

/** The message as JSON. */
function textOf(message: Message, schema: DescMessage, ofField = textOfField): string {
  const set = schema.fields.filter((field) => isFieldSet(message, field));
  return `{${set.map((field) => `"${field.name}":${ofField(field, objectOf(message)[field.localName])}`).join(",")}}`;
}

/** Throws if the data of a `bytes` field is not JSON. */
function textOfField(field: DescField, value: unknown): string {
  const { message } = field;
  const encodeOne = (inner: unknown): string =>
    message === undefined ? JSON.stringify(inner) : textOf(inner as Message, message); // as its field says
  if (Array.isArray(value)) return `[${value.map(encodeOne).join(",")}]`;
  if (value instanceof Uint8Array) return jsonOf(value);
  // All digits, so that validation rejects an unsafe integer instead of rounding it.
  if (typeof value === "bigint") return String(value);
  if (field.fieldKind !== "map") return encodeOne(value);
  return `{${
    Object.entries(objectOf(value)).map(([key, inner]) => `${JSON.stringify(key)}:${encodeOne(inner)}`).join(",")
  }}`;
}

/** The JSON text on one line. */
function jsonOf(bytes: Uint8Array): string {
  const text = toText.decode(bytes);
  JSON.parse(text);
  // JSON strings have no raw line breaks.
  return text.replaceAll("\n", " ");
}

/** The message of a parsed JSON object; unknown properties are left out. */
function messageOf(schema: DescMessage, value: unknown): Message {
  const fields = objectOf(value);
  const message = create(schema);
  const target = objectOf(message);
  for (const field of schema.fields) {
    const inner = fields[field.name];
    if (inner !== undefined) target[field.localName] = fieldOf(field, inner);
  }
  return message;
}

function fieldOf(field: DescField, value: unknown): unknown {
  const { message } = field;
  const decodeOne = (inner: unknown): unknown => message === undefined ? inner : messageOf(message, inner);
  if (field.fieldKind === "list") return Array.isArray(value) ? value.map(decodeOne) : [];
  if (field.fieldKind === "map") {
    return Object.fromEntries(Object.entries(objectOf(value)).map(([key, inner]) => [key, decodeOne(inner)]));
  }
  switch (field.scalar) {
    case ScalarType.BYTES:
      return toBytes.encode(JSON.stringify(value));
    case ScalarType.INT64:
    case ScalarType.UINT64:
      return BigInt(String(value));
    case ScalarType.UINT32:
      // Seconds may be fractional.
      return Math.ceil(Number(value));
    default:
      return decodeOne(value);
  }
}
