// Operations called over HTTP by their declarations, for tests of what all of them do.
import type { Operation } from "@/core/operation.ts";
import type { ApiResponse, Caller } from "./harness.ts";

/** The HTTP call of an operation with this input. */
export function requestFor(
  operation: Operation,
  input: Record<string, unknown>,
): { path: string; body: Record<string, unknown> | undefined } {
  const rest = { ...input };
  const path = operation.http.path.replaceAll(/:(\w+)/g, (_, name: string) => {
    const value = rest[name];
    delete rest[name];
    return encodeURIComponent(String(value ?? "none"));
  });
  if (operation.http.method !== "GET" && operation.http.method !== "DELETE") return { path, body: rest };
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(rest)) {
    for (const one of Array.isArray(value) ? value : [value]) query.append(name, String(one));
  }
  return { path: query.size === 0 ? path : `${path}?${query}`, body: undefined };
}

/** Calls an operation. */
export function callOperation(
  caller: Caller,
  operation: Operation,
  input: Record<string, unknown>,
  headers?: Record<string, string>,
): Promise<ApiResponse> {
  const { path, body } = requestFor(operation, input);
  return caller.call(operation.http.method, path, body, headers);
}

/** An input that works, as the operation's documents show it. */
export function exampleOf(operation: Operation): Record<string, unknown> {
  return { ...operation.example as Record<string, unknown> | undefined };
}

type ObjectSchema = { shape?: Record<string, { safeParse(value: unknown): { success: boolean } }> };

/** Names of the fields that an operation takes. */
export function fieldsOf(operation: Operation): string[] {
  return Object.keys((operation.input as ObjectSchema).shape ?? {});
}

/** Whether a field of an operation's input, checked alone, may have this value. */
export function acceptsValue(operation: Operation, field: string, value: unknown): boolean {
  return (operation.input as ObjectSchema).shape?.[field]?.safeParse(value).success ?? false;
}
