// Every metric family of the gateway, registered from the start under its published name.
import { Counter, Gauge, Histogram, Registry } from "prom-client";
import { inTime } from "./clock.ts";

const SECONDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
const BYTES = [64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536];

/** The families, one registry for one gateway. Labels are route templates, operation names and codes, never ids of people. */
export class Metrics {
  readonly registry = new Registry();
  readonly #collectMs: number;
  readonly buildInfo = this.#gauge("svc_build_info", "Gateway package version and commit; the value is 1", [
    "version",
    "commit",
  ]);
  readonly httpRequests = this.#counter("svc_http_requests_total", "HTTP requests", ["method", "path"]);
  readonly httpResponses = this.#counter("svc_http_responses_total", "HTTP responses", ["method", "path", "status"]);
  readonly httpLatency = this.#histogram("svc_http_latency_seconds", "HTTP request latency", SECONDS, [
    "method",
    "path",
  ]);
  readonly connectionsActive = this.#gauge("svc_connections_active", "Open WebSocket connections");
  readonly connections = this.#counter("svc_connections_total", "WebSocket connections established");
  readonly connectionErrors = this.#counter("svc_connection_errors", "Connection errors by type", ["type"]);
  readonly poolActive = this.#gauge("svc_pool_connections_active", "Connections in the sharded pool");
  readonly poolPeak = this.#gauge("svc_pool_connections_peak", "Most connections in the sharded pool since start");
  readonly poolConnections = this.#counter("svc_pool_connections_total", "Connections added to the sharded pool");
  readonly poolSent = this.#counter("svc_pool_messages_sent_total", "Broadcast messages handed to sockets of the pool");
  readonly poolDropped = this.#counter(
    "svc_pool_messages_dropped_total",
    "Broadcast messages not handed to a socket of the pool because its outbox was full",
  );
  readonly messagesReceived = this.#counter("svc_messages_received_total", "Chat messages received");
  readonly messagesSent = this.#counter("svc_messages_sent_total", "Chat messages committed and published");
  readonly messagesByType = this.#counter("svc_messages_by_type", "Chat messages committed, by type", ["type"]);
  readonly messageLatency = this.#histogram(
    "svc_message_latency_seconds",
    "From the start of message.send to its commit",
    SECONDS,
  );
  readonly messageSize = this.#histogram("svc_message_size_bytes", "Size of the text of a message", BYTES);
  readonly roomsActive = this.#gauge("svc_rooms_active", "Rooms with a subscriber on this node");
  readonly roomsCreated = this.#counter("svc_rooms_created_total", "Rooms created since start");
  readonly roomMembers = this.#gauge(
    "svc_room_members",
    "Members of the 100 largest rooms; all others together as _other",
    ["room"],
  );
  readonly operations = this.#counter("svc_operation_throughput_total", "Operations that succeeded", [
    "module",
    "operation",
  ]);
  readonly operationErrors = this.#counter("svc_operation_errors_total", "Operations that failed", [
    "module",
    "operation",
    "code",
  ]);
  readonly operationLatency = this.#histogram("svc_operation_latency_seconds", "Operation latency", SECONDS, [
    "module",
    "operation",
  ]);
  readonly aiRequests = this.#counter("svc_ai_requests_total", "AI provider requests", ["provider", "model"]);
  readonly aiErrors = this.#counter("svc_ai_errors_total", "AI provider errors", ["provider", "model", "code"]);
  readonly aiLatency = this.#histogram("svc_ai_latency_seconds", "AI provider latency", SECONDS, ["provider", "model"]);
  readonly aiTokens = this.#counter("svc_ai_tokens_total", "AI provider tokens", ["provider", "model", "direction"]);
  readonly eventLoopLag = this.#gauge(
    "svc_event_loop_lag_seconds",
    "How late timers fire: the longest delay since the last scrape",
  );
  readonly clockOffset = this.#gauge(
    "svc_clock_offset_seconds",
    "How far this machine's clock is ahead of the database's, which counts; 0 with SQLite",
  );
  readonly busHealthy = this.#gauge("svc_bus_healthy", "1 while this node reaches the others, 0 while Redis is away");
  readonly jobsWaiting = this.#gauge("svc_jobs_waiting", "Jobs in the queue; scheduled ones wait for their time", [
    "state",
  ]);

  /** `collectMs` is the longest wait for one gauge at a scrape, well within the 10 s that Prometheus waits for all. */
  constructor(collectMs = 3000) {
    this.#collectMs = collectMs;
  }

  /** Sets a gauge freshly at each scrape. One that cannot be read now has no value, and the others are there all the same. */
  onScrape(gauge: Gauge<string>, collect: (gauge: Gauge<string>) => void | Promise<void>): void {
    const isRead = async (): Promise<boolean> => {
      try {
        await collect(gauge);
        return true;
      } catch {
        return false;
      }
    };
    (gauge as unknown as { collect: () => Promise<void> }).collect = async () => {
      if (!await inTime(isRead(), this.#collectMs)) gauge.reset();
    };
  }

  #counter<Label extends string>(name: string, help: string, labelNames: Label[] = []): Counter<Label> {
    return new Counter({ name, help, labelNames, registers: [this.registry] });
  }

  #gauge<Label extends string>(name: string, help: string, labelNames: Label[] = []): Gauge<Label> {
    return new Gauge({ name, help, labelNames, registers: [this.registry] });
  }

  #histogram<Label extends string>(
    name: string,
    help: string,
    buckets: number[],
    labelNames: Label[] = [],
  ): Histogram<Label> {
    return new Histogram({ name, help, buckets, labelNames, registers: [this.registry] });
  }
}
