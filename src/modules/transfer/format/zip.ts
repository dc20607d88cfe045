// A zip archive out of the blob store, opened at its directory and bounded before anything of it is unpacked.
import { Buffer } from "node:buffer";
import { Readable } from "node:stream";
import { crc32 } from "node:zlib";
// @ts-types="@types/yauzl"
import { type Entry, fromRandomAccessReader, RandomAccessReader, validateFileName, type ZipFile } from "yauzl";
import { createYielder } from "@/core/caller.ts";
import { isLongerThan } from "@/core/text/text.ts";
import type { Blobs } from "@/ports/blob.ts";
import { ArchiveFault } from "../fault.ts";
import {
  DIRECTORY_MAX_BYTES,
  ENTRIES_MAX,
  ENTRY_MAX_BYTES,
  ENTRY_NAME_MAX_BYTES,
  RATIO_MAX,
  UNZIPPED_MAX_BYTES,
} from "../schema.ts";

/** Below this a high ratio harms nobody: a file of blanks is no bomb. */
const RATIO_FROM_BYTES = 1024 ** 2;
/** Read at once of a directory: several hundred entries. */
const AHEAD_BYTES = 64 * 1024;
/** Bits of the mode of a file that say its type. */
const FILE_TYPE_BITS = 0o170000;
const REGULAR_FILE = 0o100000;

/** Where an archive is read from. */
type Source = Pick<Blobs, "get">;

class BlobReader extends RandomAccessReader {
  readonly #blobs: Source;
  readonly #key: string;
  readonly #size: number;
  /** What was read last, and followed it. */
  #block = { start: 0, bytes: Buffer.alloc(0) };
  #nextStart = 0;

  constructor(blobs: Source, key: string, size: number) {
    super();
    this.#blobs = blobs;
    this.#key = key;
    this.#size = size;
  }

  /** The library reads each entry of the directory by itself, in two parts. In a store of objects, each would be a request. */
  override read(
    target: Buffer,
    offset: number,
    length: number,
    start: number,
    callback: (error: Error | null, length?: number) => void,
  ): void {
    const done = (bytes: Buffer): void => callback(null, bytes.copy(target, offset));
    this.#read(start, length).then(done, callback);
  }

