// Names are rejected in every operation if they are invisible or confusable.
import assert from "node:assert/strict";
import type { Operation } from "@/core/operation.ts";
import { sanitizeName } from "@/core/text/name_rules.ts";
import { openGateway } from "../harness.ts";
import { acceptsValue, callOperation, exampleOf } from "../operation_request.ts";
import { replace } from "../replace.ts";
import { createCallers, createRoom, ok } from "./fixtures.ts";

/** What is wrong with a name, and the word by which the response says so. */
const WRONG: readonly (readonly [string, RegExp])[] = [
  ["\u200b", /invisible|visible/],
  ["\u200d\u200d", /invisible|visible/],
  ["\u3164", /visible/],
  ["\u2800 \u2800", /visible/],
  ["\u0301", /visible/],
  ["one\ntwo", /single line/],
  ["one\u2028two", /single line/],
  ["bell\u0007", /single line/],
  ["admin\u202egnp", /bidirectional/],
  ["\u2066admin\u2069", /bidirectional/],
  ["al\u200bice", /invisible/],
  ["al\u200dice", /invisible/],
  ["al\ufeffice", /invisible/],
];
const RIGHT = ["Ann", "日本語", "👩‍👩‍👧 Müller", "می‌خواهم", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "❤️‍🔥"];
/** Fields that hold a name, in whatever operation. */
const NAMES = ["name", "displayName", "title", "topic", "labels"];
/** Fields of the same words that are no names: file names that are searched, and identifiers of a few ASCII characters. */
const NO_NAME = /^(?:event\.import|command\.\w+|slash_command\.\w+|skill\.\w+)\.name$/;

Deno.test("every operation rejects a name that is invisible or confusable, and says why", async () => {
  await using gateway = await openGateway();
  const boss = await gateway.as("boss", { role: "owner" });
  const seen = new Set<string>();
  for (const operation of gateway.app.operations.values()) {
    if (operation.http.method === "GET") continue;
    for (const field of NAMES.filter((name) => isText(operation, name))) {
      if (NO_NAME.test(`${operation.name}.${field}`)) continue;
      seen.add(`${operation.name}.${field}`);
      for (const [name, says] of WRONG) {
        const value = field === "labels" ? [name] : name;
        const answer = await callOperation(boss, operation, { ...exampleOf(operation), [field]: value });
        assert.equal(answer.status, 422, `${operation.name} ${field} ${escape(name)}`);
        assert.match(JSON.stringify(answer.body.errors), says, `${operation.name} ${field} ${escape(name)}`);
      }
      for (const name of RIGHT) assert.ok(acceptsValue(operation, field, field === "labels" ? [name] : name), name);
    }
  }
  for (const one of ["room.create.name", "me.update.displayName", "task.create.title", "document.update.title"]) {
    assert.ok(seen.has(one), [...seen].join());
  }
});

Deno.test("of a text that is far too long for a name, little is composed, in every operation", async () => {
  await using gateway = await openGateway();
  const marks = "a" + "\u0301\u0323".repeat(3000);
  const { normalize } = String.prototype;
  let longest = 0;
  using _replaced = replace(String.prototype, "normalize", function (this: string, form?: string): string {
    longest = Math.max(longest, this.length);
    return normalize.call(this, form);
  });
  for (const operation of gateway.app.operations.values()) {
    for (const field of NAMES.filter((name) => isText(operation, name))) {
      assert.ok(NO_NAME.test(`${operation.name}.${field}`) || !acceptsValue(operation, field, marks), operation.name);
    }
  }
  sanitizeName(marks);
  assert.ok(longest > 0 && longest <= 2000, `${longest}`);
});

Deno.test("names are stored in composed form", async () => {
  await using gateway = await openGateway();
  const { alice } = await createCallers(gateway, "alice");
  const id = await createRoom(alice, [], { name: " Cafe\u0301 " });
  assert.equal(ok(await alice.get(`/v1/rooms/${id}`)).name, "Caf\u00e9");
});

Deno.test("the name in a token is sanitized, and replaced by the sub if nothing remains", async () => {
  await using gateway = await openGateway();
  for (const [name, shown] of [["Eve\u202e\n Adams", "Eve Adams"], ["\u200b\u200d", "eve"]] as const) {
    const eve = await gateway.as("eve", { name, tenant: `t${shown.length}` });
    assert.equal(ok(await eve.get("/v1/collaboration/me")).principal?.displayName, shown);
  }
});

Deno.test("tidyName leaves out what no name has, and keeps every name that is fine", () => {
  for (const [name] of WRONG) {
    assert.ok(!/[\u200b\u200d\u202e\u2066\ufeff\n\u2028]/.test(sanitizeName(name)), escape(name));
  }
  for (const name of RIGHT) assert.equal(sanitizeName(name), name.normalize("NFC"));
});

function isText(operation: Operation, field: string): boolean {
  return acceptsValue(operation, field, field === "labels" ? ["a"] : "a");
}
