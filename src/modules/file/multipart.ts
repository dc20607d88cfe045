// Multipart forms: streams the single file of a form.
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { Busboy } from "@fastify/busboy";
import { Fault, invalidField } from "@/core/fault.ts";

type Parser = InstanceType<typeof Busboy>;

/** The fields of a form, and its file. */
type Form = {
  /** Those before the file, and when its content was read also those after it. */
  fields: { name?: string; roomId?: string };
  filename: string | undefined;
  contentType: string | undefined;
  content: AsyncIterable<Uint8Array>;
  /** Stops reading if the content will not be read to its end; otherwise without effect. */
  cancel(): void;
};

/** Maximum size of a form besides its file. */
export const FORM_OVERHEAD_BYTES = 65_536;
const FIELDS = ["name", "roomId"];

/** Reads a form up to its file; reading the content to its end also checks that the form is complete. */
export async function parseForm(body: AsyncIterable<Uint8Array>, contentType: string): Promise<Form> {
  const { promise, resolve, reject } = Promise.withResolvers<Form>();
  let file: (AsyncIterable<Uint8Array> & { destroy(): void }) | undefined;
  const parser = await createParser(contentType);
  const fields = readFields(parser);
  parser.on("file", (_field, stream, filename, _encoding, type) => {
    file = stream;
    // The reader of the content receives the error; without a listener it would end the process.
    stream.on("error", () => {});
    resolve({
      fields,
      filename,
      contentType: type === "" ? undefined : type,
      content: complete(stream),
      cancel: () => parser.destroy(new Error("The form is not expected here")),
    });
  });
  const parsed = pipeline(Readable.from(body, { objectMode: false }), parser).then(
    () => reject(invalidField("/file", "the form has no file")), // without effect once there was one
    (error) => {
      const fault = error instanceof Fault
        ? error
        : new Fault("bad_request", "The form is malformed or ended early", { cause: error });
      reject(fault);
      // The parser leaves its file open; this ends the wait of the reader.
      file?.destroy();
      throw fault;
    },
  );
  // The reader of the content awaits it; without a file, `promise` rejects.
  parsed.catch(() => {});
  async function* complete(stream: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    try {
      yield* stream;
    } catch (thrown) {
      await parsed;
      throw thrown;
    }
    // After the file, the rest of the form is still checked and part of its digest.
    await parsed;
  }
  return await promise;
}

async function createParser(contentType: string): Promise<Parser> {
  const { Busboy } = await import("@fastify/busboy");
  try {
    return new Busboy({
      headers: { "content-type": contentType },
      // Keeps the file name as sent, so that a name with a path is refused and not shortened.
      preservePath: true,
      limits: { files: 1, fields: FIELDS.length, parts: FIELDS.length + 1, fieldSize: 1024, headerPairs: 20 },
    });
  } catch (cause) {
    throw new Fault("bad_request", "The Content-Type of the form has no boundary", { cause });
  }
}

/** The fields, as far as they are read; ends the form if it has others, or more than one file. */
function readFields(parser: Parser): Form["fields"] {
  const fields: Form["fields"] = {};
  const refuse = (pointer: string, detail: string): void => {
    parser.destroy(invalidField(pointer, detail));
  };
  parser.on("field", (field, value) => {
    if (Object.hasOwn(fields, field)) refuse(`/${field}`, "given more than once");
    else if (field === "name" || field === "roomId") fields[field] = value;
    else if (field === "file") refuse("/file", "expected a part with a filename");
    else parser.destroy(Fault.forField(`/${field}`, "unknown_field", "expected name, roomId or file", "unknown_field"));
  });
  parser.on("filesLimit", () => refuse("/file", "expected one file per form"));
  parser.on("fieldsLimit", () => refuse("", "too many fields"));
  parser.on("partsLimit", () => refuse("", "too many parts"));
  return fields;
}
