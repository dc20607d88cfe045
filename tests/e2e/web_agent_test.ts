// An agent on the screen: its words while it writes them, its question for an approval, and the button that stops it.
import assert from "node:assert/strict";
import { hasBrowser, launchBrowser } from "../browser.ts";
import { eventually, pause } from "../wait.ts";
import { openTarget } from "./target.ts";
import { assertNoReports, sees, signIn, write } from "./web_page.ts";

type Body = { messages: { role: string; content?: unknown }[]; tools?: { function: { name: string } }[] };

/** A provider that streams one word at a time until it is to finish, and whose first answer to "task" is to create one. */
function serveModel(mayFinish: () => boolean): Deno.HttpServer<Deno.NetAddr> {
  return Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, async (request) => {
    const { messages, tools = [] } = await request.json() as Body;
    const asked = JSON.stringify(messages.findLast(({ role }) => role === "user")?.content ?? "");
    const hasResult = messages.at(-1)?.role === "tool";
    const tool = tools.find(({ function: { name } }) => /task.?create/.test(name))?.function.name;
    const isEndless = asked.includes("forever");
    const words = hasResult ? "The task is on your board.".split(" ") : "I will look after it now.".split(" ");
    const encoder = new TextEncoder();
    const stream = new ReadableStream<Uint8Array>({
      async start(controller) {
        const send = (delta: unknown, finish: string | null = null): void =>
          controller.enqueue(encoder.encode(`data: ${
            JSON.stringify({
              id: "c1",
              object: "chat.completion.chunk",
              created: 1,
              model: "small",
              choices: [{ index: 0, delta, finish_reason: finish }],
            })
          }\n\n`));
        try {
          const isOver = (): boolean => !isEndless && (!asked.includes("hello") || mayFinish());
          for (let n = 0; n < words.length || !isOver(); n++) {
            send({ content: `${words[n % words.length]} ` });
            await pause(50);
          }
          const isTool = !hasResult && tool !== undefined && asked.includes("task");
          if (isTool) {
            const args = JSON.stringify({
              roomId: /room_[0-9a-f]{32}/.exec(JSON.stringify(messages))?.[0],
              title: "Water the plants",
            });
            send({
              tool_calls: [{ index: 0, id: "call_1", type: "function", function: { name: tool, arguments: args } }],
            });
          }
          send({}, isTool ? "tool_calls" : "stop");
          controller.enqueue(encoder.encode("data: [DONE]\n\n"));
          controller.close();
        } catch {
          // The gateway has left, as it does when a run is stopped.
        }
      },
    });
    return new Response(stream, { headers: { "content-type": "text/event-stream" } });
  });
}

Deno.test({
  name: "an agent streams its answer, asks for an approval, and can be stopped",
  ignore: !hasBrowser,
  // The browser is driven through pipes and timers that outlive single calls.
  sanitizeOps: false,
  sanitizeResources: false,
  async fn(t) {
    let mayFinish = false;
    await using model = serveModel(() => mayFinish);
    await using target = await openTarget({
      isOwn: true,
      environment: {
        SVC_AI_BASE_URL: `http://127.0.0.1:${model.addr.port}/v1`,
        SVC_AI_MODEL: "small context=64000",
        SVC_AI_ALLOW_HOSTS: "127.0.0.1",
        SVC_OUTBOUND_ALLOW: "127.0.0.1",
      },
    });
    const token = await target.token({ sub: "ada", name: "Ada", role: "owner", ttlSeconds: 36_000 });
    const post = (path: string, body: unknown) => target.call(token, "POST", path, body);
    const room = await post("/v1/rooms", { name: "Garden" });
    const agent = await post("/v1/collaboration/agents", {
      handle: "gardener",
      displayName: "Gardener",
      instructions: `The room is ${room.id}.`,
      tools: ["task.create"],
      askFirst: ["task.create"],
    });
    await target.call(token, "PUT", `/v1/rooms/${room.id}/members/${agent.id}`, {});
    const browser = await launchBrowser();
    try {
      const page = await signIn(browser, target, token);
      await page.getByRole("link", { name: /Garden/ }).click();
      await t.step("its words are on the screen before it has finished", async () => {
        await write(page, "@gardener hello");
        await page.locator(".run .text", { hasText: "I will" }).waitFor();
        mayFinish = true;
        await sees(page, "I will look after it now.");
        await page.locator(".run").waitFor({ state: "detached" });
      });
      await t.step("it asks before it creates a task, and goes on once that is approved", async () => {
        await write(page, "@gardener please create a task");
        await page.locator(".approval", { hasText: "Water the plants" }).waitFor();
        await page.getByRole("button", { name: "Approve" }).click();
        await sees(page, "The task is on your board.");
        await eventually(async () => {
          const { items } = await target.call(token, "GET", `/v1/collaboration/tasks?roomId=${room.id}`);
          assert.deepEqual(items.map(({ title }: { title: string }) => title), ["Water the plants"]);
        });
      });
      await t.step("it is stopped while it writes", async () => {
        await write(page, "@gardener talk forever");
        await page.locator(".run .text", { hasText: "I will" }).waitFor();
        await page.getByRole("button", { name: "Stop" }).click();
        await page.locator(".run").waitFor({ state: "detached" });
      });
      await assertNoReports(page);
    } finally {
      await browser.close();
    }
  },
});
