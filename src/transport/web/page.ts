// The browser client: the page at `/` and its files. They are made once, at the first request.
import { createHash } from "node:crypto";
import manifest from "../../../deno.json" with { type: "json" };
import { Fault } from "@/core/fault.ts";
import { escapeHtml } from "@/core/text/text.ts";
import type { Route } from "@/core/http/route.ts";
import { ASSET_PARAMETERS, ASSET_RESPONSES, assetRoute, StaticAsset } from "../shared/static_asset.ts";
import { packageFile, PACKAGES } from "./packages.ts";
import { staticImportsOf, toBrowserScript, toBrowserStyle } from "./script.ts";
import { SCRIPTS, STYLES } from "./sources.ts";

/** No inline code, no code from text, nothing from other hosts; a call's media and previews of own files are blobs. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data: blob:",
  "media-src 'self' blob:",
  "connect-src 'self'",
  "worker-src 'self'",
  "manifest-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  // The policy of the address of the service worker, which is always the same.
  "trusted-types push-worker",
].join("; ");

const HEADERS = {
  "Content-Security-Policy": POLICY,
  "X-Content-Type-Options": "nosniff",
  "Referrer-Policy": "no-referrer",
};
const ENTRY = "main.ts";
const WORKER = "push_worker.ts";
const SCRIPT_TYPE = "text/javascript; charset=utf-8";
/** All styles in one file: they are small, and compress well together. */
const STYLE = "style.css";
/** Styles of views, which load them when the first one is opened. Those for print come last in each. */
const VIEW_STYLES = ["calendar.css", "document.css", "task.css"];
const STYLE_FILES: readonly (readonly [file: string, isPart: (name: string) => boolean])[] = [
  [STYLE, (name) => !VIEW_STYLES.includes(name)],
  ["views.css", (name) => [...VIEW_STYLES, "print.css"].includes(name)],
];

/** With it, browsers install the page as an application; those of phones push to nothing else. */
const APPLICATION = {
  name: "Collaboration Gateway",
  short_name: "Gateway",
  start_url: "./",
  display: "standalone",
  icons: [{ src: "docs/favicon.svg", sizes: "any", type: "image/svg+xml" }],
};

type Client = { digest: string; page: StaticAsset; worker: string; files: ReadonlyMap<string, StaticAsset> };

/** The page for browsers that open `/`, and the route of its files. */
export class WebClient {
  readonly #signInName: string | undefined;
  #client: Promise<Client> | undefined;

  /** `signInName`: what people call the identity provider at which they sign in, when there is one. */
  constructor(signInName?: string) {
    this.#signInName = signInName;
  }

  async respond(request: Request): Promise<Response> {
    const { page } = await this.#load();
    return await page.respond(request);
  }

