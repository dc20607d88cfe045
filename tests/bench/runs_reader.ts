// What a benchmark compares runs with, as a process of its own: it reads as many streams of the same model by the same provider
// package, and does nothing with them.
import { createOutbound } from "@/adapters/outbound/http.ts";
import { AiSdkModels } from "@/adapters/model/ai_sdk_models.ts";

const [url = "", count = "1"] = Deno.args;
const models = new AiSdkModels(createOutbound({ allow: ["127.0.0.1"] }));
const endpoint = { kind: "openai", baseUrl: url, apiKey: undefined, model: "speaker" } as const;
const request = { messages: [{ role: "user", text: "Speak" }], maxOutputTokens: 100_000 } as const;
const { signal } = new AbortController();

/** Again and again: what the model says ends. */
async function read(onFirst: () => void): Promise<void> {
  for (;;) {
    const parts = models.step(endpoint, request, { signal });
    while (!(await parts.next()).done) onFirst();
  }
}

await Promise.all(Array.from({ length: Number(count) }, () => new Promise<void>((resolve) => void read(resolve))));
// Its parent process waits for this port.
Deno.serve({ port: Number(Deno.env.get("PORT")), hostname: "127.0.0.1", onListen() {} }, () => new Response());
