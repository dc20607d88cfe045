// A local S3 server as a process of its own, for one test, and blobs in a server.
import { tmpdir } from "node:os";
import { join } from "node:path";
import { S3Blobs } from "@/adapters/blob/s3.ts";
import { createOutbound } from "@/adapters/outbound/http.ts";

const LOCK = new URL("../deno.lock", import.meta.url).pathname;

/** The credentials that the server accepts. */
export const S3_OPTIONS = { bucket: "files", region: "us-east-1", accessKeyId: "S3RVER", secretAccessKey: "S3RVER" };

/** Settings of a gateway whose files are in the bucket of a server. */
export function s3Settings(endpoint: string): Record<string, string> {
  return {
    SVC_S3_ENDPOINT: endpoint,
    SVC_S3_BUCKET: S3_OPTIONS.bucket,
    SVC_S3_REGION: S3_OPTIONS.region,
    SVC_S3_ACCESS_KEY_ID: S3_OPTIONS.accessKeyId,
    SVC_S3_SECRET_ACCESS_KEY: S3_OPTIONS.secretAccessKey,
  };
}

/** The operator allows no private address: the endpoint of the store is allowed by its setting alone. */
const outbound = createOutbound({ allow: [] });

/** Blobs in the bucket of a server. Parts that wait leave nothing but their folder. */
export function openS3Blobs(
  endpoint: string,
  { door = outbound, bucket = S3_OPTIONS.bucket, responseTimeoutMs }: {
    door?: typeof outbound;
    bucket?: string;
    responseTimeoutMs?: number;
  } = {},
): S3Blobs {
  const folder = join(tmpdir(), "s3-parts");
  return new S3Blobs(door, { endpoint, ...S3_OPTIONS, bucket }, {
    folder,
    ...(responseTimeoutMs === undefined ? {} : { responseTimeoutMs }),
  });
}

type S3Server = { endpoint: string; folder: string; close(): Promise<void> };

/** Starts a server with the one bucket of `S3_KEYS`, in a directory that is deleted afterwards. */
export async function startS3Server(): Promise<S3Server> {
  const folder = await Deno.makeTempDir({ prefix: "blob-s3-" });
  const server = new Deno.Command(Deno.execPath(), {
    args: [
      "run",
      "--allow-all",
      "--quiet",
      `--lock=${LOCK}`,
      new URL("s3_server.ts", import.meta.url).pathname,
      folder,
    ],
    stdout: "piped",
    stderr: "null",
  }).spawn();
  const lines = server.stdout.pipeThrough(new TextDecoderStream()).getReader();
  const port = (await lines.read()).value?.trim();
  return {
    endpoint: `http://127.0.0.1:${port}`,
    folder,
    async close() {
      server.kill("SIGKILL");
      await server.status;
      await lines.cancel();
      await Deno.remove(folder, { recursive: true });
    },
  };
}
