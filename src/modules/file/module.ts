// The file module: uploads, contents, thumbnails, links and quotas.
import { z } from "@zod/zod";
import type { Actor } from "@/core/actor.ts";
import { defineJob } from "@/core/job.ts";
import { HOUR_MS } from "@/core/time/clock.ts";
import type { CanRead, Module } from "@/core/module.ts";
import type { Signer } from "@/core/crypto.ts";
import type { CredentialSnapshot, IdentityService, PrincipalVisibility } from "@/modules/identity/mod.ts";
import type { RoomAccess } from "@/modules/room/mod.ts";
import type { RetentionService } from "@/modules/tenant/mod.ts";
import type { Platform } from "@/ports/platform.ts";
import { fileApi } from "./api.ts";
import { LinkService } from "./link_service.ts";
import { ERASE_JOB, FileAttachments } from "./attachments.ts";
import { migrations } from "./migrations.ts";
import { erases } from "./principal_erasure.ts";
import { FileService } from "./service.ts";
import { type FileLimits, FileWriter, SWEEP_JOB, sweepJob } from "./writer.ts";

/** By then no process that was just storing a content is still at it. It may end before it knows that the file was deleted. */
const ERASE_AGAIN_MS = HOUR_MS;

type Deps = {
  roomAccess: RoomAccess;
  identity: IdentityService;
  visibility: PrincipalVisibility;
  revalidate: (credential: CredentialSnapshot) => Promise<Actor | undefined>;
  retention: RetentionService;
  limits: FileLimits;
  /** Signs links to contents. */
  signer: Signer;
};

export type FileModule = Module & { files: FileService; writer: FileWriter; attachments: FileAttachments };

export function fileModule({ store, clock, cursors, blobs, holds, modules }: Platform, deps: Deps): FileModule {
  const { roomAccess, identity, visibility, revalidate, retention, limits, signer } = deps;
  const attachments = new FileAttachments();
  const readCheckFor = (kind: string): CanRead | undefined =>
    modules.map(({ canRead }) => canRead?.[kind]).find((found) => found !== undefined);
  const files = new FileService({
    store,
    clock,
    cursors,
    roomAccess,
    visibility,
    blobs,
    holds,
    retention,
    readCheckFor,
  });
  const writer = new FileWriter({ store, clock, blobs, limits });
  const contentLinks = new LinkService({ clock, signer, files, identity, revalidate });
  return {
    name: "file",
    migrations,
    erases,
    ...fileApi({ files, writer, contentLinks, roomAccess }),
    jobs: [
      defineJob({
        kind: SWEEP_JOB,
        payload: z.strictObject({}),
        run: ({ tenantId }) => files.deleteStaleUploads(tenantId),
      }),
      defineJob({
        kind: ERASE_JOB,
        payload: z.strictObject({ keys: z.array(z.string()), isRepeat: z.literal(true).optional() }),
        async run({ tenantId, payload: { keys, isRepeat } }) {
          await files.deleteBlobs(keys);
          if (isRepeat) return;
          const runAt = clock.now() + ERASE_AGAIN_MS;
          await store.write((tx) =>
            tx.enqueue({ tenantId, kind: ERASE_JOB, payload: { keys, isRepeat: true }, runAt })
          );
        },
      }),
    ],
    jobsOn: { picture: (tenantId) => sweepJob(tenantId, clock.now()) },
    purgeRoom: (tenantId, roomId) => files.purgeRoom(attachments, tenantId, roomId),
    capability: () => ({ enabled: true, ...limits }),
    files,
    writer,
    attachments,
  };
}
