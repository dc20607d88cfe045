// Reads answer the same on both engines: every GET of `/openapi.json` over the same small world, with each of its parameters,
// with each two of them, and page by page. New reads and parameters are in it by themselves.
import assert from "node:assert/strict";
import { queryInChunks } from "@/core/page.ts";
import { testOnPostgres } from "../engines.ts";
import { type ApiResponse, type Caller, type Harness, openGateway } from "../harness.ts";
import { until } from "../wait.ts";
import { completeAnswer, ok } from "./fixtures.ts";

const V = "/v1/collaboration";
const PEOPLE = {
  Zoe: { role: "owner", name: "Zoe" },
  bob: { name: "Ärger_100%" },
  "carol.x": { name: "carol" },
  guest: { role: "guest", name: "Guest" },
  bot: { kind: "agent", owner: "bob", name: "Bot" },
} as const;
/** Letters, wildcards, quotes, and what engines fold differently. */
const TEXTS = ["report", "REPORT", "ä", "Ä", "%", "_", "\\", "'", '"', "ß", "İ", "Σ", "日本", "re*"];
const NUMBERS = ["0", "1", "2147483648", "9007199254740991"];
const TIMES = ["2026-03-01T12:00:02.000Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999Z"];
const RANGE = { from: "2026-03-01T00:00:00Z", to: "2026-04-01T00:00:00Z" };
/** Bytes that are of each gateway's own, and a socket. */
const NOT_COMPARED = new Set([
  // The engines write the same rows in statements of their own, whose bytes are counted.
  "usage.read",
  "document.read_yjs",
  "document.sync",
  "export.download",
  // Each reading adds an entry, with a hash of its own.
  "audit.list",
  "audit.export",
  "audit.verify",
]);

testOnPostgres("every read returns the same as on SQLite", async (environment) => {
  await using one = await openGateway();
  await using other = await openGateway(environment);
  const worlds = [await Dataset.create(one), await Dataset.create(other)] as const;
  const questions = new Map<string, { who: Name; path: Path }>();
  const turns: { who: Name; path: Path }[] = [];
  const ask = (who: Name, path: Path): void => {
    questions.set(`${who} GET ${path(worlds[0])}`, { who, path });
  };

  async function answersTo(who: Name, path: Path): Promise<string[]> {
    return await Promise.all(worlds.map(async (world) => {
      const { status, body } = await world.read(who, path(world));
      assert.ok(status < 500, `${who} GET ${path(world)}: ${status} ${JSON.stringify(body)}`);
      return world.seen(`${status} ${JSON.stringify(body, withoutOwn)}`);
    }));
  }

  /** Pages of one row are the rows of one page. */
  async function turn(who: Name, path: Path): Promise<void> {
    for (const world of worlds) {
      const at = (query: string) => world.read(who, `${path(world)}${path(world).includes("?") ? "&" : "?"}${query}`);
      const whole = await at("limit=40");
      if (whole.status !== 200) continue;
      const rows: unknown[] = [];
      for (let cursor = ""; cursor !== "none";) {
        const { items, nextCursor } = ok(await at(`limit=1${cursor}`));
        rows.push(...items);
        cursor = nextCursor === null || rows.length === 40 ? "none" : `&cursor=${nextCursor}`;
      }
      assert.deepEqual(rows, whole.body.items, `${who} GET ${path(world)}`);
    }
  }

  const { body: document } = await one.withToken(undefined).get("/openapi.json");
  for (const [template, { get }] of Object.entries<DescribedOperation>(document.paths)) {
    if (get === undefined || NOT_COMPARED.has(get.operationId) || !template.startsWith("/v1/")) continue;
    const parameters = (get.parameters ?? []).filter((parameter) => parameter.in === "query");
    const needed = parameters.filter((parameter) => parameter.required).map(({ name, schema }): Parameter => [
      name,
      name in RANGE
        ? () => RANGE[name as keyof typeof RANGE]
        : valuesOf(get.operationId, name, schema)[0] ?? (() => ""),
    ]);
    const values = parameters.map(({ name, schema }): [string, Path[]] => [
      name,
      valuesOf(get.operationId, name, schema),
    ]);
    const isPaged = values.some(([name]) => name === "cursor");
    const bases = pathsOf(template);
    for (const base of bases) {
      for (const who of NAMES) ask(who, withQuery(base, needed));
    }
    for (const base of bases.slice(0, 1)) {
      for (const [at, [name, some]] of values.entries()) {
        for (const value of some) {
          ask("bob", withQuery(base, [...needed, [name, value]]));
          if (isPaged && name === "sort") turns.push({ who: "bob", path: withQuery(base, [...needed, [name, value]]) });
        }
        for (const [second, others] of values.slice(at + 1)) {
          // Every order with every filter; of the rest the first value, which finds something.
          const firsts = name === "sort" ? some : some.slice(0, 1);
          for (const value of firsts) {
            for (const more of second === "sort" ? others : others.slice(0, 1)) {
              ask("bob", withQuery(base, [...needed, [name, value], [second, more]]));
            }
          }
        }
      }
      if (isPaged) turns.push({ who: "bob", path: withQuery(base, needed) });
    }
  }
  for (const at of [0, 1]) ask("guest", (world) => world.feeds[at] ?? "");

  const asked = await queryInChunks(
    [...questions],
    (some) => Promise.all(some.map(async ([what, { who, path }]) => ({ what, answers: await answersTo(who, path) }))),
    16,
  );
  for (const { who, path } of turns) await turn(who, path);
  for (const { what, answers } of asked) {
    const [first, second] = answers.map((text, at) => worlds[at === 0 ? 0 : 1].named(text));
    assert.equal(second, first, what);
  }
});

