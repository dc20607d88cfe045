// What two tokens both allow.
import assert from "node:assert/strict";
import { type Actor, hasScope, intersectScopes, scopesOf, textOfScopes } from "@/core/actor.ts";

const SCOPES = ["*", "task.*", "task.read", "task.write", "room.*", "room.read"];
const NEEDED = ["task.read", "task.write", "room.read", "file.read"];

Deno.test("both of two tokens allow what the intersection of their scopes allows, whatever they are", () => {
  const sets: Actor["scopes"][] = [undefined];
  for (let bits = 0; bits < 2 ** SCOPES.length; bits++) {
    sets.push(new Set(SCOPES.filter((_, at) => (bits >> at & 1) === 1)));
  }
  for (const one of sets) {
    for (const other of sets) {
      const scopes = intersectScopes(one, other);
      for (const needed of NEEDED) {
        const isAllowed = hasScope({ scopes: one }, needed) && hasScope({ scopes: other }, needed);
        assert.equal(hasScope({ scopes }, needed), isAllowed, `${textOfScopes(one)} and ${textOfScopes(other)}`);
      }
    }
  }
});

Deno.test("scopes are the same after they were stored; none are not all", () => {
  for (const scopes of [undefined, new Set<string>(), new Set(["task.*", "room.read"])]) {
    assert.deepEqual(scopesOf(textOfScopes(scopes)), scopes);
  }
});
