// A provider that provisions, and the failures that it is given.
import assert from "node:assert/strict";
import type { ApiResponse, Caller, Harness } from "../../harness.ts";
import { createCaller, ok } from "../fixtures.ts";

export const MESSAGES = "urn:ietf:params:scim:api:messages:2.0";
export const JSON_TYPE = { "content-type": "application/scim+json; charset=utf-8", accept: "application/scim+json" };

/** The service that provisions: a principal of the tenant with a token for nothing else. */
export async function openProvider(
  gateway: Harness,
  role: "owner" | "admin" = "admin",
): Promise<{ owner: Caller; idp: Caller }> {
  const owner = await createCaller(gateway, "olga", { role: "owner" });
  const service = ok(
    await owner.post("/v1/collaboration/principals", { kind: "service", displayName: "Directory", role }),
  );
  const token = { principalId: service.id, name: "provisioning", scopes: ["scim.manage"] };
  const idp = gateway.withToken(ok(await owner.post("/v1/collaboration/tokens", token)).token);
  return { owner, idp };
}

export function assertError(answer: ApiResponse, status: number, scimType?: string): void {
  const { schemas, status: text, scimType: type } = answer.body;
  assert.deepEqual([answer.status, text, type], [status, String(status), scimType], JSON.stringify(answer.body));
  assert.deepEqual(schemas, [`${MESSAGES}:Error`]);
  assert.equal(answer.headers.get("content-type"), "application/scim+json");
}
