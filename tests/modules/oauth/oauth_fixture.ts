// An application that gets an authorization: registration, consent by the two operations, exchange of the code.
import { createHash } from "node:crypto";
import assert from "node:assert/strict";
import type { ApiResponse, Caller, Harness } from "../../harness.ts";
import { ok } from "../fixtures.ts";

export const PUBLIC_URL = "https://collab.example";
export const RESOURCE = `${PUBLIC_URL}/mcp`;
export const REDIRECT_URI = "http://127.0.0.1:7777/callback";
export const VERIFIER = "v".repeat(43);
export const CHALLENGE = createHash("sha256").update(VERIFIER).digest("base64url");
export const REQUESTS = "/v1/collaboration/oauth/requests";
export const APPLICATIONS = "/v1/collaboration/oauth/applications";

export async function register(
  gateway: Harness,
  metadata: Record<string, unknown> = { client_name: "Desk", redirect_uris: [REDIRECT_URI] },
): Promise<string> {
  const { status, body } = await gateway.withToken(undefined).post("/oauth/register", metadata);
  assert.equal(status, 201, JSON.stringify(body));
  return body.client_id;
}

/** The query of a valid request, with changes. */
export function authorizeQuery(clientId: string, changes: Record<string, string | undefined> = {}): string {
  const query = {
    response_type: "code",
    client_id: clientId,
    redirect_uri: REDIRECT_URI,
    state: "s1",
    scope: "room.read message.read message.write",
    code_challenge: CHALLENGE,
    code_challenge_method: "S256",
    resource: RESOURCE,
    ...changes,
  };
  const given = Object.entries(query).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return new URLSearchParams(given).toString();
}

export function authorize(gateway: Harness, query: string): Promise<ApiResponse> {
  return gateway.withToken(undefined).get(`/oauth/authorize?${query}`);
}

/** The id of the request that the browser client is asked to show. */
export function requestIdOf({ status, headers, body }: ApiResponse): string {
  assert.equal(status, 302, JSON.stringify(body));
  const location = headers.get("location") ?? "";
  const start = `${PUBLIC_URL}/#/oauth?request=`;
  assert.ok(location.startsWith(start), location);
  return location.slice(start.length);
}

export function postForm(gateway: Harness, path: string, fields: Record<string, string>): Promise<ApiResponse> {
  const headers = { "content-type": "application/x-www-form-urlencoded" };
  return gateway.withToken(undefined).call("POST", path, new URLSearchParams(fields).toString(), headers);
}

type Code = { clientId: string; code: string };

/** Has a person allow an application; returns its code. */
export async function allow(gateway: Harness, person: Caller, clientId?: string, scopes?: string[]): Promise<Code> {
  const id = clientId ?? await register(gateway);
  const request = requestIdOf(await authorize(gateway, authorizeQuery(id)));
  const decided = ok(await person.post(`${REQUESTS}/${request}/decision`, { decision: "allow", scopes }));
  const back = new URL(decided.redirectTo);
  assert.equal(back.searchParams.get("state"), "s1");
  assert.equal(back.searchParams.get("iss"), PUBLIC_URL);
  return { clientId: id, code: back.searchParams.get("code") ?? assert.fail("No code") };
}

export function exchange(
  gateway: Harness,
  { clientId, code }: Code,
  changes: Record<string, string> = {},
): Promise<ApiResponse> {
  return postForm(gateway, "/oauth/token", {
    grant_type: "authorization_code",
    client_id: clientId,
    code,
    code_verifier: VERIFIER,
    redirect_uri: REDIRECT_URI,
    resource: RESOURCE,
    ...changes,
  });
}

export function refresh(gateway: Harness, clientId: string, token: string): Promise<ApiResponse> {
  return postForm(gateway, "/oauth/token", { grant_type: "refresh_token", client_id: clientId, refresh_token: token });
}
