// What tests of files share: uploads, downloads and pictures.
import { createHash } from "node:crypto";
import type { ApiResponse, Caller, Harness } from "../../harness.ts";
import { until } from "../../wait.ts";

export const FILES = "/v1/collaboration/files";

/** Names of all files below a folder, which a gateway makes with the first one. */
export async function listFiles(folder: string): Promise<string[]> {
  const names: string[] = [];
  try {
    for await (const entry of Deno.readDir(folder)) {
      const path = `${folder}/${entry.name}`;
      if (entry.isDirectory) names.push(...await listFiles(path));
      else names.push(path);
    }
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
  return names.sort();
}

type Body = Uint8Array<ArrayBuffer> | string | ReadableStream<Uint8Array>;

/** Uploads a raw body; the length is that of the body unless a header says otherwise. */
export function upload(
  gateway: Harness,
  who: Caller,
  query: Record<string, string>,
  body: Body,
  headers: Record<string, string> = {},
): Promise<ApiResponse> {
  const bytes = typeof body === "string" ? new TextEncoder().encode(body) : body;
  const length = bytes instanceof Uint8Array ? { "content-length": String(bytes.length) } : {};
  const request = { method: "POST", headers: { ...length, ...headers }, body: bytes };
  return gateway.send(who.request(`${FILES}?${new URLSearchParams(query)}`, request));
}

/** A form with these parts, in this order. */
export function formOf(...parts: readonly [string, string | File][]): FormData {
  const form = new FormData();
  for (const [name, value] of parts) form.append(name, value);
  return form;
}

/** Uploads a form, with the length that it has on the wire. */
export async function uploadForm(gateway: Harness, who: Caller, form: FormData, cut = 0): Promise<ApiResponse> {
  const encoded = new Request("http://gateway.test", { method: "POST", body: form });
  const bytes = await encoded.bytes();
  return await upload(gateway, who, {}, bytes.slice(0, bytes.length - cut), {
    "content-type": encoded.headers.get("content-type") ?? "",
  });
}

/** Reads a content as bytes, past the harness, which reads text. */
export async function download(
  gateway: Harness,
  who: Caller,
  id: string,
  headers: Record<string, string> = {},
  method = "GET",
  query = "",
): Promise<{ status: number; headers: Headers; bytes: Uint8Array }> {
  const request = who.request(`${FILES}/${id}/content${query}`, { method, headers });
  const response = await gateway.app.fetch(request, "127.0.0.1");
  return { status: response.status, headers: response.headers, bytes: await response.bytes() };
}

/** The header of a PNG of this size, which is all that is read. */
export function pngHeader(width: number, height: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(64);
  bytes.set([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 13, 0x49, 0x48, 0x44, 0x52]);
  const view = new DataView(bytes.buffer);
  view.setUint32(16, width);
  view.setUint32(20, height);
  return bytes;
}

/** Uploads what may be a profile picture. */
export async function uploadPicture(gateway: Harness, who: Caller): Promise<string> {
  const { status, body } = await upload(gateway, who, { name: "me.png" }, pngHeader(64, 64));
  if (status !== 201) throw new Error(`The upload failed: ${JSON.stringify(body)}`);
  return body.id;
}

export function sha256(bytes: Uint8Array | string, encoding: "hex" | "base64" = "hex"): string {
  return createHash("sha256").update(bytes).digest(encoding);
}

/** Asks for a thumbnail again while it is being created, which takes a busy machine longer than a request waits. */
export async function untilCreated<Response extends { status: number }>(
  ask: () => Promise<Response>,
): Promise<Response> {
  let response = await ask();
  await until(async () => {
    if (response.status !== 503) return true;
    response = await ask();
    return false;
  }, "a thumbnail");
  return response;
}
