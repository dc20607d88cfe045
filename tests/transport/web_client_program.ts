// Prints how many files the client has, after serving each. Run without any permission by web_client_test.ts.
import { packageFile, PACKAGES } from "@/transport/web/packages.ts";
import { SCRIPTS } from "@/transport/web/sources.ts";
import { WebClient } from "@/transport/web/page.ts";

const client = new WebClient();
const html = await (await client.respond(new Request("http://gateway.test/"))).text();
const [, digest = ""] = /app\/([^/"]+)/.exec(html) ?? [];
const files = [
  ...Object.keys(SCRIPTS).map((path) => path.replaceAll("/", "-")),
  "style.css",
  "views.css",
  ...[...PACKAGES.keys()].map(packageFile),
];
const { route } = client;
for (const file of files) {
  if (route.auth !== "public") throw new TypeError("Expected a public route");
  const call = { params: { digest, file } } as unknown as Parameters<typeof route.handle>[1];
  const response = await route.handle(new Request(`http://gateway.test/app/${digest}/${file}`), call);
  // One that has only types is empty.
  await response.text();
  if (response.status !== 200) throw new Error(`${file} is not served`);
}
await Deno.stdout.write(new TextEncoder().encode(String(files.length)));
