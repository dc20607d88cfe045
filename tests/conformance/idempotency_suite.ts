// What the idempotency ledger does on every store.
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { randomBytes } from "node:crypto";
import { IdempotencyStore } from "@/adapters/store/idempotency_store.ts";
import type { IdempotencyScope, StoredResponse } from "@/core/http/idempotency.ts";
import { Encryptor } from "@/core/crypto.ts";
import type { Store } from "@/ports/store.ts";
import type { CoreTables } from "@/adapters/store/core_tables.ts";
import type { Backend, OpenedStore } from "./store_backends.ts";
import { eventDraft, noteRow, testOnStore } from "./store_suite.ts";

const scope: IdempotencyScope = {
  tenantId: "acme",
  principalId: "alice",
  method: "POST",
  path: "/v1/notes",
  key: "k1",
};
const created: StoredResponse = { status: 201, headers: { location: "/v1/notes/1" }, body: `{"id":"1"}` };

const SECRET = new TextEncoder().encode("a secret only for tests");

const LIMITS = { responseMaxChars: 5000, ownerMaxChars: 12_000 };

function createIdempotencyStore({ store, clock }: OpenedStore, on = store): IdempotencyStore {
  const encryptor = new Encryptor([SECRET], "idempotency");
  return new IdempotencyStore({ store: on as unknown as Store<CoreTables>, clock, encryptor, limits: LIMITS });
}

