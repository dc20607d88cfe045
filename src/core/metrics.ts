// Every metric family of the gateway, registered at the start under its published name.
import { Gauge, Registry } from "prom-client";
import { withTimeout } from "./time/clock.ts";
import { failureOf, logOf, rateLimitedWarning } from "./log.ts";
import { type Count, Counter, type Distribution, Histogram } from "./metric_family.ts";

const SECONDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
const AI_SECONDS = [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300];
const BYTES = [64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536];

const log = logOf("metrics");

/** One registry per gateway. Labels are route templates, operation names and codes, never ids of principals. */
export class Metrics {
  readonly registry = new Registry();
  readonly #collectTimeoutMs: number;
  readonly buildInfo = this.#gauge("svc_build_info", "Gateway package version and commit; the value is always 1", [
    "version",
    "commit",
  ]);
  readonly httpRequests = this.#counter("svc_http_requests_total", "HTTP requests received", ["method", "path"]);
  readonly httpResponses = this.#counter("svc_http_responses_total", "HTTP responses sent", [
    "method",
    "path",
    "status",
  ]);
  readonly httpLatency = this.#histogram("svc_http_latency_seconds", "HTTP request latency", SECONDS, [
    "method",
    "path",
  ]);
  readonly connectionsActive = this.#gauge("svc_connections_active", "Open WebSocket connections");
  readonly connections = this.#counter("svc_connections_total", "WebSocket connections established");
  readonly connectionErrors = this.#counter("svc_connection_errors", "Connection errors by type", ["type"]);
  readonly memoryGrowth = this.#gauge(
    "svc_memory_growth_bytes",
    "Growth of non-heap memory above its minimum of the last minute, in bytes, excluding data queued for " +
      "sockets; includes unfinished inbound WebSocket messages",
  );
  readonly poolActive = this.#gauge("svc_pool_connections_active", "Connections in the sharded pool");
  readonly poolPeak = this.#gauge(
    "svc_pool_connections_peak",
    "Peak number of connections in the sharded pool since start",
  );
  readonly poolConnections = this.#counter("svc_pool_connections_total", "Connections added to the sharded pool");
  readonly poolSent = this.#counter("svc_pool_messages_sent_total", "Broadcast messages written to sockets");
  readonly poolDropped = this.#counter(
    "svc_pool_messages_dropped_total",
    "Broadcast messages dropped because the outbox of the connection was full",
  );
  readonly commandsRefused = this.#counter(
    "svc_commands_refused_total",
    "WebSocket commands rejected with error 111, too many requests",
  );
  readonly mcpRequests = this.#counter("svc_mcp_requests_total", "Requests of the Model Context Protocol", [
    "method",
    "status",
  ]);
  readonly mcpListeners = this.#gauge("svc_mcp_listeners", "Open requests of MCP clients that listen to resources");
  readonly mcpServerCalls = this.#counter("svc_mcp_server_calls_total", "Calls of MCP servers for agents, by outcome", [
    "outcome",
  ]);
  readonly messagesReceived = this.#counter("svc_messages_received_total", "Chat messages received");
  readonly messagesSent = this.#counter("svc_messages_sent_total", "Chat messages committed and published");
  readonly messagesByType = this.#counter("svc_messages_by_type", "Chat messages committed, by type", ["type"]);
  readonly messageLatency = this.#histogram(
    "svc_message_latency_seconds",
    "Time from the start of message.send to its commit",
    SECONDS,
  );
  readonly messageSize = this.#histogram("svc_message_size_bytes", "Size of the message text", BYTES);
  readonly roomsActive = this.#gauge("svc_rooms_active", "Rooms with at least one subscriber on this node");
  readonly roomsCreated = this.#counter("svc_rooms_created_total", "Rooms created since start");
  readonly erasures = this.#counter("svc_erasures_total", "People erased, by what became of their contents", ["mode"]);
  readonly retentionDeleted = this.#counter(
    "svc_retention_deleted_total",
    "Messages, files, runs and audit entries deleted because of their age",
    ["kind"],
  );
  readonly roomMembers = this.#gauge(
    "svc_room_members",
    "Members of the 100 largest rooms; all other rooms are summed up as _other",
    ["room"],
  );
  readonly operations = this.#counter("svc_operation_throughput_total", "Successful operations", [
    "module",
    "operation",
  ]);
  readonly operationErrors = this.#counter("svc_operation_errors_total", "Failed operations", [
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
  readonly aiLatency = this.#histogram("svc_ai_latency_seconds", "AI provider latency", AI_SECONDS, [
    "provider",
    "model",
  ]);
  readonly aiFirstPart = this.#histogram(
    "svc_ai_first_part_seconds",
    "Time to the first part of a response of an AI provider",
    AI_SECONDS,
    ["provider", "model"],
  );
  readonly aiTokens = this.#counter("svc_ai_tokens_total", "AI provider tokens", ["provider", "model", "direction"]);
  readonly interactions = this.#counter(
    "svc_interactions_total",
    "Commands run, by kind of their source and outcome: the kind of response, or the code of the failure",
    ["source", "outcome"],
  );
  readonly oauthGrants = this.#counter("svc_oauth_grants_total", "Authorizations of applications, by outcome", [
    "outcome",
  ]);
  readonly aiRuns = this.#counter("svc_ai_runs_total", "Runs of agents that ended, by outcome", ["outcome"]);
  readonly aiRunsActive = this.#gauge("svc_ai_runs_active", "Runs of agents that have not ended, by state", ["state"]);
  readonly outboundCalls = this.#counter(
    "svc_outbound_calls_total",
    "HTTP calls that left the gateway, by outcome: responded, cancelled, or why there was no response",
    ["outcome"],
  );
  readonly webhookDeliveries = this.#counter(
    "svc_webhook_deliveries_total",
    "Attempts to deliver events to webhooks, by outcome; parked: events refused too often",
    ["outcome"],
  );
  readonly webhookLag = this.#gauge(
    "svc_webhook_lag_seconds",
    "Age of the oldest event that waits for delivery to a webhook",
  );
  readonly pushMessages = this.#counter(
    "svc_push_messages_total",
    "Messages to push services, by outcome: delivered, ended, refused or unavailable",
    ["outcome"],
  );
  readonly vectorsStored = this.#gauge("svc_vectors_stored", "Vectors of all tenants in the database");
  readonly vectorsPending = this.#gauge("svc_vectors_pending", "Items of all tenants that wait for their vectors");
  readonly vectorFailures = this.#counter("svc_vector_embed_failures_total", "Failures of embedding, by code", [
    "code",
  ]);
  readonly vectorSearch = this.#histogram(
    "svc_vector_search_seconds",
    "Time to find the nearest vectors, without embedding the query",
    SECONDS,
  );
  readonly pluginCalls = this.#counter("svc_plugin_calls_total", "Calls of plugins", ["plugin", "kind", "outcome"]);
  readonly pluginLatency = this.#histogram("svc_plugin_latency_seconds", "Time until a plugin responded", SECONDS, [
    "plugin",
    "kind",
  ]);
  readonly pluginBreakers = this.#gauge(
    "svc_plugin_breaker_open",
    "Plugins that are not called on this node for 30 s, after failures",
  );
  readonly auditEntries = this.#gauge(
    "svc_audit_entries",
    "Entries that audit logs of all tenants ever had; falls only if the database was changed from outside",
  );
  readonly skills = this.#gauge("svc_skills_total", "Versions of skills of all tenants, by state", ["state"]);
  readonly skillReads = this.#counter("svc_skill_reads_total", "Skills and files of skills read, by people and agents");
  readonly eventLoopLag = this.#gauge(
    "svc_event_loop_lag_seconds",
    "Event loop lag: the longest timer delay since the last scrape",
  );
  readonly clockOffset = this.#gauge(
    "svc_clock_offset_seconds",
    "Offset of this host's clock from the database clock, positive if ahead; 0 with SQLite",
  );
  readonly busHealthy = this.#gauge(
    "svc_bus_healthy",
    "1 if this node is connected to the other nodes, 0 while Redis is unavailable",
  );
  readonly bytesWritten = this.#gauge("svc_written_bytes", "Bytes of rows written on behalf of principals since start");
  readonly jobsWaiting = this.#gauge("svc_jobs_waiting", "Jobs in the queue by state; scheduled jobs are not due yet", [
    "state",
  ]);
  readonly jobsInterrupted = this.#counter(
    "svc_jobs_interrupted_total",
    "Jobs found unfinished after their process ended; each is retried a few times, then dead-lettered",
    ["kind"],
  );
  readonly jobsTakenOver = this.#counter(
    "svc_jobs_taken_over_total",
    "Jobs reassigned by this node after the node that ran them stopped",
  );

  /** `collectTimeoutMs` is the longest wait for one gauge at a scrape, well within the 10 s that Prometheus waits for all. */
  constructor(collectTimeoutMs = 3000) {
    this.#collectTimeoutMs = collectTimeoutMs;
  }

  /** Sets a gauge at each scrape. One that cannot be read has no value; the others are not affected. */
  onScrape(gauge: Gauge<string>, collect: (gauge: Gauge<string>) => void | Promise<void>): void {
    const warn = rateLimitedWarning(log, "reading a gauge failed");
    const named = gauge as unknown as { name: string; collect: () => Promise<void> };
    const read = async (): Promise<true | { code: string }> => {
      try {
        await collect(gauge);
        return true;
      } catch (cause) {
        return failureOf(cause);
      }
    };
    named.collect = async () => {
      const outcome = await withTimeout(read(), this.#collectTimeoutMs) ?? { code: "timeout" };
      if (outcome === true) return;
      gauge.reset();
      warn({ name: named.name, ...outcome });
    };
  }

  /** Without labels, the one series. */
  #counter(name: string, help: string): Count;
  #counter<Label extends string>(name: string, help: string, labelNames: Label[]): Counter<Label>;
  #counter(name: string, help: string, labelNames?: string[]): Count | Counter<string> {
    const counter = new Counter<string>(this.registry, name, help, labelNames ?? []);
    return labelNames === undefined ? counter.labels({}) : counter;
  }

  #gauge<Label extends string>(name: string, help: string, labelNames: Label[] = []): Gauge<Label> {
    return new Gauge({ name, help, labelNames, registers: [this.registry] });
  }

  /** Without labels, the one series. */
  #histogram(name: string, help: string, bounds: readonly number[]): Distribution;
  #histogram<Label extends string>(
    name: string,
    help: string,
    bounds: readonly number[],
    labelNames: Label[],
  ): Histogram<Label>;
  #histogram(
    name: string,
    help: string,
    bounds: readonly number[],
    labelNames?: string[],
  ): Distribution | Histogram<string> {
    const histogram = new Histogram<string>(this.registry, name, help, { bounds, labelNames: labelNames ?? [] });
    return labelNames === undefined ? histogram.labels({}) : histogram;
  }
}
