// The input of an operation: path, query, body and If-Match merged into one object, which its schema validates.
import { Fault } from "@/core/fault.ts";
import { canonicalJson, isObject } from "@/core/json.ts";
import type { Operation } from "@/core/operation.ts";
import { isSafeText, unsafeTextFault } from "@/core/text/text.ts";
import { parseIfMatch } from "./etag.ts";
import type { RequestContext } from "./request_context.ts";
import { pointerOf, type QueryField, readQuery } from "./query.ts";

/** Merges the parts of a request; unknown and repeated fields are rejected. */
type ReadInput = (context: RequestContext, params: Readonly<Record<string, string>>, body: unknown) => unknown;

export function createReadInput({ name, http }: Operation, fields: ReadonlyMap<string, QueryField>): ReadInput {
  return function readInput(context, params, body) {
    const input = requireObject(body);
    for (const name in params) {
      if (Object.hasOwn(input, name)) throw unknownField(name);
    }
    // NUL can only be percent-encoded in a URL, so others are not checked.
    const mayHaveNul = context.request.url.includes("%00");
    if (context.query !== "") {
      const fromQuery: Record<string, unknown> = {};
      // If the body may be plain text, query parameters are documented with both media types.
      const isTaken = (name: string): boolean =>
        Object.hasOwn(params, name) || name === http.textBody?.field ||
        (http.textBody === undefined && Object.hasOwn(input, name));
      readQuery(context.query, fields, isTaken, fromQuery);
      if (mayHaveNul) assertSafeText(fromQuery);
      for (const name in fromQuery) {
        if (Object.hasOwn(input, name) && canonicalJson(input[name]) !== canonicalJson(fromQuery[name])) {
          throw new Fault("bad_request", `${name} differs between the query and the body; send it once`);
        }
      }
      Object.assign(input, fromQuery);
    }
    if (mayHaveNul) assertSafeText(params);
    Object.assign(input, params);
    const { headers } = context.request;
    if (http.method !== "GET") assertNoIgnoredCondition(name, headers, http.ifMatch !== undefined);
    if (http.ifMatch !== undefined) {
      const version = parseIfMatch(headers.get("If-Match"));
      if (version !== undefined) {
        if (Object.hasOwn(input, http.ifMatch) && input[http.ifMatch] !== version) {
          throw new Fault("bad_request", `If-Match and ${http.ifMatch} name different versions`);
        }
        input[http.ifMatch] = version;
      }
    }
    return input;
  };
}

function requireObject(body: unknown): Record<string, unknown> {
  if (body === undefined) return {};
  if (isObject(body)) return body;
  const detail = "The body must be a JSON object";
  throw new Fault("validation_failed", detail, { errors: [{ pointer: "", code: "invalid_type", detail }] });
}

/** A condition that is ignored would change what its caller wants unchanged. */
function assertNoIgnoredCondition(operation: string, headers: Headers, supportsIfMatch: boolean): void {
  const ifMatch = supportsIfMatch ? "*" : headers.get("If-Match")?.trim() ?? "*";
  const ignored = headers.has("If-None-Match") ? "If-None-Match" : ifMatch === "*" ? undefined : "If-Match";
  if (ignored !== undefined) throw new Fault("bad_request", `${operation} does not support ${ignored}`);
}

function unknownField(name: string): Fault {
  return Fault.forField(pointerOf(name), "unknown_field", "already set by the path", "unknown_field");
}

function assertSafeText(values: Readonly<Record<string, unknown>>): void {
  for (const [name, value] of Object.entries(values)) {
    for (const text of Array.isArray(value) ? value : [value]) {
      if (typeof text === "string" && !isSafeText(text)) throw unsafeTextFault(pointerOf(name));
    }
  }
}
