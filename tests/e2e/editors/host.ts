// Serves the pages of the editor tests, each bundled when it is needed.
import assert from "node:assert/strict";

const HTML = `<!doctype html><meta charset="utf-8"><style>body{font:14px sans-serif;margin:16px}` +
  `#editor{border:1px solid #bbb;min-height:200px;padding:8px}h1{font-size:18px;margin:0}p{margin:4px 0}` +
  `table{border-collapse:collapse}td,th{border:1px solid #999;min-width:60px;padding:2px 6px}` +
  `.collaboration-carets__caret{border-left:2px solid;margin-left:-1px;position:relative}` +
  `.collaboration-carets__label{position:absolute;top:-1.3em;left:-1px;font-size:11px;color:#fff;padding:0 3px}` +
  `</style><body><script type="module" src="/page.js"></script>`;

/** The script of the page with this editor. */
export async function bundlePage(editor: string): Promise<string> {
  const output = await Deno.makeTempFile({ suffix: ".js" });
  const page = new URL(`${editor}.ts`, import.meta.url).pathname;
  const args = ["bundle", "--quiet", "--no-lock", "--platform", "browser", "--output", output, page];
  const { success, stderr } = await new Deno.Command(Deno.execPath(), { args, stderr: "piped", stdout: "null" })
    .output();
  assert.ok(success, new TextDecoder().decode(stderr));
  const script = await Deno.readTextFile(output);
  await Deno.remove(output);
  return script;
}

export class EditorHost implements AsyncDisposable {
  readonly origin: string;
  readonly #server: Deno.HttpServer<Deno.NetAddr>;

  constructor(script: string) {
    this.#server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, ({ url }) => {
      const isScript = new URL(url).pathname === "/page.js";
      const type = isScript ? "text/javascript" : "text/html";
      return new Response(isScript ? script : HTML, { headers: { "content-type": type } });
    });
    this.origin = `http://127.0.0.1:${this.#server.addr.port}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.shutdown();
  }
}