type Name = keyof typeof PEOPLE;
const NAMES = Object.keys(PEOPLE) as Name[]; // the keys of a constant

type Path = (world: Dataset) => string;
type Parameter = [name: string, value: Path];
type Schema = { type?: string; enum?: unknown[]; const?: unknown; items?: Schema; format?: string };
type DescribedOperation = {
  get?: { operationId: string; parameters?: { name: string; in: string; required?: boolean; schema: Schema }[] };
};

/** What a parameter may be, in texts that find something first. */
function valuesOf(operation: string, name: string, schema: Schema): Path[] {
  if (["cursor", "limit", "since", "wait"].includes(name)) return name === "cursor" ? [() => "none"] : [];
  if (schema.const !== undefined) return [() => String(schema.const)];
  if (schema.type === "array") {
    const some = valuesOf(operation, name, schema.items ?? {});
    return [...some, (world) => some.slice(0, 2).map((value) => value(world)).join(",")];
  }
  if (schema.enum !== undefined) return schema.enum.map((value) => () => String(value));
  if (schema.type === "boolean") return [() => "true", () => "false"];
  if (schema.type === "integer") return NUMBERS.map((text) => () => text);
  if (name === "q" || name === "label") return TEXTS.map((text) => () => text);
  if (/^(sender|excludeSender|principal|assignee|attendee)Id$|^createdBy$|^mentions$/.test(name)) {
    return ["bob", "me", "BOB", "nobody"].map((text) => () => text);
  }
  const collection = name === "roomId" || name === "roomIds"
    ? "/v1/rooms"
    : name === "parentId"
    ? `${V}/${operation.startsWith("task") ? "tasks" : "documents"}`
    : /^(threadId|sourceMessageId|before|after|around)$/.test(name)
    ? "/v1/messages"
    : undefined;
  if (collection !== undefined) return [0, 1, 2].map((at) => (world) => world.idsCreated(collection)[at] ?? "none");
  return [...TIMES, "none"].map((text) => () => text);
}

/** A path with what was made of each kind, and with what was not. */
function pathsOf(template: string): Path[] {
  const collection = template.slice(0, template.indexOf("/{"));
  if (!template.includes("{")) return [() => template];
  if (collection.endsWith("principals")) {
    return [...NAMES, "none"].map((name) => () => template.replace(/\{\w+\}/, name));
  }
  return [0, 1, 2, 3, 4, 5].map((at) => (world) =>
    template.replace(/\{\w+\}/, world.idsCreated(collection)[at] ?? "none").replace(/\{\w+\}/, "1")
  );
}

function withQuery(path: Path, given: readonly Parameter[]): Path {
  return (world) => {
    const query = new URLSearchParams();
    for (const [name, value] of given) query.set(name, value(world));
    return `${path(world)}${query.size === 0 ? "" : `?${query}`}`;
  };
}

/** What is each gateway's own. The random client id of one document in 64 is a byte shorter, and so is its export. */
function withoutOwn(this: unknown, name: string, value: unknown): unknown {
  if (name === "size" && Object.hasOwn(Object(this), "requestedBy")) return "own";
  return /^(requestId|instance|nextCursor|epoch|cursor|generation|tookMs|update)$/.test(name) && value !== null
    ? "own"
    : value;
}

