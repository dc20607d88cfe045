// The input of an operation: path, query, body and If-Match merged into the one object that its schema describes.
import { Fault } from "@/core/fault.ts";
import type { Operation } from "@/core/operation.ts";
import { isSafeText } from "@/core/text.ts";
import { unsafeText } from "./body.ts";
import { versionOf } from "./etag.ts";
import type { Exchange } from "./exchange.ts";
import { fieldsOf, pointerOf, readQuery } from "./query.ts";

/** Merges the parts of a request; what is declared nowhere, or twice, is refused. */
export type ReadInput = (exchange: Exchange, params: Readonly<Record<string, string>>, body: unknown) => unknown;

/** Builds the reader of an operation's input. */
export function createReadInput({ input: schema, http }: Operation): ReadInput {
  const fields = fieldsOf(schema);
  return function readInput(exchange, params, body) {
    const input = objectOf(body);
    for (const name in params) {
      if (Object.hasOwn(input, name)) throw unknownField(name);
    }
    // Decoding is where NUL can get in; it is looked for only where its escape is.
    const mayHaveNul = exchange.request.url.includes("%00");
    if (exchange.query !== "") {
      const fromQuery: Record<string, unknown> = {};
      readQuery(
        exchange.query,
        fields,
        (name) => Object.hasOwn(params, name) || Object.hasOwn(input, name),
        fromQuery,
      );
      if (mayHaveNul) refuseUnsafeText(fromQuery);
      Object.assign(input, fromQuery);
    }
    if (mayHaveNul) refuseUnsafeText(params);
    Object.assign(input, params);
    if (http.ifMatch !== undefined) {
      const version = versionOf(exchange.request.headers.get("If-Match"));
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

function objectOf(body: unknown): Record<string, unknown> {
  if (body === undefined) return {};
  if (typeof body !== "object" || body === null || Array.isArray(body)) {
    const detail = "The body must be a JSON object";
    throw new Fault("validation_failed", detail, { errors: [{ pointer: "", code: "invalid_type", detail }] });
  }
  return body as Record<string, unknown>; // an object of JSON, as just checked
}

function unknownField(name: string): Fault {
  return Fault.at(pointerOf(name), "unknown_field", "The path already says it", "unknown_field");
}

function refuseUnsafeText(values: Readonly<Record<string, unknown>>): void {
  for (const [name, value] of Object.entries(values)) {
    for (const text of Array.isArray(value) ? value : [value]) {
      if (typeof text === "string" && !isSafeText(text)) throw unsafeText(pointerOf(name));
    }
  }
}
