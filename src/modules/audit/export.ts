// The download of the audit log: a line of JSON for each entry, as API Activity of the Open Cybersecurity Schema Framework, which
// security monitoring reads.
import { clientOf } from "@/core/request.ts";
import type { Route } from "@/core/route.ts";
import type { Store } from "@/ports/store.ts";
import type { AuditEntry } from "./schema.ts";
import type { AuditLog } from "./service.ts";
import type { AuditTables } from "./store.ts";

const NAME = "audit.export";
const CLASS = { category_uid: 6, category_name: "Application Activity", class_uid: 6003, class_name: "API Activity" };
const METADATA = { version: "1.6.0", product: { name: "Collaboration Gateway" } };
/** Activities of the class, and the verbs that are one. */
const ACTIVITIES: readonly (readonly [number, RegExp])[] = [
  [1, /\.(create|add|import|install)$/],
  [2, /\.(list|read|export|verify)$/],
  [3, /\.(update|put|enable|disable|grant|approve|decide)/],
  [4, /\.(delete|remove|revoke|uninstall|end)$/],
];
const OTHER = 99;
const INFORMATIONAL = { severity_id: 1, status_id: 1 };

/** `GET /v1/collaboration/audit/export` */
export function exportRoute(store: Store<AuditTables>, audit: AuditLog): Route {
  return {
    name: NAME,
    summary: "Download the audit log as NDJSON, the oldest entry first",
    description:
      "Each line is an event of the class API Activity of OCSF 1.6, with position and hash of the entry in `unmapped`.",
    tag: "audit",
    method: "GET",
    path: "/v1/collaboration/audit/export",
    hasNoTimeout: true,
    auth: "bearer",
    scope: "audit.read",
    tenant: "auditor",
    faults: ["forbidden"],
    document: {
      responses: {
        "200": { description: "NDJSON", content: { "application/x-ndjson": { schema: { type: "string" } } } },
      },
    },
    async handle(request, { actor, requestId, ip }) {
      const client = clientOf(request, ip);
      await store.write((tx) => audit.recordOther(tx, { ...actor, operation: NAME, requestId, client }));
      return new Response(ReadableStream.from(linesOf(actor.tenantId, audit.readAll(actor))), {
        headers: {
          "Content-Type": "application/x-ndjson",
          "Content-Disposition": `attachment; filename="audit.ndjson"`,
          "Cache-Control": "private, no-store",
        },
      });
    },
  };
}

async function* linesOf(
  tenantId: string,
  pages: AsyncIterable<readonly AuditEntry[]>,
): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  const encoder = new TextEncoder();
  for await (const page of pages) {
    yield encoder.encode(page.map((entry) => `${JSON.stringify(toOcsf(tenantId, entry))}\n`).join(""));
  }
}

function toOcsf(tenantId: string, entry: AuditEntry): Record<string, unknown> {
  const { id, at, actorId, onBehalfOf, ip, userAgent, operation, requestId, resourceId, tokenId, ...unmapped } = entry;
  const activity = ACTIVITIES.find(([, verbs]) => verbs.test(operation))?.[0] ?? OTHER;
  return {
    ...CLASS,
    ...INFORMATIONAL,
    activity_id: activity,
    type_uid: CLASS.class_uid * 100 + activity,
    time: Date.parse(at),
    metadata: { ...METADATA, uid: id, tenant_uid: tenantId, sequence: entry.seq },
    actor: {
      user: { uid: actorId },
      ...tokenId === null ? {} : { session: { uid: tokenId } },
      ...onBehalfOf === null ? {} : { invoked_by: onBehalfOf },
    },
    api: { operation, ...requestId === null ? {} : { request: { uid: requestId } } },
    src_endpoint: ip === null ? { name: entry.via } : { ip },
    ...userAgent === null ? {} : { http_request: { user_agent: userAgent } },
    ...resourceId === null ? {} : { resources: [{ uid: resourceId }] },
    unmapped,
  };
}
