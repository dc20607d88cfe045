// The engines that the suites of search run on: a whole gateway on each, gone when it is disposed.
import { type Harness, openGateway } from "../harness.ts";
import { temporarySchema } from "./store_backends.ts";

export type Opened = { gateway: Harness; [Symbol.asyncDispose](): Promise<void> };
export type Engine = { name: string; open(environment?: Record<string, string>): Promise<Opened> };

const url = Deno.env.get("TEST_POSTGRES_URL");

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
    const schema = await temporarySchema(url);
    const gateway = await openGateway({ ...environment, SVC_DATABASE_URL: schema.url });
    return {
      gateway,
      async [Symbol.asyncDispose]() {
        await gateway[Symbol.asyncDispose]();
        await schema.drop();
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
