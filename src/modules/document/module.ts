// The document module put together.
import { z } from "@zod/zod";
import type { Actor } from "@/core/actor.ts";
import type { Clock } from "@/core/clock.ts";
import { defineJob } from "@/core/job.ts";
import type { Module } from "@/core/module.ts";
import type { Cursors } from "@/core/page.ts";
import type { IdentityService } from "@/modules/identity/mod.ts";
import type { RoomGate } from "@/modules/room/mod.ts";
import type { Bus } from "@/ports/bus.ts";
import type { Store } from "@/ports/store.ts";
import { DocumentGate } from "./access.ts";
import { DocumentCarrier } from "./carrier.ts";
import { commentOperations, contentOperations, documentOperations } from "./api.ts";
import { CommentService } from "./comment/service.ts";
import { ContentLog, SETTLE_JOB } from "./content/log.ts";
import { ContentService } from "./content/service.ts";
import { DocumentEditor } from "./editor.ts";
import { documentRoutes } from "./routes.ts";
import {
  BRANCH_MAX,
  COMMENT_MAX,
  COMMENTS_MAX,
  DEPTH_MAX,
  DOCUMENT_EVENTS,
  EDITORS_MAX,
  EDITS_MAX,
  PARTS_MAX,
  PLACES_MAX,
  REVISION_DAYS,
  REVISIONS_MAX,
  TEXT_MAX_BYTES,
  TITLE_MAX,
  UPDATE_MAX_BYTES,
} from "./schema.ts";
import type { DocumentIndex } from "./searchable.ts";
import { DocumentService, PURGE_JOB } from "./service.ts";
import { Shares } from "./share.ts";
import { type SyncOptions, SyncService } from "./sync/service.ts";
import type { DocumentTables } from "./tables.ts";
import { countSteps } from "./weight.ts";

/** What the document module is built from; without `index` documents are not found by search. */
type DocumentModuleDeps = {
  store: Store<DocumentTables>;
  bus: Bus;
  clock: Clock;
  cursors: Cursors;
  gate: RoomGate;
  identity: IdentityService;
  authenticate: (token: string) => Actor | Promise<Actor>;
  revalidate: (actor: Actor) => Promise<Actor | undefined>;
  sync: SyncOptions;
  index?: DocumentIndex;
};

/** The module, the engine behind its live editing, which a transport gives sockets to, and what takes documents out and in. */
export function documentModule(
  deps: DocumentModuleDeps,
): { module: Module; sync: SyncService; carrier: DocumentCarrier } {
  countSteps();
  const { store, clock, cursors, index } = deps;
  const gate = new DocumentGate(deps);
  const shares = new Shares(deps.sync);
  const log = new ContentLog({ store, clock, shares, index });
  const documents = new DocumentService({ store, clock, cursors, gate, log, index });
  const editor = new DocumentEditor({ store, clock, gate, log, identity: deps.identity, index });
  const contents = new ContentService({ store, cursors, gate, log, shares });
  const comments = new CommentService({ store, clock, cursors, gate, log });
  const { bus, authenticate, revalidate } = deps;
  const sync = new SyncService(
    { store, bus, clock, gate, log, contents, shares, authenticate, revalidate },
    deps.sync,
  );
  const payload = z.strictObject({ documentId: z.string() });
  const module: Module = {
    name: "document",
    events: DOCUMENT_EVENTS,
    operations: [
      ...documentOperations(documents, editor),
      ...contentOperations(contents),
      ...commentOperations(comments),
    ],
    routes: documentRoutes(documents, contents),
    jobs: [
      defineJob({ kind: PURGE_JOB, payload, run: (job) => documents.purge(job.tenantId, job.payload.documentId) }),
      defineJob({ kind: SETTLE_JOB, payload, run: (job) => contents.settle(job.tenantId, job.payload.documentId) }),
    ],
    purgeRoom: (tenantId, roomId) => documents.purgeRoom(tenantId, roomId),
    capability: () => ({
      enabled: true,
      formats: ["markdown", "json", "yjs"],
      limits: {
        title: TITLE_MAX,
        textBytes: TEXT_MAX_BYTES,
        updateBytes: UPDATE_MAX_BYTES,
        editors: EDITORS_MAX,
        parts: PARTS_MAX,
        edits: EDITS_MAX,
        places: PLACES_MAX,
        revisions: REVISIONS_MAX,
        revisionDays: REVISION_DAYS,
        comment: COMMENT_MAX,
        comments: COMMENTS_MAX,
        depth: DEPTH_MAX,
        branch: BRANCH_MAX,
      },
    }),
  };
  return { module, sync, carrier: new DocumentCarrier({ store, log }) };
}