export function idempotencySuite(backend: Backend): void {
  const on = (name: string, run: (opened: OpenedStore) => Promise<void>): void => testOnStore(backend, name, run);

  /** Creates one note as an operation does. */
  const makeNote = ({ store }: OpenedStore, answer = created) => async (): Promise<StoredResponse> => {
    await store.write(async (tx) => {
      await tx.insertMany("note", [noteRow(crypto.randomUUID())]);
      await tx.emit(eventDraft("room:1"));
    });
    return answer;
  };
  const noteCount = async ({ store }: OpenedStore): Promise<number> =>
    (await store.db.selectFrom("note").select("id").execute()).length;

  on("a key's first answer is given again, and its effect happens once", async (opened) => {
    const ledger = createIdempotencyStore(opened);
    const first = await ledger.runOnce(scope, "f", makeNote(opened));
    assert.deepEqual(first, { response: created, isReplay: false });
    assert.deepEqual(await ledger.runOnce(scope, "f", makeNote(opened)), { response: created, isReplay: true });
    assert.equal(await noteCount(opened), 1);
    const other = await ledger.runOnce({ ...scope, principalId: "bob" }, "f", makeNote(opened));
    assert.equal(other.isReplay, false);
  });

  on("a key used with another request is refused", async (opened) => {
    const ledger = createIdempotencyStore(opened);
    await ledger.runOnce(scope, "f", makeNote(opened));
    await assert.rejects(ledger.runOnce(scope, "g", makeNote(opened)), { code: "idempotency_key_reused" });
    assert.equal(await noteCount(opened), 1);
  });

  on(
    "what is too long, or one too many of its owner's, is not kept, and the key has no second effect",
    async (opened) => {
      const ledger = createIdempotencyStore(opened);
      const answerOf = (size: number): StoredResponse => ({ ...created, body: "x".repeat(size) });
      const run = (key: string, size: number, principalId = "alice") =>
        ledger.runOnce({ ...scope, principalId, key }, "f", makeNote(opened, answerOf(size)));
      assert.equal((await run("long", 5001)).response.body?.length, 5001);
      await assert.rejects(run("long", 5001), { code: "response_not_stored" });
      for (const key of ["a", "b", "c"]) assert.equal((await run(key, 5000)).isReplay, false);
      for (const key of ["a", "b"]) assert.equal((await run(key, 5000)).response.body?.length, 5000);
      await assert.rejects(run("c", 5000), { code: "response_not_stored", message: /status 201/ });
      // Small ones are always stored, and so are those of others.
      for (const isReplay of [false, true]) assert.equal((await run("small", 1000)).isReplay, isReplay);
      for (const isReplay of [false, true]) assert.equal((await run("d", 5000, "bob")).isReplay, isReplay);
      assert.equal(await noteCount(opened), 6);
      const rows = await (opened.store as unknown as Store<CoreTables>).db.selectFrom("idempotency").select("body")
        .execute();
      assert.equal(rows.reduce((sum, { body }) => sum + (body?.length ?? 0), 0), 5000 * 3 + 1000);
      opened.clock.ms += 25 * 3600 * 1000;
      for (const isReplay of [false, true]) assert.equal((await run("e", 5000)).isReplay, isReplay);
    },
  );

  on("50 requests with one key at once have one effect", async (opened) => {
    const ledger = createIdempotencyStore(opened);
    const outcomes = await Promise.allSettled(
      Array.from({ length: 50 }, () => ledger.runOnce(scope, "f", makeNote(opened))),
    );
    for (const outcome of outcomes) {
      if (outcome.status === "rejected") assert.equal(outcome.reason.code, "idempotency_in_flight");
      else assert.deepEqual(outcome.value.response, created);
    }
    assert.equal(outcomes.filter((outcome) => outcome.status === "fulfilled" && !outcome.value.isReplay).length, 1);
    assert.equal(await noteCount(opened), 1);
    assert.equal((await opened.store.log.position("acme", "room:1")).head, 1);
  });

  on("an answer of 500 is not kept and its effects are undone", async (opened) => {
    const ledger = createIdempotencyStore(opened);
    const failed: StoredResponse = { status: 503, headers: {}, body: null };
    assert.deepEqual(await ledger.runOnce(scope, "f", makeNote(opened, failed)), { response: failed, isReplay: false });
    assert.equal(await noteCount(opened), 0);
    assert.equal((await ledger.runOnce(scope, "f", makeNote(opened))).isReplay, false);
    assert.equal(await noteCount(opened), 1);
  });

  on("a refusal is kept, a work that throws is not", async (opened) => {
    const ledger = createIdempotencyStore(opened);
    const refused: StoredResponse = { status: 409, headers: {}, body: "{}" };
    await ledger.runOnce(scope, "f", () => Promise.resolve(refused));
    assert.deepEqual(await ledger.runOnce(scope, "f", makeNote(opened)), { response: refused, isReplay: true });
    const key = { ...scope, key: "k2" };
    await assert.rejects(
      ledger.runOnce(key, "f", async () => {
        await makeNote(opened)();
        throw new Error("broke");
      }),
      { message: "broke" },
    );
    assert.equal(await noteCount(opened), 0);
    assert.equal((await ledger.runOnce(key, "f", makeNote(opened))).isReplay, false);
  });

  on("a path longer than any that names something is kept as well", async (opened) => {
    const ledger = createIdempotencyStore(opened);
    const path = `/v1/notes/${randomBytes(3000).toString("hex")}`;
    const refused: StoredResponse = { status: 404, headers: {}, body: "{}" };
    const once = (end: string) => ledger.runOnce({ ...scope, path: path + end }, "f", () => Promise.resolve(refused));
    assert.deepEqual(await once("a"), { response: refused, isReplay: false });
    assert.deepEqual(await once("a"), { response: refused, isReplay: true });
    assert.equal((await once("b")).isReplay, false);
  });

  on("keys are forgotten after a day", async (opened) => {
    const ledger = createIdempotencyStore(opened);
    await ledger.runOnce(scope, "f", makeNote(opened));
    opened.clock.ms += 23 * 3600 * 1000;
    await ledger.runOnce({ ...scope, key: "k2" }, "f", makeNote(opened));
    assert.equal(await ledger.purge(), 0);
    opened.clock.ms += 2 * 3600 * 1000;
    assert.equal(await ledger.purge(), 1);
    assert.equal((await ledger.runOnce(scope, "f", makeNote(opened))).isReplay, false);
  });

  on("an answer with a secret is kept encrypted, and lost with the key", async (opened) => {
    const { store, clock } = opened;
    const core = store as unknown as Store<CoreTables>;
    const secret: StoredResponse = { status: 201, headers: {}, body: `{"token":"shown once"}` };
    const once = (ledger: IdempotencyStore): ReturnType<IdempotencyStore["runOnce"]> =>
      ledger.runOnce(scope, "f", () => Promise.resolve(secret), true);
    await once(createIdempotencyStore(opened));
    assert.deepEqual(await once(createIdempotencyStore(opened)), { response: secret, isReplay: true });
    const { body } = await core.db.selectFrom("idempotency").select("body").executeTakeFirstOrThrow();
    assert.doesNotMatch(Buffer.from(body ?? "", "base64url").toString("latin1") + body, /shown once/);
    const next = new TextEncoder().encode("the secret after that");
    const of = (secrets: Uint8Array[]): IdempotencyStore =>
      new IdempotencyStore({ store: core, clock, encryptor: new Encryptor(secrets, "idempotency"), limits: LIMITS });
    assert.equal((await once(of([next, SECRET]))).isReplay, true);
    await assert.rejects(once(of([next])), { code: "conflict" });
  });

  if (!backend.isShared) return;

  on("two nodes with one key at once have one effect", async (opened) => {
    const other = opened.openSecond();
    const ledgers = [createIdempotencyStore(opened), createIdempotencyStore(opened, other)];
    const outcomes = await Promise.all(
      ledgers.map((ledger, index) =>
        ledger.runOnce(scope, "f", makeNote({ ...opened, store: index === 0 ? opened.store : other }))
      ),
    );
    await other.close();
    assert.deepEqual(outcomes.map((outcome) => outcome.response), [created, created]);
    assert.equal(outcomes.filter((outcome) => outcome.isReplay).length, 1);
    assert.equal(await noteCount(opened), 1);
  });
}
