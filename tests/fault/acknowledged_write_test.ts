// `kill -9` in a loop while everything that can be made is made, changed and deleted: what was acknowledged is there as the
// last answer said it is, nothing is there twice, and files, their rows and the tenant's count of bytes agree.
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { DAY_MS } from "@/core/time/clock.ts";
import { listFiles } from "../modules/file/file_harness.ts";
import { eventually, pause } from "../wait.ts";
import { Cluster, type NodeResponse } from "./cluster.ts";

const KILLS = 3;
/** Writes that have to be acknowledged between two kills. */
const ACKNOWLEDGED = 30;
const API = "/v1/collaboration";
const START = { dateTime: "2027-03-01T09:00:00", timeZone: "Europe/Vienna" };
/** Far from when the test ends, and the same in each attempt of a request. */
const LATER = new Date(Date.now() + 30 * DAY_MS).toISOString();

/** How a resource is created with a mark in a column, and how it is changed, if it can be. */
type ResourceKind = {
  path: string;
  column: `${string}.${string}`;
  create(mark: string, roomId: string): unknown;
  update?(mark: string): unknown;
};

const KINDS: readonly ResourceKind[] = [
  { path: "/v1/rooms", column: "room.name", create: (name) => ({ name }), update: (topic) => ({ topic }) },
  {
    path: "/v1/messages",
    column: "message.text",
    create: (text, roomId) => ({ roomId, text }),
    update: (mark) => ({ text: `${mark}, edited` }),
  },
  {
    path: "/v1/messages/scheduled",
    column: "scheduled_message.message_json",
    create: (text, roomId) => ({ roomId, text, sendAt: LATER }),
  },
  {
    path: `${API}/documents`,
    column: "document.title",
    create: (title, roomId) => ({ roomId, title, text: title }),
    update: (mark) => ({ metadata: { mark } }),
  },
  {
    path: `${API}/tasks`,
    column: "task.title",
    create: (title, roomId) => ({ roomId, title }),
    update: () => ({ status: "done" }),
  },
  {
    path: `${API}/calendar/events`,
    column: "calendar_event.title",
    create: (title, roomId) => ({ roomId, title, start: START, rrule: "FREQ=DAILY;COUNT=9" }),
    update: (description) => ({ description }),
  },
  {
    path: `${API}/meetings`,
    column: "meeting.title",
    create: (title, roomId) => ({ roomId, title, scheduledFor: LATER }),
    update: () => ({ locked: true }),
  },
  { path: `${API}/calendar/feeds`, column: "calendar_feed.name", create: (name) => ({ name }) },
  { path: `${API}/tokens`, column: "api_token.name", create: (name) => ({ name, scopes: ["room.read"] }) },
  { path: `${API}/files`, column: "file.name", create: (mark) => new TextEncoder().encode(`${mark} `.repeat(2000)) },
];

/** What must exist of one resource: the last response about it; `undefined` once it was deleted. */
type AcknowledgedWrite = { kind: ResourceKind; mark: string; id: string; last: NodeResponse["body"] | undefined };