const ID = /\b[a-z]+_[0-9a-f]{32}\b/g;

/** A team and what it made, in an order that is the same everywhere. */
class Dataset {
  readonly feeds: string[] = [];
  readonly #gateway: Harness;
  readonly #callers = new Map<Name, Caller>();
  readonly #created = new Map<string, string[]>();
  readonly #ids = new Set<string>();
  #names: ReadonlyMap<string, string> | undefined;

  constructor(gateway: Harness) {
    this.#gateway = gateway;
  }

  static async create(gateway: Harness): Promise<Dataset> {
    const world = new Dataset(gateway);
    for (const name of NAMES) {
      const caller = await gateway.as(name, PEOPLE[name]);
      ok(await caller.get(`${V}/me`));
      world.#callers.set(name, caller);
    }
    await world.#fill();
    // Messages are indexed a moment after they were sent.
    await until(async () => ok(await world.as("Zoe").get(`${V}/search/status`)).pendingRoomCount === 0, "the index");
    return world;
  }

  as(name: Name): Caller {
    const caller = this.#callers.get(name);
    assert.ok(caller, name);
    return caller;
  }

  /** A response that does not depend on how busy the machine is. */
  async read(who: Name, path: string): Promise<ApiResponse> {
    const get = () => this.as(who).get(path);
    return path.startsWith("/v1/search?") ? await completeAnswer(get) : await get();
  }

  /** Ids of what was made by POST to this path. */
  idsCreated(path: string): string[] {
    return this.#created.get(path) ?? [];
  }

  /** Remembers the ids in a text. */
  seen(text: string): string {
    for (const [id] of text.matchAll(ID)) this.#ids.add(id);
    return text;
  }

  /** The text with ids as the numbers of those seen, which are in the order in which they were made. */
  named(text: string): string {
    this.#names ??= new Map([...this.#ids].sort().map((id, at) => [id, `${id.slice(0, id.indexOf("_"))} ${at}`]));
    return text.replaceAll(ID, (id) => this.#names?.get(id) ?? id);
  }

  async #make(who: Name, path: string, body: unknown): Promise<ApiResponse["body"]> {
    const made = ok(await this.as(who).post(path, body));
    this.#created.set(path, [...this.idsCreated(path), made.id]);
    await this.#settle();
    return made;
  }

