// What the idempotency ledger does on every store.
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { randomBytes } from "node:crypto";
import { IdempotencyLedger } from "@/adapters/idempotency.ts";
import type { IdempotencyScope, StoredAnswer } from "@/core/idempotency.ts";
import { Seal } from "@/core/seal.ts";
import type { Store } from "@/ports/store.ts";
import type { CoreTables } from "@/adapters/core_tables.ts";
import type { Backend, Opened } from "./store_backends.ts";
import { draft, note, onStore } from "./store_suite.ts";

const scope: IdempotencyScope = {
  tenantId: "acme",
  principalId: "alice",
  method: "POST",
  path: "/v1/notes",
  key: "k1",
};
const created: StoredAnswer = { status: 201, headers: { location: "/v1/notes/1" }, body: `{"id":"1"}` };

const SECRET = new TextEncoder().encode("a secret only for tests");

function ledgerOf({ store, clock }: Opened, on = store): IdempotencyLedger {
  const seal = new Seal([SECRET], "idempotency");
  return new IdempotencyLedger({ store: on as unknown as Store<CoreTables>, clock, seal });
}

export function idempotencySuite(backend: Backend): void {
  const on = (name: string, run: (opened: Opened) => Promise<void>): void => onStore(backend, name, run);

  /** Makes one note through the door an operation would use. */
  const makeNote = ({ store }: Opened, answer = created) => async (): Promise<StoredAnswer> => {
    await store.write(async (tx) => {
      await tx.insertMany("note", [note(crypto.randomUUID())]);
      await tx.emit(draft("room:1"));
    });
    return answer;
  };
  const noteCount = async ({ store }: Opened): Promise<number> =>
    (await store.db.selectFrom("note").select("id").execute()).length;

  on("a key's first answer is given again, and its effect happens once", async (opened) => {
    const ledger = ledgerOf(opened);
    const first = await ledger.runOnce(scope, "f", makeNote(opened));
    assert.deepEqual(first, { answer: created, isReplay: false });
    assert.deepEqual(await ledger.runOnce(scope, "f", makeNote(opened)), { answer: created, isReplay: true });
    assert.equal(await noteCount(opened), 1);
    const other = await ledger.runOnce({ ...scope, principalId: "bob" }, "f", makeNote(opened));
    assert.equal(other.isReplay, false);
  });

  on("a key used with another request is refused", async (opened) => {
    const ledger = ledgerOf(opened);
    await ledger.runOnce(scope, "f", makeNote(opened));
    await assert.rejects(ledger.runOnce(scope, "g", makeNote(opened)), { code: "idempotency_key_reused" });
    assert.equal(await noteCount(opened), 1);
  });

  on("50 requests with one key at once have one effect", async (opened) => {
    const ledger = ledgerOf(opened);
    const outcomes = await Promise.allSettled(
      Array.from({ length: 50 }, () => ledger.runOnce(scope, "f", makeNote(opened))),
    );
    for (const outcome of outcomes) {
      if (outcome.status === "rejected") assert.equal(outcome.reason.code, "idempotency_in_flight");
      else assert.deepEqual(outcome.value.answer, created);
    }
    assert.equal(outcomes.filter((outcome) => outcome.status === "fulfilled" && !outcome.value.isReplay).length, 1);
    assert.equal(await noteCount(opened), 1);
    assert.equal((await opened.store.log.position("acme", "room:1")).head, 1);
  });

  on("an answer of 500 is not kept and its effects are undone", async (opened) => {
    const ledger = ledgerOf(opened);
    const failed: StoredAnswer = { status: 503, headers: {}, body: null };
    assert.deepEqual(await ledger.runOnce(scope, "f", makeNote(opened, failed)), { answer: failed, isReplay: false });
    assert.equal(await noteCount(opened), 0);
    assert.equal((await ledger.runOnce(scope, "f", makeNote(opened))).isReplay, false);
    assert.equal(await noteCount(opened), 1);
  });

  on("a refusal is kept, a work that throws is not", async (opened) => {
    const ledger = ledgerOf(opened);
    const refused: StoredAnswer = { status: 409, headers: {}, body: "{}" };
    await ledger.runOnce(scope, "f", () => Promise.resolve(refused));
    assert.deepEqual(await ledger.runOnce(scope, "f", makeNote(opened)), { answer: refused, isReplay: true });
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
    const ledger = ledgerOf(opened);
    const path = `/v1/notes/${randomBytes(3000).toString("hex")}`;
    const refused: StoredAnswer = { status: 404, headers: {}, body: "{}" };
    const once = (end: string) => ledger.runOnce({ ...scope, path: path + end }, "f", () => Promise.resolve(refused));
    assert.deepEqual(await once("a"), { answer: refused, isReplay: false });
    assert.deepEqual(await once("a"), { answer: refused, isReplay: true });
    assert.equal((await once("b")).isReplay, false);
  });

  on("keys are forgotten after a day", async (opened) => {
    const ledger = ledgerOf(opened);
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
    const secret: StoredAnswer = { status: 201, headers: {}, body: `{"token":"shown once"}` };
    const once = (ledger: IdempotencyLedger): ReturnType<IdempotencyLedger["runOnce"]> =>
      ledger.runOnce(scope, "f", () => Promise.resolve(secret), true);
    await once(ledgerOf(opened));
    assert.deepEqual(await once(ledgerOf(opened)), { answer: secret, isReplay: true });
    const { body } = await core.db.selectFrom("idempotency").select("body").executeTakeFirstOrThrow();
    assert.doesNotMatch(Buffer.from(body ?? "", "base64url").toString("latin1") + body, /shown once/);
    const next = new TextEncoder().encode("the secret after that");
    const of = (secrets: Uint8Array[]): IdempotencyLedger =>
      new IdempotencyLedger({ store: core, clock, seal: new Seal(secrets, "idempotency") });
    assert.equal((await once(of([next, SECRET]))).isReplay, true);
    await assert.rejects(once(of([next])), { code: "conflict" });
  });

  if (!backend.isShared) return;

  on("two nodes with one key at once have one effect", async (opened) => {
    const other = opened.another();
    const ledgers = [ledgerOf(opened), ledgerOf(opened, other)];
    const outcomes = await Promise.all(
      ledgers.map((ledger, index) =>
        ledger.runOnce(scope, "f", makeNote({ ...opened, store: index === 0 ? opened.store : other }))
      ),
    );
    await other.close();
    assert.deepEqual(outcomes.map((outcome) => outcome.answer), [created, created]);
    assert.equal(outcomes.filter((outcome) => outcome.isReplay).length, 1);
    assert.equal(await noteCount(opened), 1);
  });
}