Deno.test(`kill -9, ${KILLS} times while everything is written, loses and doubles nothing of any kind`, async () => {
  await using cluster = await Cluster.openSingle();
  const roomId = await cluster.createRoom(["ann"]);
  const token = await cluster.token("ann");
  const told: AcknowledgedWrite[] = [];
  let acknowledged = 0;
  let isOn = true;

  /** One write, again with the same key until it is answered. */
  async function write(
    method: string,
    path: string,
    body?: unknown,
    key: string = crypto.randomUUID(),
  ): Promise<NodeResponse> {
    const type = body instanceof Uint8Array ? "text/plain" : "application/json";
    const headers = { authorization: `Bearer ${token}`, "idempotency-key": key, "content-type": type };
    const content = body instanceof Uint8Array ? body as Uint8Array<ArrayBuffer> : JSON.stringify(body) ?? null;
    return await eventually(async () => {
      const response = await fetch(cluster.node(0).url + path, { method, headers, body: content });
      const text = await response.text();
      assert.ok(response.status < 500 && !text.includes("idempotency_in_flight"), text);
      acknowledged++;
      return { status: response.status, body: text === "" ? undefined : JSON.parse(text) };
    });
  }

  async function keepWriting(kind: ResourceKind, at: number): Promise<void> {
    for (let count = 0; isOn; count++) {
      const mark = `mark-${at}-${count}.`;
      const path = kind.path.replace("/scheduled", "") + (kind.path.endsWith("/files") ? `?name=${mark}txt` : "");
      const made = await write("POST", path, kind.create(mark, roomId), mark);
      assert.ok(made.status < 300, JSON.stringify(made.body));
      // As if the response had been lost.
      assert.deepEqual(await write("POST", path, kind.create(mark, roomId), mark), made);
      const one: AcknowledgedWrite = { kind, mark, id: made.body.id, last: made.body };
      told.push(one);
      if (kind.update !== undefined) {
        const changed = await write("PATCH", `${kind.path}/${one.id}`, kind.update(mark));
        assert.ok(changed.status < 300, JSON.stringify(changed.body));
        one.last = changed.body;
      }
      // A meeting is ended, not deleted.
      if (count % 2 === 1 && !kind.path.endsWith("/meetings")) {
        // The first attempt may have been the one that did it.
        const { status, body } = await write("DELETE", `${kind.path}/${one.id}`);
        assert.ok(status === 204 || status === 404 || status === 410, JSON.stringify(body));
        one.last = undefined;
      }
    }
  }

  const writing = Promise.all(KINDS.map(keepWriting));
  for (let kill = 0; kill < KILLS; kill++) {
    const target = acknowledged + ACKNOWLEDGED;
    while (acknowledged < target) await Promise.race([pause(5), writing]);
    await cluster.node(0).stop("SIGKILL");
    await cluster.node(0).start();
  }
  isOn = false;
  await writing;

  for (const one of told) await checkOne(cluster, one);
  using db = new DatabaseSync(`${cluster.folder}/gateway.db`, { readOnly: true });
  for (const { column } of KINDS) {
    const [table] = column.split(".");
    // An unfinished upload is not a file; it is deleted within a day.
    const isThere = table === "file" ? "state in ('unlinked', 'linked')" : "true";
    const sql = `select count(${column}) as n, count(distinct ${column}) as marks from ${table}
      where ${column} like '%mark-%' and ${isThere}`;
    const { n, marks } = db.prepare(sql).get() ?? {};
    assert.equal(n, marks, `some ${table} is there twice`);
  }
  // Jobs may still remove what was deleted last.
  await eventually(async () => {
    const files = db.prepare("select id, state, size from file").all();
    const contents = new Set(
      (await listFiles(`${cluster.folder}/files`)).map((path) => path.slice(path.lastIndexOf("/") + 1)),
    );
    const lost = files.filter(({ id, state }) => state !== "receiving" && !contents.has(String(id)));
    assert.deepEqual(lost, [], "contents of files are gone");
    const used = db.prepare("select sum(bytes) as bytes from file_usage").get();
    assert.equal(used?.bytes, files.reduce((sum, { size }) => sum + Number(size), 0));
  });
});

/** What is read is what the last answer said; what was deleted is not there. */
async function checkOne(cluster: Cluster, { kind, mark, id, last }: AcknowledgedWrite): Promise<void> {
  const { status, body } = await cluster.request(0, "ann", "GET", `${kind.path}/${id}`);
  // These are only read in a list; the path of a feed serves calendar programs.
  const isListed = status === 405 || kind.path.endsWith("/feeds");
  const list = isListed ? (await cluster.call(0, "ann", "GET", kind.path)).items : [body];
  const found = list.find((one: NodeResponse["body"]) => one.id === id && (one.deletedAt ?? null) === null);
  if (last === undefined) return assert.equal(found, undefined, `${kind.path} ${mark} is there after it was deleted`);
  assert.ok(found, `${kind.path} ${mark} is lost: ${status} ${JSON.stringify(body)}`);
  for (const [field, value] of Object.entries(last)) {
    if (field in found) assert.deepEqual(found[field], value, `${kind.path} ${mark}: ${field}`);
  }
}