  async #read(start: number, length: number): Promise<Buffer> {
    const isNext = start === this.#nextStart;
    this.#nextStart = start + length;
    let block = this.#block;
    if (start < block.start || start + length > block.start + block.bytes.length) {
      const end = Math.min(this.#size, start + (isNext ? Math.max(length, AHEAD_BYTES) : length));
      block = { start, bytes: Buffer.concat(await Array.fromAsync(this.#chunks(start, end))) };
      this.#block = block;
    }
    return block.bytes.subarray(start - block.start, start - block.start + length);
  }

  override _readStreamForRange(start: number, end: number): Readable {
    return Readable.from(this.#chunks(start, end), { objectMode: false });
  }

  async *#chunks(start: number, end: number): AsyncGenerator<Buffer> {
    if (start >= end) return;
    const stream = await this.#blobs.get(this.#key, { start, end });
    if (stream === undefined) throw new ArchiveFault("missing_file", "The archive no longer exists");
    for await (const chunk of stream) yield Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length);
  }
}

/** An opened archive. Opening refuses, by name, what is no archive, too much, or points outside of itself. */
export class ZipArchive {
  readonly #zip: ZipFile;
  readonly #entries: Map<string, Entry>;

  private constructor(zip: ZipFile, entries: Map<string, Entry>) {
    this.#zip = zip;
    this.#entries = entries;
  }

  static async open(blobs: Source, key: string, size: number, entriesMax = ENTRIES_MAX): Promise<ZipArchive> {
    const zip = await new Promise<ZipFile>((resolve, reject) => {
      const options = { lazyEntries: true, autoClose: false, strictFileNames: true };
      fromRandomAccessReader(new BlobReader(blobs, key, size), size, options, (error, opened) => {
        if (error === null) resolve(opened);
        else reject(faultOf(error));
      });
    });
    try {
      return new ZipArchive(zip, await directoryOf(zip, entriesMax));
    } catch (thrown) {
      zip.close();
      throw thrown;
    }
  }

  /** Names of the files, in the archive's order. */
  get names(): string[] {
    return [...this.#entries.keys()];
  }

  /** Bytes a file takes in the archive. */
  packedSize(name: string): number {
    return this.#entries.get(name)?.compressedSize ?? 0;
  }

  /** A file, whole; `undefined` when there is none. */
  async read(name: string): Promise<Uint8Array<ArrayBuffer> | undefined> {
    const size = this.size(name);
    if (size === undefined) return undefined;
    if (size > ENTRY_MAX_BYTES) {
      throw new ArchiveFault("too_large", `${name} has ${size} bytes; at most ${ENTRY_MAX_BYTES} are allowed`);
    }
    const chunks: Uint8Array[] = [];
    for await (const chunk of this.stream(name)) chunks.push(chunk);
    return Buffer.concat(chunks);
  }

  /** Whether an entry is an ordinary file, no link or device; archives of systems without such say nothing. */
  isRegular(name: string): boolean {
    const type = ((this.#entries.get(name)?.externalFileAttributes ?? 0) >>> 16) & FILE_TYPE_BITS;
    return type === 0 || type === REGULAR_FILE;
  }

  /** Bytes of a file; `undefined` when there is none. */
  size(name: string): number | undefined {
    return this.#entries.get(name)?.uncompressedSize;
  }

  /** A file in chunks; the library ends it when it is longer than the directory says, but reads no checksum. */
  async *stream(name: string): AsyncGenerator<Uint8Array> {
    const entry = this.#entries.get(name);
    if (entry === undefined) throw new ArchiveFault("missing_file", `The archive has no ${name}`);
    const stream = await new Promise<Readable>((resolve, reject) => {
      this.#zip.openReadStream(entry, (error, opened) => error === null ? resolve(opened) : reject(faultOf(error)));
    });
    let checksum = 0;
    try {
      for await (const chunk of stream) {
        checksum = crc32(chunk, checksum);
        yield chunk;
      }
    } catch (thrown) {
      throw faultOf(thrown);
    }
    if (checksum !== entry.crc32) throw new ArchiveFault("zip_corrupt", `${name} does not match its checksum`);
  }

  close(): void {
    this.#zip.close();
  }
}

function directoryOf(zip: ZipFile, entriesMax: number): Promise<Map<string, Entry>> {
  if (zip.entryCount > entriesMax) {
    throw new ArchiveFault(
      "too_many_entries",
      `The archive has ${zip.entryCount} entries; at most ${entriesMax} are allowed`,
    );
  }
  const entries = new Map<string, Entry>();
  let packed = 0;
  let unpacked = 0;
  let described = 0;
  const yieldIfDue = createYielder();
  return new Promise((resolve, reject) => {
    zip.on("error", (error) => reject(faultOf(error)));
    zip.on("end", () => resolve(entries));
    zip.on("entry", (entry: Entry) => {
      try {
        assertEntry(entry);
        described += entry.fileNameLength + entry.extraFieldLength + entry.fileCommentLength;
        if (described > DIRECTORY_MAX_BYTES) {
          throw new ArchiveFault(
            "directory_too_large",
            `Names, extra fields and comments of the entries have more than ${DIRECTORY_MAX_BYTES} bytes`,
          );
        }
        packed += entry.compressedSize;
        unpacked += entry.uncompressedSize;
        if (unpacked > UNZIPPED_MAX_BYTES) {
          throw new ArchiveFault("zip_bomb", `The archive is larger than ${UNZIPPED_MAX_BYTES} bytes when unpacked`);
        }
        // Entries that share their bytes pack better than anything can.
        if (unpacked > RATIO_FROM_BYTES && unpacked > RATIO_MAX * Math.min(packed, zip.fileSize)) {
          throw new ArchiveFault("zip_bomb", `The archive is more than ${RATIO_MAX} times its size when unpacked`);
        }
        if (!entry.fileName.endsWith("/")) entries.set(entry.fileName, entry);
        yieldIfDue().then(() => zip.readEntry()).catch(reject);
      } catch (thrown) {
        reject(thrown);
      }
    });
    zip.readEntry();
  });
}

function assertEntry(entry: Entry): void {
  const { fileName, uncompressedSize, compressedSize } = entry;
  // An extra field may replace the name, so its length in the directory is not the one that counts.
  if (isLongerThan(fileName, ENTRY_NAME_MAX_BYTES)) {
    throw new ArchiveFault("name_too_long", `${fileName.slice(0, 64)}… has more than ${ENTRY_NAME_MAX_BYTES} bytes`);
  }
  const wrong = validateFileName(fileName) ?? (fileName.includes("\0") ? "NUL in a file name" : null);
  if (wrong !== null) throw new ArchiveFault("unsafe_name", wrong);
  if (entry.isEncrypted()) throw new ArchiveFault("zip_encrypted", `${fileName} is encrypted`);
  if (uncompressedSize > RATIO_FROM_BYTES && uncompressedSize > RATIO_MAX * compressedSize) {
    throw new ArchiveFault("zip_bomb", `${fileName} is more than ${RATIO_MAX} times its size when unpacked`);
  }
}

/** The library reports errors by their message only. */
function faultOf(error: unknown): unknown {
  if (error instanceof ArchiveFault || !(error instanceof Error)) return error;
  // The store's own failure is no fault of the archive.
  if (error.name === "Fault") return error;
  const text = error.message;
  if (/relative path|absolute path|invalid characters/i.test(text)) return new ArchiveFault("unsafe_name", text);
  if (/end of central directory|signature/i.test(text)) return new ArchiveFault("not_a_zip", text);
  if (/too many bytes/i.test(text)) return new ArchiveFault("zip_bomb", text);
  if (/encrypt/i.test(text)) return new ArchiveFault("zip_encrypted", text);
  return new ArchiveFault("zip_truncated", text);
}
