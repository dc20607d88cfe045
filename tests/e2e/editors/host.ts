// Serves the pages of the editor tests.
import assert from "node:assert/strict";

const STYLE = `body{font:14px sans-serif;margin:16px}#editor{border:1px solid #bbb;min-height:200px;padding:8px}` +
  `h1{font-size:18px;margin:0}p{margin:4px 0}table{border-collapse:collapse}` +
  `td,th{border:1px solid #999;min-width:60px;padding:2px 6px}` +
  `.collaboration-carets__caret{border-left:2px solid;margin-left:-1px;position:relative}` +
  `.collaboration-carets__label{position:absolute;top:-1.3em;left:-1px;font-size:11px;color:#fff;padding:0 3px}`;

/** The script of the page with this editor. */
async function bundle(editor: string): Promise<string> {
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
  readonly #scripts = new Map<string, Promise<string>>();
  readonly #server: Deno.HttpServer<Deno.NetAddr>;

  /** Bundles the pages while it serves. */
  constructor(editors: readonly string[]) {
    // The first one loads the bundler where it never ran: of two that load it at once, one finds half of it.
    let loaded: Promise<unknown> = Promise.resolve();
    for (const editor of editors) {
      const script = loaded.then(() => bundle(editor));
      if (this.#scripts.size === 0) loaded = script;
      this.#scripts.set(`/${editor}.js`, script);
    }
    this.#server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, async ({ url }) => {
      const { pathname } = new URL(url);
      const script = await this.#scripts.get(pathname);
      const html = `<!doctype html><meta charset="utf-8"><style>${STYLE}</style><body>` +
        `<script type="module" src="${pathname}.js"></script>`;
      const type = script === undefined ? "text/html" : "text/javascript";
      return new Response(script ?? html, { headers: { "content-type": type } });
    });
    this.origin = `http://127.0.0.1:${this.#server.addr.port}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.shutdown();
    await Promise.allSettled(this.#scripts.values());
  }
}
