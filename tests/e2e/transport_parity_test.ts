// One definition, two transports: every operation responds alike over HTTP and as an rpc of `/ws`.
import assert from "node:assert/strict";
import type { Centrifuge } from "npm:centrifuge@5.8.0";
import { openTarget, type Target, uniqueName } from "./target.ts";

type Outcome = { ok: true; shape: string } | { ok: false; code: string };
type Entry = {
  operationId: string;
  parameters?: { name: string; in: string; example?: unknown }[];
  requestBody?: { content: Record<string, { example?: Record<string, unknown> }> };
};

Deno.test("every operation responds alike over HTTP and over rpc", async (t) => {
  await using target = await openTarget();
  // Two tenants, so that what one transport created does not conflict with the other.
  const token = await target.token({ sub: "owner", role: "owner", tenant: uniqueName("http") });
  const client = await target.connect(await target.token({ sub: "owner", role: "owner", tenant: uniqueName("rpc") }));
  const document = await (await fetch(`${target.baseUrl}/openapi.json`)).json();
  const methods = Object.entries(document.paths as Record<string, Record<string, Entry>>).flatMap(([path, entries]) =>
    Object.entries(entries).map(([method, entry]) => ({ path, method: method.toUpperCase(), entry }))
  );
  let compared = 0;
  for (const { path, method, entry } of methods) {
    if (!path.startsWith("/v1/") || !await isRpc(client, entry.operationId)) continue;
    compared++;
    await t.step(entry.operationId, async () => {
      const input = inputOf(entry);
      assert.deepEqual(
        await overHttp(target, token, path, method, input),
        await overRpc(client, entry.operationId, input),
      );
      const wrong = { ...input, surprise: 1 };
      const refused = await overHttp(target, token, path, method, wrong);
      assert.equal(refused.ok, false);
      assert.equal((await overRpc(client, entry.operationId, wrong)).ok, false);
    });
  }
  assert.ok(compared > 25, `${compared} operations compared`);
});

async function isRpc(client: Centrifuge, name: string): Promise<boolean> {
  return await client.rpc(name, { surprise: 1 }).then(() => true, (error: { code: number }) => error.code !== 104);
}

/** The documented example of an operation, as one input. */
function inputOf(entry: Entry): Record<string, unknown> {
  const parameters = (entry.parameters ?? []).filter((parameter) =>
    parameter.in !== "header" && parameter.example !== undefined
  );
  const body = Object.values(entry.requestBody?.content ?? {})[0]?.example ?? {};
  return { ...Object.fromEntries(parameters.map(({ name, example }) => [name, example])), ...body };
}

async function overHttp(
  target: Target,
  token: string,
  path: string,
  method: string,
  input: Record<string, unknown>,
): Promise<Outcome> {
  const rest = { ...input };
  let url = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    const value = rest[name];
    delete rest[name];
    return encodeURIComponent(String(value));
  });
  const hasBody = method !== "GET" && method !== "DELETE";
  if (!hasBody) {
    const query = Object.entries(rest).flatMap(([name, value]) =>
      (Array.isArray(value) ? value : [value]).map((one) => [name, String(one)])
    );
    if (query.length > 0) url += `?${new URLSearchParams(query)}`;
  }
  const response = await fetch(`${target.baseUrl}${url}`, {
    method,
    headers: { authorization: `Bearer ${token}`, ...(hasBody ? { "content-type": "application/json" } : {}) },
    ...(hasBody ? { body: JSON.stringify(rest) } : {}),
  });
  const text = await response.text();
  const body = text === "" ? null : JSON.parse(text);
  return response.ok ? { ok: true, shape: shapeOf(body) } : { ok: false, code: body.code };
}

async function overRpc(client: Centrifuge, method: string, input: Record<string, unknown>): Promise<Outcome> {
  try {
    const { data } = await client.rpc(method, input);
    return { ok: true, shape: shapeOf(data ?? null) };
  } catch (error) {
    const { message } = error as { message: string };
    return { ok: false, code: message.split(":")[0] ?? "" };
  }
}

/** The names and types in a value; what it says differs from call to call. */
function shapeOf(value: unknown): string {
  if (Array.isArray(value)) return "[]";
  if (typeof value !== "object" || value === null) return typeof value;
  return JSON.stringify(Object.entries(value).map(([name, inner]) => [name, typeof inner]).sort());
}
