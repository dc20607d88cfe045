// A local S3 server that checks signatures, run as a process of its own: `deno run s3_server.ts <folder>` prints its port.
import S3rver from "npm:s3rver@3.7.1";

const [folder = "."] = Deno.args;
const { port } = await new S3rver({
  address: "127.0.0.1",
  port: 0,
  silent: true,
  directory: folder,
  configureBuckets: [{ name: "files", configs: [] }],
}).run();
await Deno.stdout.write(new TextEncoder().encode(`${port}\n`));
