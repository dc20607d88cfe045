// Plugins in processes of this host: Deno without permissions, which reads a line of JSON for each call from its standard
// input, and writes a line with the id of the call, a space and the response as JSON to its standard output. Only where the gateway may
// start Deno: by the task `start:plugins`.
import { Fault, isFault } from "@/core/fault.ts";
import { failureOf, logOf } from "@/core/log.ts";
import { isLongerThan } from "@/core/text/text.ts";
import { MINUTE_MS } from "@/core/time/clock.ts";
import { streamKey } from "@/ports/store.ts";
import type { ActivePlugin } from "./registry.ts";
import { type Call, parseResponse, type PluginResponse, type PluginTransport, responseTo } from "./transport.ts";

const PROCESSES_MAX = 8;
const HEAP_MIB = 64;
/** Memory of the whole process, since the limit of the heap does not count buffers. */
const MEMORY_MIB = 160;
const LINE_MAX_BYTES = 64 * 1024;
/** Bytes of lines that answer no call, between two that do: reading them without end would take the gateway's time. */
const UNASKED_MAX_BYTES = 1024 * 1024;
/** A plugin that is not called for so long ends; the next call starts it again. */
const IDLE_MS = MINUTE_MS;
/** Its start included. */
const RESPONSE_MS = 6000;
// By its name: the path of the running program is not readable without further permissions.
const DENO = "deno";
/**
 * Where no folder can be. In one, `localStorage` and `caches` would need no permission, would have no limit, and would belong to all
 * plugins together.
 */
const NO_CACHE = "/dev/null/deno";
/** Ends the process once it uses too much memory, by more than a heap may have: a thread has no permission for anything else. */
const MEMORY_GUARD = `setInterval(() => {
  if (Deno.memoryUsage().rss > ${MEMORY_MIB * 2 ** 20}) for (const all = [];;) all.push(new Array(1e6).fill(0));
}, 50)`;
/**
 * What the process starts with. Deno reads all files that the program it starts with imports, whatever its permissions: the code of
 * the plugin is therefore imported by an address that is known only then.
 */
const ENTRY = `import { Worker } from "node:worker_threads";
new Worker(new URL("${dataUrl("text/javascript", MEMORY_GUARD)}")).unref();
await import(Deno.args[0]);`;

const log = logOf("plugin");

type Pending = Pick<Call, "kind"> & Omit<PromiseWithResolvers<PluginResponse>, "promise">;

/** Whether the gateway may start plugins. */
export function mayStartProcesses(): boolean {
  return Deno.permissions.querySync({ name: "run", command: DENO }).state === "granted";
}

export class ProcessTransport {
  /** Those that were called least recently first. */
  readonly #running = new Map<string, PluginProcess>();
  readonly #processesMax: number;
  readonly #responseMs: number;

  constructor({ processesMax = PROCESSES_MAX, timeoutFactor = 1 } = {}) {
    this.#processesMax = processesMax;
    this.#responseMs = RESPONSE_MS * timeoutFactor;
  }