  /** Routes of the files of the page, and of what its browser asks for beside it. */
  get routes(): Route[] {
    const worker = new StaticAsset(SCRIPT_TYPE, async () => (await this.#load()).worker, { headers: HEADERS });
    const application = new StaticAsset("application/manifest+json", () => JSON.stringify(APPLICATION), {
      headers: HEADERS,
    });
    return [
      this.route,
      assetRoute({
        name: "client.worker",
        summary: "Get the service worker of the browser client",
        path: "/push_worker.js",
        description: "The script, which shows pushed notifications",
      }, worker),
      assetRoute({
        name: "client.manifest",
        summary: "Get the web application manifest of the browser client",
        path: "/manifest.webmanifest",
        description: "The manifest",
      }, application),
    ];
  }

  get route(): Route {
    return {
      name: "client.asset",
      summary: "Get a file of the browser client",
      description: "The address contains a digest of the client, so that files can be cached permanently.",
      tag: "operation",
      method: "GET",
      path: "/app/:digest/:file",
      auth: "public",
      faults: ["route_not_found"],
      document: {
        parameters: [
          pathParameter("digest", "Digest of the client, as in the page at `/`"),
          pathParameter("file", "File name"),
          ...ASSET_PARAMETERS,
        ],
        responses: {
          200: {
            description: "The file",
            content: { "text/javascript": { schema: { type: "string" } }, "text/css": { schema: { type: "string" } } },
          },
          ...ASSET_RESPONSES,
        },
      },
      handle: async (request, { params }) => {
        const { digest, files } = await this.#load();
        const file = params["digest"] === digest ? files.get(params["file"] ?? "") : undefined;
        if (file === undefined) throw new Fault("route_not_found", "The client has no such file");
        return await file.respond(request);
      },
    };
  }

  #load(): Promise<Client> {
    return this.#client ??= load(this.#signInName);
  }
}

async function load(signInName: string | undefined): Promise<Client> {
  const [scripts, styles] = await Promise.all([textsOf(SCRIPTS), textsOf(STYLES)]);
  const digest = createHash("sha256").update(JSON.stringify([...scripts, ...styles, manifest.imports]))
    .digest("base64url").slice(0, 16);
  const ready = new Map<string, string | Promise<string>>();
  for (const [path, source] of scripts) {
    ready.set(
      ownFile(path),
      toBrowserScript(source, { isTypeScript: true, locate: (name) => locate(name, path) }),
    );
  }
  for (const name of PACKAGES.keys()) ready.set(packageFile(name), packageScript(name));
  const files = new Map<string, StaticAsset>();
  const cached = { headers: HEADERS, isImmutable: true, encodings: ["br", "gzip"] } as const;
  for (const [file, script] of ready) {
    files.set(file, new StaticAsset(SCRIPT_TYPE, () => script, cached));
  }
  for (const [file, isPart] of STYLE_FILES) {
    const style = styles.filter(([name]) => isPart(name)).map(([, text]) => toBrowserStyle(text)).join("\n");
    files.set(file, new StaticAsset("text/css; charset=utf-8", () => style, cached));
  }
  const preloaded = await closureOf(ENTRY, ready);
  const html = pageOf(`app/${digest}`, preloaded, signInName);
  const page = new StaticAsset("text/html; charset=utf-8", () => html, {
    headers: { ...HEADERS, Vary: "Accept" },
    encodings: ["br", "gzip"],
  });
  return { digest, page, worker: workerScript(scripts, digest), files };
}

/** Beside the folder of the files, as its address stays and theirs does not. */
function workerScript(scripts: readonly (readonly [string, string])[], digest: string): string {
  const source = scripts.find(([path]) => path === WORKER)?.[1] ?? "";
  return toBrowserScript(source, {
    isTypeScript: true,
    locate: (name) => `app/${digest}/${locate(name, WORKER)}`,
  });
}

async function textsOf(sources: typeof SCRIPTS): Promise<[string, string][]> {
  return await Promise.all(
    Object.entries(sources).map(async ([path, read]): Promise<[string, string]> => [path, (await read()).default]),
  );
}

/** Loaded when first requested, except what the page itself needs. */
async function packageScript(name: string): Promise<string> {
  const source = (await PACKAGES.get(name)?.())?.default ?? "";
  return toBrowserScript(source, { isTypeScript: false, locate: (specifier) => locate(specifier, name) });
}

/** The file of an import; `from` is the path of an own script, or the name of a package's module. */
function locate(specifier: string, from: string): string | undefined {
  if (PACKAGES.has(specifier)) return packageFile(specifier);
  if (!specifier.startsWith(".")) return undefined;
  const path = new URL(specifier, `file:///${from}`).pathname.slice(1);
  if (Object.hasOwn(SCRIPTS, path)) return ownFile(path);
  const module = path.replace(/\.js$/, "");
  return PACKAGES.has(module) ? packageFile(module) : undefined;
}

/** All files are in one folder. */
function ownFile(path: string): string {
  return path.replaceAll("/", "-");
}

/** All files that the script imports when it is loaded, also indirectly. */
async function closureOf(entry: string, files: ReadonlyMap<string, string | Promise<string>>): Promise<string[]> {
  const found = new Set([entry]);
  for (const file of found) {
    for (const name of staticImportsOf(await files.get(file) ?? "")) {
      if (files.has(name.slice(2))) found.add(name.slice(2));
    }
  }
  return [...found];
}

/** Every reference is relative, so the page also works behind a path prefix. */
function pageOf(folder: string, scripts: readonly string[], signInName: string | undefined): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1, interactive-widget=resizes-content">
<meta name="color-scheme" content="light dark">
<title>Collaboration Gateway</title>
${signInName === undefined ? "" : `<meta name="sign-in" content="${escapeHtml(signInName)}">`}
<link rel="icon" href="docs/favicon.svg" type="image/svg+xml">
<link rel="manifest" href="manifest.webmanifest">
<link rel="stylesheet" href="${folder}/${STYLE}">
${scripts.map((file) => `<link rel="modulepreload" href="${folder}/${file}">`).join("\n")}
<script type="module" src="${folder}/${ENTRY}"></script>
</head>
<body>
<div id="app"></div>
<noscript>This page needs JavaScript. The <a href="docs">API documentation</a> describes what it uses.</noscript>
</body>
</html>
`;
}

function pathParameter(name: string, description: string): Record<string, unknown> {
  return { name, in: "path", required: true, description, schema: { type: "string", maxLength: 100 } };
}
