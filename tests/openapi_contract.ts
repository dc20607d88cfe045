// The contract gate: a JSON answer must be one that `/openapi.json` describes for its route and status.
import { Ajv2020, type ValidateFunction } from "npm:ajv@8.20.0/dist/2020.js";
import addFormats from "npm:ajv-formats@3.0.1";
import type { App } from "@/app.ts";

type OpenApiDocument = { paths: Record<string, Record<string, { responses: Record<string, { headers?: object }> }>> };

export class OpenApiContract {
  /** By the text of the document, which few settings change: to make validators takes longer than most tests do. */
  static readonly #known = new Map<string, OpenApiContract>();
  readonly #document: OpenApiDocument;
  /** Most validators run seldom: to make them costs more than they do. */
  readonly #ajv = new Ajv2020({ strict: false, allErrors: true, inlineRefs: false, code: { optimize: false } });
  readonly #routes: { method: string; path: string; pattern: RegExp }[];
  readonly #validators = new Map<string, ValidateFunction>();

  constructor(document: OpenApiDocument) {
    this.#document = document;
    // The type of this CommonJS package hides that its default export is the function.
    (addFormats as unknown as (ajv: Ajv2020) => void)(this.#ajv);
    this.#ajv.addSchema({ $id: "openapi", ...document } as never);
    this.#routes = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => ({
        method: method.toUpperCase(),
        path,
        pattern: new RegExp(`^${path.replaceAll(/[.*+?^$()|[\]\\]/g, "\\$&").replaceAll(/\{[^}]+\}/g, "[^/]+")}$`),
      }))
    ).toSorted((a, b) => a.path.split("{").length - b.path.split("{").length);
  }

  static async load(app: App): Promise<OpenApiContract> {
    const response = await app.fetch(new Request("http://gateway.test/openapi.json"), "127.0.0.1");
    const text = await response.text();
    const contract = OpenApiContract.#known.get(text) ?? new OpenApiContract(JSON.parse(text));
    OpenApiContract.#known.set(text, contract);
    return contract;
  }

  /** Throws when the document does not describe this response. */
  assertMatches(
    request: Request,
    { status, body, headers }: { status: number; body: unknown; headers: Headers },
  ): void {
    const { pathname } = new URL(request.url);
    const method = request.method === "HEAD" ? "GET" : request.method;
    const route = this.#routes.find((candidate) => candidate.method === method && candidate.pattern.test(pathname));
    if (route === undefined) {
      if (status === 404 || status === 405) return;
      throw new Error(`${method} ${pathname} answered ${status} but is not in /openapi.json`);
    }
    const type = headers.get("content-type")?.split(";")[0] ?? "";
    const key = `${method} ${route.path} ${status} ${type}`;
    const validate = this.#validators.get(key) ?? this.#compile(route.path, method, status, type);
    this.#validators.set(key, validate);
    if (!validate(body)) {
      const faults = validate.errors?.map(({ instancePath, message }) => `${instancePath} ${message}`).join("; ");
      throw new Error(`${key}: the answer is not what /openapi.json says: ${faults}`);
    }
    const described = this.#document.paths[route.path]?.[method.toLowerCase()];
    const names = described?.responses[String(status)]?.headers ?? {};
    // Routes describe their headers in words.
    const isOperation = described !== undefined && "x-access" in described;
    for (const name of ["ETag", "Location"]) {
      if (isOperation && headers.has(name) !== name in names) {
        throw new Error(`${key}: /openapi.json describes ${name in names ? "a" : "no"} header ${name}`);
      }
    }
  }

  #compile(path: string, method: string, status: number, sent: string): ValidateFunction {
    const pointer = (parts: string[]): string =>
      parts.map((part) => `/${part.replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");
    const base = ["paths", path, method.toLowerCase(), "responses", String(status)];
    let response = this.#document.paths[path]?.[method.toLowerCase()]?.responses[String(status)] as
      | { $ref?: string; content?: Record<string, unknown> }
      | undefined;
    if (response === undefined) throw new Error(`${method} ${path}: status ${status} is not in /openapi.json`);
    let at = base;
    if (response.$ref !== undefined) {
      at = response.$ref.slice(2).split("/");
      response = at.reduce<unknown>((node, part) => (node as Record<string, unknown>)[part], this.#document) as never;
    }
    const types = Object.keys(response?.content ?? {}).filter((name) => name.includes("json"));
    const type = types.includes(sent) ? sent : types[0];
    if (type === undefined) throw new Error(`${method} ${path} ${status}: /openapi.json describes no JSON body`);
    return this.#ajv.compile({
      $ref: `openapi#${
        pointer([...at, "content", type, "schema"]).replaceAll("%", "%25").replaceAll("{", "%7B").replaceAll("}", "%7D")
      }`,
    });
  }
}
