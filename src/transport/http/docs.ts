// `/docs`: Swagger UI from the installed package, loaded at first use. Its policy allows neither inline scripts nor CDNs.
import { Fault } from "@/core/fault.ts";
import type { Route } from "@/core/http/route.ts";
import { ASSET_PARAMETERS, ASSET_RESPONSES, assetRoute, StaticAsset } from "../shared/static_asset.ts";
import type { Endpoint } from "./endpoint.ts";

const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const INIT = `const dark = matchMedia("(prefers-color-scheme: dark)");
const followScheme = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", followScheme);
followScheme();
SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#ui",
  deepLinking: true,
  persistAuthorization: true,
  displayOperationId: true,
  displayRequestDuration: true,
  docExpansion: "none",
  filter: true,
  validatorUrl: null,
  requestSnippetsEnabled: true,
});
`;

const ICON =
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="#1f6feb"/><path d="M7 9h18v11H15l-5 4v-4H7z" fill="#fff"/></svg>`;

/** Without the list of servers, which has one entry and no name; its other rules give texts enough contrast. */
const STYLE = `:root { color-scheme: light dark }
body { margin: 0 }
nav { padding: 10px 20px; font: 14px sans-serif; background: #1b1b1b }
nav a { color: #fff; margin-right: 16px }
.dark-mode .swagger-ui .header-col { color: inherit }
.swagger-ui .servers-title, .swagger-ui .servers { display: none }
.swagger-ui .microlight span[style*="211, 99, 99"] { color: #ff9a9a !important }
html:not(.dark-mode) .swagger-ui .opblock .opblock-summary-method { color: #000; text-shadow: none }
html:not(.dark-mode) .swagger-ui .info .title small { background: #5b6270 }
html:not(.dark-mode) .swagger-ui .info .title small.version-stamp { background: #4d6b02 }
html:not(.dark-mode) .swagger-ui .info a { color: #1f5fbf }
html:not(.dark-mode) .swagger-ui .btn.authorize { color: #17734a; border-color: currentColor }
html:not(.dark-mode) .swagger-ui .btn.authorize svg { fill: currentColor }
html:not(.dark-mode) .swagger-ui .parameter__in { color: #5a5a5a }
`;

const CSS = "text/css; charset=utf-8";
const SCRIPT = "text/javascript; charset=utf-8";

const FILES: Readonly<Record<string, { type: string; load: () => string | Promise<string> }>> = {
  "swagger-ui.css": {
    type: CSS,
    load: async () => (await import("swagger-ui-dist/swagger-ui.css", { with: { type: "text" } })).default,
  },
  "swagger-ui-bundle.js": {
    type: SCRIPT,
    load: async () => (await import("swagger-ui-dist/swagger-ui-bundle.js", { with: { type: "text" } })).default,
  },
  "page.css": { type: CSS, load: () => STYLE },
  "init.js": { type: SCRIPT, load: () => INIT },
  "favicon.svg": { type: "image/svg+xml", load: () => ICON },
};

/** The page and its files; `documents` are paths of documents that it links to. */
export function docsRoutes(documents: readonly string[]): Route[] {
  const page = assetOf("text/html; charset=utf-8", () => pageOf(documents));
  const files = new Map(Object.entries(FILES).map(([name, { type, load }]) => [name, assetOf(type, load)]));
  const contents = [...files.values()].map(({ mediaType }) => [mediaType, { schema: { type: "string" } }]);
  const pageRoute = {
    name: "docs.get",
    summary: "Get the interactive documentation",
    path: "/docs",
    description: "Swagger UI page",
  };
  return [assetRoute(pageRoute, page), {
    name: "docs.asset",
    summary: "Get an asset of the interactive documentation",
    tag: "operation",
    method: "GET",
    path: "/docs/:asset",
    auth: "public",
    faults: ["route_not_found"],
    document: {
      parameters: [{
        name: "asset",
        in: "path",
        required: true,
        description: "File name",
        schema: { type: "string", enum: Object.keys(FILES) },
      }, ...ASSET_PARAMETERS],
      responses: { 200: { description: "The file", content: Object.fromEntries(contents) }, ...ASSET_RESPONSES },
    },
    handle(request, { params }) {
      const file = files.get(params["asset"] ?? "");
      if (file === undefined) throw new Fault("route_not_found", "No such documentation file");
      return file.respond(request);
    },
  }];
}

/** Redirects `/docs/`, where the relative references of the page would not resolve. */
export const docsRedirect: Endpoint = {
  method: "GET",
  path: "/docs/",
  handle: (context) =>
    Promise.resolve(context.toResponse({ status: 308, headers: { Location: "../docs" }, body: null })),
};

function assetOf(type: string, load: () => string | Promise<string>): StaticAsset {
  return new StaticAsset(type, load, { headers: { "Content-Security-Policy": POLICY } });
}

/** Every reference is relative, so the page also works behind a path prefix. */
function pageOf(documents: readonly string[]): string {
  const links = documents.map((path) => `<a href="${path.slice(1)}">${path.slice(1)}</a>`).join("");
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Collaboration Gateway API</title>
<link rel="icon" href="docs/favicon.svg" type="image/svg+xml">
<link rel="stylesheet" href="docs/swagger-ui.css">
<link rel="stylesheet" href="docs/page.css">
</head>
<body>
<nav><a href="./">Web client</a>${links}</nav>
<main id="ui"></main>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/init.js"></script>
</body>
</html>
`;
}
