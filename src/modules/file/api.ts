// Operations and routes of files.
import { z } from "@zod/zod";
import { exampleId } from "@/core/id.ts";
import type { ModuleApi } from "@/core/module.ts";
import { defineOperation } from "@/core/operation.ts";
import type { RoomAccess } from "@/modules/room/mod.ts";
import { linkedRoute } from "./link_route.ts";
import type { LinkService } from "./link_service.ts";
import { FILE_PATH, fileRoutes } from "./routes.ts";
import { FILE_EVENTS, FileId, FileLink, FileList, LinkCreate, StoredFile, StoredFiles } from "./schema.ts";
import type { FileService } from "./service.ts";
import type { FileWriter } from "./writer.ts";

const FILE = exampleId("file");
const ROOM = exampleId("room");
const byId = z.strictObject({ id: FileId });

type Deps = { files: FileService; writer: FileWriter; contentLinks: LinkService; roomAccess: RoomAccess };

export function fileApi({ files, writer, contentLinks, roomAccess }: Deps): ModuleApi {
  return {
    tags: { files: "Uploads, downloads, thumbnails and links to files." },
    events: FILE_EVENTS,
    routes: [...fileRoutes({ files, writer, roomAccess }), linkedRoute({ files, links: contentLinks })],
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
        ownData: {},
        run: (context, input) => files.list(context, input),
      }),
      defineOperation({
        name: "file.read",
        summary: "Get the metadata of a file",
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
        summary: "Create temporary links to file contents, for an <img>, a <video> or a download",
        description: "A link requires no token and gives anybody who has it access to the content, with the caller's " +
          "permissions at the time of use. It stops working when the caller may no longer read the file or is " +
          "disabled, and when the caller's token expires or is revoked; for a refreshable token, when its token " +
          "family ends. A JWT without `jti` cannot be revoked, so its links work until they expire. Files that do " +
          "not exist or are not visible to the caller have no link in the response.",
        access: { scope: "file.read" },
        http: { method: "POST", path: `${FILE_PATH}/links`, status: 200 },
        input: LinkCreate,
        output: z.object({ items: z.array(FileLink) }).meta({ id: "FileLinks" }),
        isSecret: true,
        example: { ids: [FILE], thumbnail: 320 },
        async run({ actor }, input) {
          return { items: await contentLinks.create(actor, input) };
        },
      }),
      defineOperation({
        name: "file.delete",
        summary: "Delete a file and its content",
        description:
          "Allowed for its uploader while a member of the rooms and a reader of the documents that show it, and for an " +
          "admin who can see it. Resources that show the file keep its name; reading it returns 410. Principals whose " +
          "picture it was have none.",
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
