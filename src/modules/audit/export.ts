// The download of the audit log: a line of JSON for each entry, as API Activity of the Open Cybersecurity Schema Framework, which
// security monitoring reads.
import { type Actor, chargedTo } from "@/core/actor.ts";
import { chargeTo, currentAccount, measureCpu, nextSlice } from "@/core/caller.ts";
import { clientOf } from "@/core/http/request.ts";
import type { Route } from "@/core/http/route.ts";
import type { Places } from "@/core/limit/slots.ts";
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
export function exportRoute(store: Store<AuditTables>, audit: AuditLog, places: Places): Route {
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
      const lines = linesOf(actor, audit, places, async () => {
        await store.write((tx) => audit.recordOther(tx, { ...actor, operation: NAME, requestId, client }));
      });
      // What is refused is refused before the response begins, and what has begun ends when it is cancelled.
      await lines.next();
      return new Response(ReadableStream.from(lines), {
        headers: {
          "Content-Type": "application/x-ndjson",
          "Content-Disposition": `attachment; filename="audit.ndjson"`,
          "Cache-Control": "private, no-store",
        },
      });
    },
  };
}

/** First nothing, once it has a place and is recorded; then each page when it is asked for, in a slice of the caller's time. */
async function* linesOf(
  actor: Actor,
  audit: AuditLog,
  places: Places,
  record: () => Promise<void>,
): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  using _place = places.enter(chargedTo(actor));
  await record();
  const account = currentAccount();
  yield new Uint8Array();
  const encoder = new TextEncoder();
  const pages = audit.readAll(actor);
  const nextPage = async (): Promise<Uint8Array<ArrayBuffer> | undefined> => {
    await nextSlice();
    const next = await pages.next();
    if (next.done === true) return undefined;
    return measureCpu(() =>
      encoder.encode(next.value.map((entry) => `${JSON.stringify(toOcsf(actor.tenantId, entry))}\n`).join(""))
    );
  };
  for (;;) {
    const lines = await chargeTo(account, nextPage);
    if (lines === undefined) return;
    yield lines;
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
