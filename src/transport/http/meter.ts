// HTTP metrics: one meter per method and route template, which caches its labelled metrics.
import type { Count, Distribution } from "@/core/metric_family.ts";
import type { Metrics } from "@/core/metrics.ts";

const METHODS = new Set(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]);

/** Counts the requests of one method and path. */
export class Meter {
  readonly method: string;
  readonly path: string;
  readonly #metrics: Metrics;
  readonly #requests: Count;
  readonly #latency: Distribution;
  readonly #responses = new Map<number, Count>();

  constructor(metrics: Metrics, method: string, path: string) {
    this.path = path;
    this.method = method;
    this.#metrics = metrics;
    this.#requests = metrics.httpRequests.labels({ method, path });
    this.#latency = metrics.httpLatency.labels({ method, path });
  }

  /** Counts a request. */
  begin(): void {
    this.#requests.inc();
  }

  /** Counts its response. */
  end(status: number, seconds: number): void {
    let responses = this.#responses.get(status);
    if (responses === undefined) {
      responses = this.#metrics.httpResponses.labels({ method: this.method, path: this.path, status: `${status}` });
      this.#responses.set(status, responses);
    }
    responses.inc();
    this.#latency.observe(seconds);
  }
}

/** All meters of a gateway. */
export class Meters {
  readonly #metrics: Metrics;
  readonly #byPath = new Map<string, Map<string, Meter>>();

  constructor(metrics: Metrics) {
    this.#metrics = metrics;
  }

  /** The meter of a method and a route template; non-standard methods share one label. */
  of(method: string, path: string): Meter {
    const label = METHODS.has(method) ? method : "_other";
    let byMethod = this.#byPath.get(path);
    if (byMethod === undefined) this.#byPath.set(path, byMethod = new Map());
    let meter = byMethod.get(label);
    if (meter === undefined) byMethod.set(label, meter = new Meter(this.#metrics, label, path));
    return meter;
  }
}
