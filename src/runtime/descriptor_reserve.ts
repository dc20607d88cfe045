// For Deno 2.9.6. Keeps descriptors for the process itself when connections have taken all others.
//
// Fault: the process ends with a thread that it has no descriptor for, and with modules that it then loads:
//
//   ulimit -n 40; try { for (;;) Deno.listen({ port: 0 }); } catch {} new Worker("data:text/javascript,", { type: "module" });
//
// Delete it when tests/runtime_test.ts says that `new Worker` throws.

/** More than the contents that one principal may have open. */
const DESCRIPTORS = 256;
/** Where the limit of the process is low, only this part of what it has. */
const PART = 1 / 4;
/** What the task `start` may read, whatever else is allowed. Where it may not, there is no reserve. */
const FOLDER = ".";

export class DescriptorReserve {
  readonly #files: Deno.FsFile[] = [];
  readonly #count: number;

  constructor() {
    this.#openTo(DESCRIPTORS / PART);
    this.#count = Math.floor(this.#files.length * PART);
    this.#closeTo(this.#count);
  }

  /** Takes it, unless less than as much again would remain: else the next connections would take the last ones. */
  take(): boolean {
    this.#openTo(2 * this.#count);
    const isTaken = this.#files.length === 2 * this.#count;
    this.#closeTo(isTaken ? this.#count : 0);
    return isTaken;
  }

  /** The process may use it until it is taken again. */
  release(): void {
    this.#closeTo(0);
  }

  #openTo(count: number): void {
    try {
      while (this.#files.length < count) this.#files.push(Deno.openSync(FOLDER));
    } catch {
      // There are no more.
    }
  }

  #closeTo(count: number): void {
    for (const file of this.#files.splice(count)) file.close();
  }
}
