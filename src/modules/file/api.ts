// Operations, routes and jobs of files.
import { z } from "@zod/zod";
import { defineJob } from "@/core/job.ts";
import type { Module } from "@/core/module.ts";
import { defineOperation } from "@/core/operation.ts";
import type { RoomGate } from "@/modules/room/mod.ts";
import { linkedRoute } from "./link/route.ts";
import type { LinkService } from "./link/service.ts";
import { ERASE_JOB, type FileLinks } from "./links.ts";
import { FILE_PATH, fileRoutes } from "./routes.ts";
import { FILE_EVENTS, FileId, FileLink, FileList, LinkMake, StoredFile, StoredFiles } from "./schema.ts";
import type { FileService } from "./service.ts";
import { type FileWriter, SWEEP_JOB } from "./writer.ts";

const FILE = "file_0190c5d2e7f07b1c9d0a1b2c3d4e5f60";
const ROOM = "room_0190c5d2e7f07b1c9d0a1b2c3d4e5f60";
const byId = z.strictObject({ id: FileId });

type Deps = {
  files: FileService;
  writer: FileWriter;
  links: FileLinks;
  /** Those that browsers follow. */
  addresses: LinkService;
  gate: RoomGate;
};

/** The file module. */
export function fileModule({ files, writer, links, addresses, gate }: Deps): Module {
  return {
    name: "file",
    events: FILE_EVENTS,
    purgeRoom: (tenantId, roomId) => files.purgeRoom(links, tenantId, roomId),
    capability: () => ({ enabled: true, ...writer.limits }),
    routes: [...fileRoutes({ files, writer, gate }), linkedRoute({ files, links: addresses })],
    jobs: [
      defineJob({ kind: SWEEP_JOB, payload: z.strictObject({}), run: ({ tenantId }) => files.sweep(tenantId) }),
      defineJob({
        kind: ERASE_JOB,
        payload: z.strictObject({ keys: z.array(z.string()) }),
        run: ({ payload }) => files.erase(payload.keys),
      }),
    ],
    operations: [
      defineOperation({
        name: "file.list",
        summary: "List the caller's uploads, or the files attached in a room, newest first",
        access: { scope: "file.read", room: "observer" },
        http: { method: "GET", path: FILE_PATH, status: 200 },
        input: FileList,
        output: StoredFiles,
        faults: ["not_found", "invalid_cursor"],
        example: { roomId: ROOM },
        run: (context, input) => files.list(context, input),
      }),
      defineOperation({
        name: "file.read",
        summary: "Read what is known of a file",
        access: { scope: "file.read" },
        http: { method: "GET", path: `${FILE_PATH}/:id`, status: 200 },
        input: byId,
        output: StoredFile,
        faults: ["not_found", "gone"],
        example: { id: FILE },
        run: ({ actor }, { id }) => files.read(actor, id),
      }),
      defineOperation({
        name: "file.link",
        summary: "Make links to contents, for what loads them by itself: an <img>, a <video>, a download",
        description:
          "A link needs no token and works for whoever has it, with the caller's rights at each use: it ends when they no " +
          "longer see the file or are disabled, and with the caller's token, when that expires or is revoked; one that was " +
          "refreshed or can be, with its family. A JWT without a `jti` cannot be revoked, so its links live until they " +
          "expire. Files that are not there, or not visible to the caller, have no link in the answer.",
        access: { scope: "file.read" },
        http: { method: "POST", path: `${FILE_PATH}/links`, status: 200 },
        input: LinkMake,
        output: z.object({ items: z.array(FileLink) }),
        isSecret: true,
        example: { ids: [FILE], thumbnail: 320 },
        async run({ actor }, input) {
          return { items: await addresses.make(actor, input) };
        },
      }),
      defineOperation({
        name: "file.delete",
        summary: "Delete a file and its content",
        description: "By its uploader as long as they are in the rooms that show it, or by an admin who sees it. " +
          "What shows it keeps its name; reading it answers 410.",
        access: { scope: "file.write" },
        http: { method: "DELETE", path: `${FILE_PATH}/:id`, status: 204 },
        input: byId,
        output: z.void(),
        faults: ["not_found"],
        example: { id: FILE },
        run: (context, { id }) => files.delete(context, id),
      }),
    ],
  };
}
