// Files that a Mattermost export has beside its lines, for the posts and the users that name them.
import { createHash } from "node:crypto";
import type { MessageFile } from "@/modules/message/mod.ts";
import { ArchiveFault } from "../fault.ts";
import type { Importer } from "../import/importer.ts";
import type { RefFactory, SourceFile } from "./model.ts";
import type { ZipArchive } from "./zip.ts";

/** The folder of the zip that paths in the export start from. */
const FOLDER = "data/";

type Post = { where: string; uploaderId: string; at: string; roomId: string };
/** A picture is of no room. */
type Shown = Omit<Post, "roomId"> & { roomId: string | undefined };
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
      const source = await this.#import(path, post);
      const file = source && await this.#importer.files.find(source.ref.original);
      if (file === undefined) copied.missing.push(path);
      else copied.files.push(file);
    }
    return copied;
  }

  /** Sets the picture of a user. */
  async setPicture(path: string, uploaderId: string): Promise<void> {
    const { files, principals, report, now: at } = this.#importer;
    if (principals.isErased(uploaderId, null)) return;
    const where = `picture of ${uploaderId}`;
    const source = await this.#import(path, { where, uploaderId, at, roomId: undefined });
    if (source === undefined) report.skip("file_not_copied", where);
    else await files.setAvatar(source);
  }

  async #import(path: string, { where, uploaderId, at, roomId }: Shown): Promise<SourceFile | undefined> {
    const entry = FOLDER + path;
    const size = this.#archive.size(entry);
    if (size === undefined || !this.#archive.isRegular(entry)) return undefined;
    const { report, files } = this.#importer;
    try {
      const id = this.#refs.file(path).fallback;
      const source: SourceFile = {
        ref: { original: id, fallback: id },
        where,
        name: path.slice(path.lastIndexOf("/") + 1),
        contentType: "application/octet-stream",
        size,
        sha256: await this.#digestOf(entry),
        uploaderId,
        isOfRoom: roomId !== undefined,
        createdAt: at,
      };
      await files.importFile(source, roomId ?? "", this.#archive.stream(entry));
      return source;
    } catch (thrown) {
      if (!(thrown instanceof ArchiveFault)) throw thrown;
      report.skip("file_corrupt", `${where}: ${thrown.message}`);
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
