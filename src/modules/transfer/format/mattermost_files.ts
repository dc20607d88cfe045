// Files that a Mattermost export has beside its lines, for the posts that name them.
import { createHash } from "node:crypto";
import type { MessageFile } from "@/modules/message/mod.ts";
import { ArchiveFault } from "../fault.ts";
import type { Importer } from "../import/importer.ts";
import type { RefFactory } from "./model.ts";
import type { ZipArchive } from "./zip.ts";

/** The folder of the zip that paths in the export start from. */
const FOLDER = "data/";

type Post = { where: string; uploaderId: string; at: string; roomId: string };
type Copied = { files: MessageFile[]; missing: string[] };

export class MattermostFiles {
  readonly #archive: ZipArchive;
  readonly #importer: Importer;
  readonly #refs: RefFactory;

  constructor(archive: ZipArchive, importer: Importer, refs: RefFactory) {
    this.#archive = archive;
    this.#importer = importer;
    this.#refs = refs;
  }

  /** Imports the files of a post that the zip has and the gateway takes; `missing` has the paths of the others. */
  async copy(paths: readonly string[], post: Post): Promise<Copied> {
    const copied: Copied = { files: [], missing: [] };
    for (const path of paths) {
      const file = await this.#copy(path, post);
      if (file === undefined) copied.missing.push(path);
      else copied.files.push(file);
    }
    return copied;
  }

  async #copy(path: string, { where, uploaderId, at, roomId }: Post): Promise<MessageFile | undefined> {
    const entry = FOLDER + path;
    const size = this.#archive.size(entry);
    if (size === undefined || !this.#archive.isRegular(entry)) return undefined;
    const { report, files } = this.#importer;
    try {
      const id = this.#refs.file(path).fallback;
      const source = {
        ref: { original: id, fallback: id },
        where,
        name: path.slice(path.lastIndexOf("/") + 1),
        contentType: "application/octet-stream",
        size,
        sha256: await this.#digestOf(entry),
        uploaderId,
        isOfRoom: true,
        createdAt: at,
      };
      await files.importFile(source, roomId, this.#archive.stream(entry));
      return await files.find(id);
    } catch (error) {
      if (!(error instanceof ArchiveFault)) throw error;
      report.skip("file_corrupt", `${where}: ${error.message}`);
      return undefined;
    }
  }

  async #digestOf(entry: string): Promise<string> {
    const hash = createHash("sha256");
    for await (const chunk of this.#archive.stream(entry)) {
      this.#importer.assertRunning();
      hash.update(chunk);
    }
    return hash.digest("hex");
  }
}