  readonly call: PluginTransport = async (plugin, call) => {
    const child = this.#processOf(plugin);
    try {
      const timeout = AbortSignal.timeout(Math.min(call.timeoutMs, this.#responseMs));
      return await child.call({ ...call, signal: AbortSignal.any([call.signal, timeout]) });
    } catch (thrown) {
      // What does not respond may loop: it would keep a processor busy.
      if (isFault(thrown, "plugin_timeout")) child.stop();
      throw thrown;
    }
  };

  async stop(): Promise<void> {
    await Promise.all([...this.#running.values()].map((child) => child.stop()));
  }

  #processOf(plugin: ActivePlugin): PluginProcess {
    const key = streamKey(plugin.tenantId, plugin.id);
    const existing = this.#running.get(key);
    this.#running.delete(key);
    if (existing !== undefined && existing.version === plugin.row.version) {
      this.#running.set(key, existing);
      return existing;
    }
    void existing?.stop();
    if (!mayStartProcesses()) throw new Fault("plugin_unavailable", "This gateway does not start plugins");
    if (this.#running.size >= this.#processesMax && !this.#stopIdle()) {
      throw new Fault("plugin_unavailable", `At most ${this.#processesMax} plugins run on this node`, {
        retryAfterMs: 5000,
      });
    }
    const child: PluginProcess = new PluginProcess(plugin, () => {
      if (this.#running.get(key) === child) this.#running.delete(key);
    });
    this.#running.set(key, child);
    return child;
  }

  /** Stops the first process that nobody waits for, so that plugins of one tenant leave places for those of others. */
  #stopIdle(): boolean {
    const idle = this.#running.values().find(({ isIdle }) => isIdle);
    void idle?.stop();
    return idle !== undefined;
  }
}

/** One process of a version of a plugin. */
class PluginProcess {
  readonly version: number;
  readonly #child: Deno.ChildProcess;
  readonly #input: WritableStreamDefaultWriter<Uint8Array<ArrayBuffer>>;
  readonly #pending = new Map<string, Pending>();
  readonly #ended: Promise<void>;
  readonly #onEnd: () => void;
  #idle: ReturnType<typeof setTimeout> | undefined;
  #isOver = false;
  #unaskedBytes = 0;

  constructor({ id, manifest, row }: ActivePlugin, onEnd: () => void) {
    this.version = row.version;
    this.#onEnd = onEnd;
    this.#child = new Deno.Command(DENO, {
      args: [
        "run",
        "--quiet",
        "--no-prompt",
        "--no-config",
        "--no-lock",
        "--no-remote",
        "--no-npm",
        `--v8-flags=--max-old-space-size=${HEAP_MIB}`,
        dataUrl("text/javascript", ENTRY),
        dataUrl("application/typescript", manifest.code ?? ""),
      ],
      clearEnv: true,
      env: { NO_COLOR: "1", DENO_NO_UPDATE_CHECK: "1", DENO_DIR: NO_CACHE },
      stdin: "piped",
      stdout: "piped",
      stderr: "null",
    }).spawn();
    this.#input = this.#child.stdin.getWriter();
    this.#ended = this.#read().catch((cause) => log.warn("plugin process stopped", { plugin: id, ...failureOf(cause) }))
      .then(async () => {
        onEnd();
        this.#isOver = true;
        clearTimeout(this.#idle);
        for (const { reject } of this.#pending.values()) reject(new Fault("plugin_failed", "The plugin has ended"));
        this.#signal("SIGKILL");
        await this.#child.status;
        // What was still being written has nobody to read it.
        await this.#input.abort().catch(() => {});
      });
  }

  get isIdle(): boolean {
    return this.#pending.size === 0;
  }

  async call({ id, kind, data, signal }: Call): Promise<PluginResponse> {
    clearTimeout(this.#idle);
    this.#signal("SIGCONT");
    const { promise, resolve, reject } = responseTo({ signal });
    this.#pending.set(id, { kind, resolve, reject });
    try {
      const line = new TextEncoder().encode(`${JSON.stringify({ id, call: kind, data })}\n`);
      // A process that does not read keeps the write waiting, but not the call; one that ended rejects it.
      this.#input.write(line).catch(() => reject(new Fault("plugin_failed", "The plugin has ended")));
      return await promise;
    } finally {
      this.#pending.delete(id);
      if (this.#pending.size === 0 && !this.#isOver) this.#pause();
    }
  }

  /** While nobody waits for it, it gets no processor: it may compute all the same. */
  #pause(): void {
    this.#signal("SIGSTOP");
    this.#idle = setTimeout(() => void this.stop(), IDLE_MS);
  }

  /** The next call starts another process, also while this one is ending. */
  async stop(): Promise<void> {
    this.#onEnd();
    this.#isOver = true;
    clearTimeout(this.#idle);
    this.#signal("SIGKILL");
    await this.#ended;
  }

  #signal(signal: "SIGKILL" | "SIGSTOP" | "SIGCONT"): void {
    try {
      this.#child.kill(signal);
    } catch {
      // It has ended by itself, or the system has no such signal.
    }
  }

  /** Reads responses until the process ends, or writes more than a response may have. */
  async #read(): Promise<void> {
    let rest = "";
    for await (const text of this.#child.stdout.pipeThrough(new TextDecoderStream())) {
      const lines = (rest + text).split("\n");
      rest = lines.pop() ?? "";
      if (isLongerThan(rest, LINE_MAX_BYTES)) throw new Error("a line is too long");
      for (const line of lines) this.#accept(line);
    }
  }

  #accept(line: string): void {
    if (isLongerThan(line, LINE_MAX_BYTES)) throw new Error("a line is too long");
    const separator = line.indexOf(" ");
    const pending = this.#pending.get(line.slice(0, separator));
    if (pending === undefined) {
      // Not a response, or one that comes too late.
      this.#unaskedBytes += line.length + 1;
      if (this.#unaskedBytes > UNASKED_MAX_BYTES) throw new Error("it writes without being asked");
      return;
    }
    this.#unaskedBytes = 0;
    try {
      pending.resolve(parseResponse(pending.kind, line.slice(separator + 1)));
    } catch (thrown) {
      pending.reject(thrown);
    }
  }
}

function dataUrl(type: string, text: string): string {
  return `data:${type};base64,${new TextEncoder().encode(text).toBase64()}`;
}
