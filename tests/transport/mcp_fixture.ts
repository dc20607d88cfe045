// Calls of `/mcp` without a client: one JSON-RPC message, and what was returned for it.
import assert from "node:assert/strict";
import type { ApiResponse, Caller } from "../harness.ts";

export const ACCEPT = { accept: "application/json, text/event-stream" };

type RpcResponse = {
  status: number;
  // deno-lint-ignore no-explicit-any -- results of every method
  result?: any;
  error?: { code: number; message: string };
  response: ApiResponse;
};

/** Calls a method in the revision before the newest, which needs nothing but the message. */
export async function rpc(
  caller: Caller,
  method: string,
  params: Record<string, unknown> = {},
  query = "",
): Promise<RpcResponse> {
  const message = { jsonrpc: "2.0", id: 1, method, params };
  const response = await caller.post(`/mcp${query}`, message, ACCEPT);
  const { status, body } = response;
  if (typeof body !== "string") return { status, ...body, response };
  const data = body.split("\n").find((line) => line.startsWith("data: "))?.slice("data: ".length);
  return { status, ...JSON.parse(data ?? "{}"), response };
}

export async function listTools(caller: Caller, query = ""): Promise<{ name: string; [field: string]: unknown }[]> {
  const { result } = await rpc(caller, "tools/list", {}, query);
  return result.tools;
}

/** Calls a tool; returns its text. */
export async function tool(caller: Caller, name: string, input: Record<string, unknown> = {}): Promise<string> {
  const { result, error } = await rpc(caller, "tools/call", { name, arguments: input });
  assert.equal(error, undefined, JSON.stringify(error));
  return `${result.isError === true ? "error " : ""}${result.content[0].text}`;
}

/** Calls a tool that the caller does not have; returns the message of the protocol's error. */
export async function noTool(caller: Caller, name: string, query = ""): Promise<string> {
  const { error } = await rpc(caller, "tools/call", { name, arguments: {} }, query);
  assert.equal(error?.code, -32602, JSON.stringify(error));
  return error.message;
}

/** As `tool`; fails if the tool does. */
export async function okTool(caller: Caller, name: string, input: Record<string, unknown> = {}): Promise<string> {
  const text = await tool(caller, name, input);
  assert.ok(!text.startsWith("error "), `${name}: ${text}`);
  return text;
}
