// The documents of the API are generated in slices, with other requests in between.
// Measures the work of its thread.
import assert from "node:assert/strict";
import { openapiRoute } from "@/transport/http/openapi/document.ts";
import { WS_LIMITS } from "@/transport/shared/socket_limits.ts";
import { asyncapiRoute } from "@/transport/ws/asyncapi/document.ts";
import { eventsPageRoute } from "@/transport/ws/asyncapi/page.ts";
import { assertYields } from "../cpu_time.ts";
import { openGateway } from "../harness.ts";

Deno.test("the first request of a document of the API gives others their turn", async () => {
  await using gateway = await openGateway();
  const { modules } = gateway.app;
  const operations = [...gateway.app.operations.values()];
  const source = { modules, version: "1.0.0", limits: WS_LIMITS };
  for (
    const create of [
      () => openapiRoute({ operations, routes: [], tags: {}, version: "1.0.0" }),
      () => asyncapiRoute(source),
      () => eventsPageRoute(source),
    ]
  ) {
    await assertYields(async () => {
      const response = await create().handle(new Request("http://localhost/"), undefined as never);
      assert.ok((await response.text()).length > 100_000);
    });
  }
});