  async #do(who: Name, method: string, path: string, body?: unknown): Promise<void> {
    ok(await this.as(who).call(method, path, body));
    await this.#settle();
  }

  /** One step after the other, at times that differ. */
  async #settle(): Promise<void> {
    await this.#gateway.runJobs();
    this.#gateway.clock.advance(500);
  }

  async #fill(): Promise<void> {
    const memberIds = ["bob", "carol.x", "guest", "bot"];
    const { id: roomId } = await this.#make("Zoe", "/v1/rooms", { name: "Zulu", visibility: "public", memberIds });
    await this.#make("bob", "/v1/rooms", { name: "ärger_100%", visibility: "public", memberIds: ["Zoe"] });
    await this.#make("bob", "/v1/rooms", { kind: "direct", memberIds: ["Zoe"] });
    const { id: old } = await this.#make("Zoe", "/v1/rooms", { name: "alpha report", memberIds: ["bob"] });
    const { id: gone } = await this.#make("Zoe", "/v1/rooms", { name: "Alpha", memberIds: ["bob"] });
    await this.#do("Zoe", "DELETE", `/v1/rooms/${roomId}/members/carol.x?ban=true`);
    await this.#talk(roomId);
    await this.#plan(roomId);
    await this.#write(roomId);
    await this.#do("Zoe", "PATCH", `/v1/rooms/${old}`, { state: "archived" });
    await this.#do("Zoe", "DELETE", `/v1/rooms/${gone}`);
    await this.#make("Zoe", `${V}/exports`, { kind: "room", roomId });
    await this.#make("Zoe", `${V}/imports`, { kind: "slack" });
    await this.#make("bob", `${V}/tokens`, { name: "laptop", scopes: ["*"] });
  }

  async #talk(roomId: string): Promise<void> {
    const say = (who: Name, text: string, more = {}): Promise<ApiResponse["body"]> =>
      this.#make(who, "/v1/messages", { roomId, text, ...more });
    const { id: threadId } = await say("bob", "Report_1 of Ärger 100% https://example.com");
    await say("guest", "an answer", { threadId, replyToId: threadId, mentions: { principalIds: ["bob"] } });
    await say("bot", "日本語 report", { mentions: { room: true } });
    const { id: gone } = await say("Zoe", "gone report");
    await this.#make("bob", "/v1/messages", { roomId: this.idsCreated("/v1/rooms")[2], text: "a direct report" });
    for (const [who, key] of [["Zoe", "👍"], ["bob", ":a_b:"], ["guest", "👍"]] as const) {
      await this.#do(who, "PUT", `/v1/messages/${threadId}/reactions/${encodeURIComponent(key)}`);
    }
    await this.#do("Zoe", "PUT", `/v1/messages/${threadId}/pin`);
    await this.#do("bob", "PATCH", `/v1/messages/${threadId}`, { text: "Report_2 of Ärger 100% https://example.com" });
    await this.#do("Zoe", "DELETE", `/v1/messages/${gone}`);
    const { id: later } = ok(
      await this.as("bob").post("/v1/messages", { roomId, text: "later", sendAt: "2026-03-05T12:00:00.000Z" }),
    );
    this.#created.set("/v1/messages/scheduled", [later]);
    await this.#do("bob", "PUT", `/v1/rooms/${roomId}/read`, { seq: 3 });
  }

  async #plan(roomId: string): Promise<void> {
    const tasks = `${V}/tasks`;
    const { id: parentId } = await this.#make("Zoe", tasks, {
      roomId,
      title: "Zeta_1 report",
      labels: ["REPORT", "ä"],
      assigneeIds: ["bob", "guest"],
      dueAt: TIMES[0],
      sourceMessageId: this.idsCreated("/v1/messages")[0],
    });
    await this.#make("bob", tasks, { roomId, title: "alpha", parentId, status: "done", priority: "high" });
    const { id: other } = await this.#make("bob", tasks, {
      roomId,
      title: "Ärger 100%",
      priority: "low",
      labels: ["report"],
    });
    await this.#do("bob", "PUT", `${tasks}/${parentId}/relations/blocks/${other}`);
    await this.#do("bob", "PATCH", `${tasks}/${other}`, { dueAt: "2026-03-09T12:00:00.000Z" });
    const { id: gone } = await this.#make("bob", tasks, { roomId, title: "gone" });
    await this.#do("bob", "DELETE", `${tasks}/${gone}`);

    const events = `${V}/calendar/events`;
    const start = { dateTime: "2026-03-02T09:00:00", timeZone: "Europe/Vienna" };
    const { id: series } = await this.#make("Zoe", events, {
      roomId,
      title: "Stand-up report",
      start,
      durationMinutes: 15,
      rrule: "FREQ=WEEKLY;BYDAY=MO,WE",
      attendees: [{ principalId: "bob" }, { principalId: "guest" }, { email: "x@example.com" }],
    });
    await this.#do("Zoe", "PATCH", `${events}/${series}`, {
      scope: "this",
      occurrence: "2026-03-04T09:00:00",
      title: "moved",
    });
    await this.#make("bob", events, { title: "own", start: { date: "2026-03-05" }, end: { date: "2026-03-07" } });
    for (const input of [{}, { roomId }]) {
      this.feeds.push((await this.#make("bob", `${V}/calendar/feeds`, input)).path);
    }

    const meetings = `${V}/meetings`;
    const { id: meeting } = await this.#make("bob", meetings, { roomId, title: "Weekly" });
    await this.#do("bob", "POST", `${meetings}/${meeting}/join`, {});
    const segments = [2, 1].map((n) => ({ startMs: n, endMs: 9, speakerId: "bob", text: `word ${n}` }));
    await this.#do("bob", "POST", `${meetings}/${meeting}/transcript`, { segments });
  }

  async #write(roomId: string): Promise<void> {
    const documents = `${V}/documents`;
    const { id } = await this.#make("bob", documents, { roomId, title: "Zebra", text: "# Report_1\n" });
    await this.#make("bob", documents, { roomId, title: "ärger 100%", text: "child", parentId: id });
    const { id: own } = await this.#make("bob", documents, { title: "Apple report", text: "own" });
    const { id: gone } = await this.#make("bob", documents, { roomId, title: "apple", text: "gone" });
    await this.#do("bob", "PUT", `${documents}/${own}/access/guest`, { role: "reader" });
    await this.#do("Zoe", "PUT", `${documents}/${id}/content`, { text: "# Report_2\n", revision: 1 });
    await this.#make("guest", `${documents}/${id}/comments`, { text: "Why?" });
    await this.#do("bob", "DELETE", `${documents}/${gone}`);
  }
}
