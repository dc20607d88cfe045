// Forms: the one file in a multipart body as a content that is read as it comes.
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { Fault } from "@/core/fault.ts";

/** What a form says before its file. */
export type Form = {
  /** Of the form's fields `name` and `roomId`. */
  fields: { name?: string; roomId?: string };
  filename: string | undefined;
  contentType: string | undefined;
  content: AsyncIterable<Uint8Array>;
  /** Stops reading; to be called when the content will not be read to its end, harmless when it was. */
  cancel(): void;
};

/** What a form may take up besides the file. */
export const FORM_OVERHEAD_BYTES = 65_536;
const FIELDS = ["name", "roomId"];

/** Reads a form up to its file; reading the content on to its end checks that the form is whole. */
export async function readForm(body: AsyncIterable<Uint8Array>, contentType: string): Promise<Form> {
  const { Busboy } = await import("@fastify/busboy");
  const { promise, resolve, reject } = Promise.withResolvers<Form>();
  const fields: Form["fields"] = {};
  let file: (AsyncIterable<Uint8Array> & { destroy(): void }) | undefined;
  let parser: InstanceType<typeof Busboy>;
  try {
    parser = new Busboy({
      headers: { "content-type": contentType },
      // The name as sent: a path in it is refused, not silently cut.
      preservePath: true,
      limits: { files: 1, fields: FIELDS.length, parts: FIELDS.length + 1, fieldSize: 1024, headerPairs: 20 },
    });
  } catch (cause) {
    throw new Fault("bad_request", "The Content-Type of the form has no boundary", { cause });
  }
  const refuse = (detail: string): void => {
    parser.destroy(new Fault("validation_failed", detail));
  };
  parser.on("field", (field, value) => {
    if (file !== undefined) refuse(`/${field}: fields come before the file`);
    else if (Object.hasOwn(fields, field)) refuse(`/${field}: given more than once`);
    else if (field === "name" || field === "roomId") fields[field] = value;
    else parser.destroy(new Fault("unknown_field", `/${field}: expected name, roomId or file`));
  });
  parser.on("file", (_field, stream, filename, _encoding, type) => {
    file = stream;
    stream.on("error", () => {});
    resolve({
      fields,
      filename,
      contentType: type === "" ? undefined : type,
      content: whole(stream),
      cancel: () => parser.destroy(new Error("The form is not wanted")),
    });
  });
  parser.on("filesLimit", () => refuse("/file: one file a form"));
  parser.on("fieldsLimit", () => refuse("The form has too many fields"));
  parser.on("partsLimit", () => refuse("The form has too many parts"));
  const parsed = pipeline(Readable.from(body, { objectMode: false }), parser).then(
    () => reject(new Fault("validation_failed", "/file: the form has no file")), // which nobody hears once there was one
    (error) => {
      const fault = error instanceof Fault
        ? error
        : new Fault("bad_request", "The form is broken or ended early", { cause: error });
      reject(fault);
      // The parser leaves its file open; whoever waits for more of it has to wake up.
      file?.destroy();
      throw fault;
    },
  );
  // Whoever reads the content hears of it there; without a file `promise` tells.
  parsed.catch(() => {});
  async function* whole(stream: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    try {
      yield* stream;
    } catch (error) {
      await parsed;
      throw error;
    }
    // The file may have ended, but what follows it is part of the form, and of its digest.
    await parsed;
  }
  return await promise;
}
