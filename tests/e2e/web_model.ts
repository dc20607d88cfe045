// An agent of the browser tests, and its scripted model.
import { pause } from "../wait.ts";
import type { Target } from "./target.ts";

type Body = { messages: { role: string; content?: unknown }[]; tools?: { function: { name: string } }[] };

const START = { dateTime: "2100-01-04T09:00:00", timeZone: "UTC" };

/**
 * A provider that streams one word at a time until it is to finish. Its first answer to "task" is to create one, and to "invite" an
 * event with Eve.
 */
export function serveModel(mayFinish: () => boolean = () => true): Deno.HttpServer<Deno.NetAddr> {
  return Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, async (request) => {
    const { messages, tools = [] } = await request.json() as Body;
    const asked = JSON.stringify(messages.findLast(({ role }) => role === "user")?.content ?? "");
    const hasResult = messages.at(-1)?.role === "tool";
    const isInvitation = asked.includes("invite");
    const wanted = isInvitation ? /event.?create/ : /task.?create/;
    const tool = tools.find(({ function: { name } }) => wanted.test(name))?.function.name;
    const isEndless = asked.includes("forever");
    // What it was asked in a round, it responds to with the number of that round.
    const round = [...asked.matchAll(/, round \d+/g)].at(-1)?.[0] ?? "";
    const answer = hasResult ? `The task is on your board${round}.` : "I will look after it now.";
    const words = answer.split(" ");
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
          const isTool = !hasResult && tool !== undefined && (isInvitation || asked.includes("task"));
          if (isTool) {
            const args = JSON.stringify({
              roomId: /room_[0-9a-f]{32}/.exec(JSON.stringify(messages))?.[0],
              title: `Water the plants${round}`,
              ...isInvitation ? { start: START, attendees: [{ principalId: "eve" }] } : {},
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

/** What a gateway needs to ask this model. */
export function modelSettings(model: Deno.HttpServer<Deno.NetAddr>): Record<string, string> {
  return {
    SVC_AI_BASE_URL: `http://127.0.0.1:${model.addr.port}/v1`,
    SVC_AI_MODEL: "small context=64000",
    SVC_AI_ALLOW_HOSTS: "127.0.0.1",
    SVC_OUTBOUND_ALLOW: "127.0.0.1",
  };
}

/** Adds @gardener to a room, who asks before it creates a task. */
export async function addGardener(target: Target, token: string, roomId: string): Promise<void> {
  const agent = await target.call(token, "POST", "/v1/collaboration/agents", {
    handle: "gardener",
    displayName: "Gardener",
    instructions: `The room is ${roomId}.`,
    tools: ["task.create", "event.create"],
    askFirst: ["task.create"],
  });
  await target.call(token, "PUT", `/v1/rooms/${roomId}/members/${agent.id}`, {});
}
