// The engines for the search suites: a gateway on each, deleted when it is disposed.
import assert from "node:assert/strict";
import type { Context } from "@/core/operation.ts";
import { type Caller, type Harness, openGateway } from "../harness.ts";
import { createTemporaryDatabase } from "../temporary_database.ts";
import { postgresUrl } from "../tier.ts";
import { completeSearch } from "../modules/fixtures.ts";
import { memberOf } from "../tokens.ts";

type OpenedEngine = { gateway: Harness; [Symbol.asyncDispose](): Promise<void> };
type Engine = { name: string; open(environment?: Record<string, string>): Promise<OpenedEngine> };

const url = postgresUrl;

const sqlite: Engine = {
  name: "sqlite",
  async open(environment) {
    const gateway = await openGateway(environment);
    return { gateway, [Symbol.asyncDispose]: () => gateway[Symbol.asyncDispose]() };
  },
};

/** SQLite, and PostgreSQL where TEST_POSTGRES_URL names a server. */
export const engines: readonly Engine[] = url === undefined ? [sqlite] : [sqlite, {
  name: "postgres",
  async open(environment) {
    const database = await createTemporaryDatabase(url);
    const gateway = await openGateway({ ...environment, SVC_DATABASE_URL: database.url });
    return {
      gateway,
      async [Symbol.asyncDispose]() {
        await gateway[Symbol.asyncDispose]();
        await database.release();
      },
    };
  },
}];

/** Registers a test of search for each engine. */
export function testSearch(name: string, run: (gateway: Harness) => Promise<void>): void {
  for (const engine of engines) {
    Deno.test(`${name} (${engine.name})`, async () => {
      await using opened = await engine.open();
      await run(opened.gateway);
    });
  }
  if (url === undefined) Deno.test.ignore(`${name} (postgres: TEST_POSTGRES_URL is not set)`, () => {});
}

/** A new room of alice with these texts as messages, sent concurrently. */
export async function fillRoom(
  gateway: Harness,
  alice: Caller,
  texts: readonly string[],
): Promise<{ roomId: string; ids: string[] }> {
  const room = await alice.post("/v1/rooms", { name: "Texts" });
  assert.equal(room.status, 201);
  const roomId: string = room.body.id;
  const send = gateway.app.operations.get("message.send");
  assert.ok(send !== undefined);
  const actor = memberOf("default", "alice");
  const context: Context = { actor, requestId: "fill", access: send.access, operation: send.name, isReadOnly: false };
  const sent = await Promise.all(texts.map((text) => send.run(context, send.input.parse({ roomId, text }))));
  return { roomId, ids: sent.map((outcome) => (outcome as { output: { id: string } }).output.id) };
}

/** Waits until the index has all that the caller may search. */
export async function waitForIndex(caller: Caller): Promise<void> {
  await completeSearch(() => caller.get("/v1/search?q=ready"));
}

/** Prints a line to the output of the test. */
export function printLine(line: string): void {
  Deno.stdout.writeSync(new TextEncoder().encode(`${line}\n`));
}
