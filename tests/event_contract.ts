// The contract gate of events: whatever is committed must be of a type that its module declares, for that kind of stream.
import assert from "node:assert/strict";
import type { App } from "@/app.ts";
import { appearsOn, type EventType, type StoredEvent } from "@/core/event/event.ts";

/** Listens to the commits of an app. What it finds is thrown later: a commit is no place to fail. */
export class EventContract {
  readonly #types: ReadonlyMap<string, EventType>;
  readonly #violations: string[] = [];

  constructor({ modules, store }: App) {
    this.#types = new Map(modules.flatMap((module) => module.events ?? []).map((type) => [type.type, type]));
    const { onCommit } = store;
    store.onCommit = (committed) => {
      for (const event of committed.events) this.#check(event);
      return onCommit(committed);
    };
  }

  /** Throws when an event was not as declared. */
  assertNoViolations(): void {
    const faults = this.#violations.splice(0);
    if (faults.length > 0) throw new Error(`events are not as their modules declare them:\n${faults.join("\n")}`);
  }

  #check({ stream, type, json }: StoredEvent): void {
    const kind = stream.slice(0, stream.indexOf(":"));
    const name = `${type} on ${kind}:`;
    const declared = this.#types.get(type);
    if (declared === undefined || !appearsOn(declared, kind)) {
      this.#violations.push(`${name} no module declares it`);
      return;
    }
    const { data } = JSON.parse(json);
    const parsed = declared.data.safeParse(data);
    if (!parsed.success) {
      this.#violations.push(...parsed.error.issues.map(({ path, message }) => `${name} ${path.join(".")}: ${message}`));
      return;
    }
    // Parsing drops what the schema does not name, so a difference is a field that is not documented.
    try {
      assert.deepEqual(data, JSON.parse(JSON.stringify(parsed.data)));
    } catch (thrown) {
      this.#violations.push(
        `${name} holds what its schema does not: ${thrown instanceof Error ? thrown.message : thrown}`,
      );
    }
  }
}
