// What people write, what models say, facts and keys: none of it is in the log, also where everything fails.
import assert from "node:assert/strict";
import { AiSdkModels } from "@/adapters/model/ai_sdk_models.ts";
import { createOutbound } from "@/adapters/outbound/http.ts";
import { openGateway } from "../../harness.ts";
import { captureLog } from "../../log_capture.ts";
import { ModelServer } from "../../model_server.ts";
import { eventually } from "../../wait.ts";
import { completeSearch, createCallers, createRoom, ok, sendMessage } from "../fixtures.ts";

const BASE = "/v1/collaboration";
const KEY = "sk-swordfish";
const FAILING = ["bad-key", "error-frame", "refused", "down"];

Deno.test("neither texts nor keys are in the log, whatever the provider does", async () => {
  await using server = new ModelServer();
  const models = new AiSdkModels(createOutbound({ allow: ["127.0.0.1"] }));
  const environment = {
    SVC_AI_BASE_URL: server.url,
    SVC_AI_API_KEY: KEY,
    SVC_AI_MODEL: ["good", ...FAILING].join(","),
    SVC_AI_EMBEDDING_MODEL: "too-few",
    SVC_OUTBOUND_ALLOW: "127.0.0.1",
  };
  const records = await captureLog(["gateway"], async () => {
    await using gateway = await openGateway(environment, { models });
    const { alice } = await createCallers(gateway, "alice");
    const roomId = await createRoom(alice, []);
    const scope = { type: "room", id: roomId };
    ok(await alice.post(`${BASE}/memory/items`, { scope, text: "It is swordfish." }));
    for (const model of ["good", ...FAILING]) {
      const agent = { displayName: "Swordfish", instructions: "Say swordfish", model };
      const { id } = ok(await alice.post(`${BASE}/agents`, agent));
      ok(await alice.put(`/v1/rooms/${roomId}/members/${id}`));
      await sendMessage(alice, roomId, "swordfish?", { mentions: { principalIds: [id], room: false } });
      await eventually(async () => {
        await gateway.runJobs();
        const { items } = ok(await alice.get(`${BASE}/ai/runs?roomId=${roomId}&agentId=${id}`));
        assert.equal(items[0]?.status, model === "good" ? "succeeded" : "failed", model);
      });
    }
    await completeSearch(() => alice.get("/v1/search?q=swordfish&mode=hybrid"));
    ok(await alice.post(`${BASE}/context`, { roomId, query: "swordfish", budgetTokens: 2000 }));
  });
  const text = JSON.stringify(records.map(({ message, rawMessage, properties }) => [message, rawMessage, properties]));
  assert.match(text, /embedding failed/, "failures are in it");
  assert.match(text, /"operator","model":"refused","code":"request_refused","cause":"AI_APICallError 400"/);
  assert.doesNotMatch(text, /swordfish|SECRET/i);
});
