// The JSON of an archive: read beside the thread that serves where it is more than a little, and within a deadline; and handed
// on value by value, so that others are served in between.
import { createYielder } from "@/core/caller.ts";
import { MINUTE_MS } from "@/core/time/clock.ts";
import { isFault } from "@/core/fault.ts";
import { WorkerThread } from "@/core/worker.ts";
import { ArchiveFault } from "../fault.ts";
import type { ImportRun } from "../import/run.ts";
import { JsonItemParser, type Layout, type ParsedItem, type ParseRequest } from "./json_items.ts";

/** Reading this much takes a few milliseconds, less than starting a worker. */
const INLINE_MAX_BYTES = 64 * 1024;
/** Size of the chunks sent to the worker, and so of its results: many short values at once. */
const CHUNK_BYTES = 64 * 1024;
/** The largest value takes two seconds; a machine may be thirty times as slow. */
const PARSE_TIMEOUT_MS = MINUTE_MS;
/** After this many values the progress is stored, and cancellation is checked. */
const VALUES_PER_CHECKPOINT = 5000;
const WORKER = new URL("./json_worker.ts", import.meta.url);

/** A file of an archive. */
export type JsonFile = {
  content: AsyncIterable<Uint8Array> | Iterable<Uint8Array>;
  /** Bytes of the content. */
  size: number;
  name: string;
  layout: Layout;
};

/** A value of a file, by its place among them and as the report names that; `units` of UTF-16 are its JSON. */
export type JsonValue = { value: unknown; number: number; where: string; units: number };

/** Reads the files of one archive, one after the other. */
export class JsonReader implements Disposable {
  readonly #run: ImportRun;
  #thread: WorkerThread<ParseRequest, ParsedItem[]> | undefined;

  constructor(run: ImportRun) {
    this.#run = run;
  }

  /** The values of a file. Invalid JSON, unsafe keys and values that are too large are skipped and reported. */
  async *values(file: JsonFile): AsyncGenerator<JsonValue> {
    const { name, layout } = file;
    const { report } = this.#run;
    const turn = createYielder();
    let number = 0;
    for await (const items of this.#items(file)) {
      for (const item of items) {
        await turn();
        const where = layout === "lines" ? `line ${number + 1}` : `${name} item ${number}`;
        if (++number % VALUES_PER_CHECKPOINT === 0) await this.#run.checkpoint();
        if (typeof item !== "string") report.skip(item.code, `${where}: ${item.detail}`);
        else if (item !== "") yield { value: JSON.parse(item), number, where, units: item.length };
      }
    }
  }

  [Symbol.dispose](): void {
    this.#thread?.[Symbol.dispose]();
  }

  async *#items({ content, size, name, layout }: JsonFile): AsyncGenerator<ParsedItem[]> {
    const here = size <= INLINE_MAX_BYTES ? new JsonItemParser() : undefined;
    const read = (chunk: Uint8Array<ArrayBuffer> | null) =>
      here?.read({ layout, chunk }) ?? this.#parseInWorker(name, { layout, chunk });
    for await (const large of content) {
      // A file of no values at all is read to its end as well.
      this.#run.assertRunning();
      for (let at = 0; at < large.length; at += CHUNK_BYTES) {
        // A copy, since sending detaches the buffer: chunks may share the memory of their producer.
        yield await read(new Uint8Array(large.subarray(at, at + CHUNK_BYTES)));
      }
    }
    yield await read(null);
  }

  async #parseInWorker(name: string, order: ParseRequest): Promise<ParsedItem[]> {
    this.#thread ??= new WorkerThread(WORKER, "archive");
    try {
      const transfer = order.chunk === null ? [] : [order.chunk.buffer];
      return await this.#thread.run(order, { transfer, timeoutMs: PARSE_TIMEOUT_MS });
    } catch (thrown) {
      if (!isFault(thrown, "limit_reached")) throw thrown;
      throw new ArchiveFault("too_large", `Parsing ${name} takes too long`);
    }
  }
}
