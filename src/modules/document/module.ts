// The document module: documents with their content, comments, revisions and live editing.
import { z } from "@zod/zod";
import type { Actor } from "@/core/actor.ts";
import { defineJob } from "@/core/job.ts";
import type { Module } from "@/core/module.ts";
import type { NamedFiles } from "@/modules/file/mod.ts";
import type { IdentityService } from "@/modules/identity/mod.ts";
import type { Notify } from "@/modules/notification/mod.ts";
import type { RoomAccess } from "@/modules/room/mod.ts";
import type { SearchIndex } from "@/modules/search/mod.ts";
import type { Platform } from "@/ports/platform.ts";
import { DocumentAccess } from "./access.ts";
import { documentArchive } from "./archive/section.ts";
import { commentOperations, contentOperations, documentOperations } from "./api.ts";
import { CommentNotifier } from "./comment/notifier.ts";
import { CommentSearchable, INDEX_COMMENTS_JOB, indexComments } from "./comment/searchable.ts";
import { CommentService } from "./comment/service.ts";
import { COMMIT_REVISION_JOB, ContentLog } from "./content/log.ts";
import { ContentService } from "./content/service.ts";
import { ContentWriter } from "./content/writer.ts";
import { DocumentUpdater } from "./updater.ts";
import { migrations } from "./migrations.ts";
import { documentErasure } from "./principal_erasure.ts";
import { documentRoutes } from "./routes.ts";
import {
  BRANCH_MAX,
  COMMENT_MAX,
  COMMENTS_MAX,
  CONTENT_FORMATS,
  DEPTH_MAX,
  DOCUMENT_EVENTS,
  DOCUMENT_KINDS,
  EDITORS_MAX,
  EDITS_MAX,
  ITEMS_MAX,
  PLACES_MAX,
  REVISION_DAYS,
  REVISIONS_MAX,
  RICH_DEPTH_MAX,
  RICH_NODES_MAX,
  TEXT_MAX_BYTES,
  TITLE_MAX,
  UPDATE_MAX_BYTES_OF,
} from "./schema.ts";
import { DocumentSearchable } from "./searchable.ts";
import { DocumentService, PURGE_JOB } from "./service.ts";
import { type CollaborationOptions, CollaborationService } from "./collaboration/service.ts";
import { installStepCounter } from "./content/merge_cost.ts";
import { installShortTexts } from "./content/short_texts.ts";

type Deps = {
  roomAccess: RoomAccess;
  identity: IdentityService;
  notify: Notify;
  authenticate: (token: string) => Actor | Promise<Actor>;
  revalidate: (actor: Actor) => Promise<Actor | undefined>;
  collaboration: CollaborationOptions;
  /** Absent if search is off. */
  index: SearchIndex | undefined;
  files: NamedFiles;
};

/** With the service of live editing, which a transport passes its sockets to. */
export type DocumentModule = Module & { collaboration: CollaborationService };

export function documentModule(platform: Platform, deps: Deps): DocumentModule {
  installStepCounter();
  installShortTexts();
  const { store, bus, clock, cursors, cpu, holds, writeBudget } = platform;
  const { roomAccess, identity, notify, authenticate, revalidate, index, files } = deps;
  const documentAccess = new DocumentAccess({ store, roomAccess });
  const log = new ContentLog({ store, clock, cpu, files, holds, index });
  const documents = new DocumentService({ store, clock, cursors, documentAccess, log, files, holds, index });
  const updater = new DocumentUpdater({ store, clock, documentAccess, log, identity, index });
  const contents = new ContentService({ store, cursors, documentAccess, log, cpu });
  const writer = new ContentWriter({ store, documentAccess, log });
  const notifier = new CommentNotifier({ clock, roomAccess, identity, notify });
  const comments = new CommentService({ store, clock, cursors, documentAccess, log, notifier, files, holds, index });
  const collaboration = new CollaborationService(
    { store, bus, clock, documentAccess, log, contents, cpu, bytes: writeBudget, authenticate, revalidate },
    deps.collaboration,
  );
  const payload = z.strictObject({ documentId: z.string() });
  return {
    name: "document",
    migrations,
    erases: documentErasure(documents, comments),
    tags: { documents: "Documents: content, revisions, comments, sharing and live editing." },
    events: DOCUMENT_EVENTS,
    operations: [
      ...documentOperations(documents, updater),
      ...contentOperations(contents, writer),
      ...commentOperations(comments),
    ],
    routes: documentRoutes(contents),
    notificationKinds: { comment_mention: "mentions", comment: "replies" },
    resourceScopes: { document: "document.read" },
    canRead: { document: (actor, ids, db) => documentAccess.filterReadable(actor, ids, db) },
    jobs: [
      defineJob({ kind: PURGE_JOB, payload, run: (job) => documents.purge(job.tenantId, job.payload.documentId) }),
      defineJob({
        kind: COMMIT_REVISION_JOB,
        payload,
        run: (job) => contents.commitPendingEdits(job.tenantId, job.payload.documentId),
      }),
      defineJob({
        kind: INDEX_COMMENTS_JOB,
        payload,
        run: (job) => indexComments({ store, index }, job.tenantId, job.payload.documentId),
      }),
    ],
    purgeRoom: (tenantId, roomId) => documents.purgeRoom(tenantId, roomId),
    capability: () => ({
      enabled: true,
      kinds: DOCUMENT_KINDS,
      formats: CONTENT_FORMATS,
      limits: {
        title: TITLE_MAX,
        textBytes: TEXT_MAX_BYTES,
        updateBytes: UPDATE_MAX_BYTES_OF.text,
        richUpdateBytes: UPDATE_MAX_BYTES_OF.rich,
        richNodes: RICH_NODES_MAX,
        richDepth: RICH_DEPTH_MAX,
        editors: EDITORS_MAX,
        parts: ITEMS_MAX,
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
    search: [new DocumentSearchable({ store }), new CommentSearchable({ store, documentAccess })],
    drain: () => collaboration.close(),
    onFailover: () => collaboration.disconnectAll(),
    collaboration,
    archive: documentArchive({ store, log, files, index }),
  };
}
