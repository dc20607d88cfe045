// An application that registers itself and sends a browser to be authorized.
import assert from "node:assert/strict";
import type { Target } from "./target.ts";

/** The address of the page that shows the request of an application of this name; it asks for everything if for nothing certain. */
export async function authorizationAddress(
  { baseUrl }: Target,
  client_name: string,
  scopes: readonly string[] = [],
): Promise<string> {
  const redirect_uri = "http://127.0.0.1:7777/callback";
  const registered = await fetch(`${baseUrl}/oauth/register`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ client_name, redirect_uris: [redirect_uri] }),
  });
  const { client_id } = await registered.json();
  const query = new URLSearchParams({
    response_type: "code",
    client_id,
    redirect_uri,
    code_challenge: "c".repeat(43),
    code_challenge_method: "S256",
    ...scopes.length === 0 ? {} : { scope: scopes.join(" ") },
  });
  const { status, headers } = await fetch(`${baseUrl}/oauth/authorize?${query}`, { redirect: "manual" });
  assert.equal(status, 302);
  return headers.get("location") ?? "";
}
