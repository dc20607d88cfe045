// Times as they are written.
import assert from "node:assert/strict";
import { iso } from "@/core/clock.ts";

Deno.test("iso writes years of four digits only, so that times as text are in the order of time", () => {
  assert.equal(iso(Date.parse("2026-03-01T12:00:00Z")), "2026-03-01T12:00:00.000Z");
  const last = Date.parse("9999-12-31T23:59:59.999Z");
  assert.equal(iso(last + 1), iso(last));
  assert.equal(iso(8.64e15 + 1), iso(last));
  assert.equal(iso(-8.64e15), "0000-01-01T00:00:00.000Z");
});
