// Names of tools in the configuration of agents: what no tool can have is refused when it is set.
import assert from "node:assert/strict";
import { openGateway } from "../../harness.ts";
import { assertProblem, ok } from "../fixtures.ts";

const AGENTS = "/v1/collaboration/agents";

Deno.test("agent.create and agent.update refuse names that no tool has, and suggest the nearest", async () => {
  await using gateway = await openGateway();
  const alice = await gateway.as("alice");
  const agent = { displayName: "Helper", tools: ["task.*", "message.list", "*"], askFirst: ["task.create"] };
  const { id } = ok(await alice.post(AGENTS, agent));
  const refused = async (fields: Record<string, string[]>): Promise<[pointer: string, detail: string][]> => {
    for (
      const send of [() => alice.post(AGENTS, { ...agent, ...fields }), () => alice.patch(`${AGENTS}/${id}`, fields)]
    ) {
      assertProblem(await send(), 422, "validation_failed");
    }
    const { body } = await alice.patch(`${AGENTS}/${id}`, fields);
    return body.errors.map(({ pointer, detail }: { pointer: string; detail: string }) => [pointer, detail]);
  };
  assert.deepEqual(await refused({ tools: ["task.crate", "task.list"], askFirst: ["task_create"] }), [
    ["/tools/0", "agents have no tool task.crate; did you mean task.create?"],
    ["/askFirst/0", "agents have no tool task_create; did you mean task.create?"],
  ]);
  assert.deepEqual(await refused({ tools: ["message.list", "tasks.*"] }), [
    ["/tools/1", "agents have no tool tasks.*; did you mean task.*?"],
  ]);
  // Operations that no agent may call, and calls that are not configured.
  for (
    const name of [
      "token.create",
      "agent.*",
      "room.delete",
      "thread.follow",
      "find_tools",
      "weather",
      "wiki.search",
      "wiki.*",
    ]
  ) {
    const [[pointer, detail] = ["", ""]] = await refused({ tools: [name] });
    assert.equal(pointer, "/tools/0");
    assert.match(detail, /^agents have no tool /);
  }
  const { tools, askFirst, version } = ok(await alice.get(`${AGENTS}/${id}`));
  assert.deepEqual({ tools, askFirst, version }, { tools: agent.tools, askFirst: agent.askFirst, version: 1 });
});

Deno.test("tools of skills and of MCP servers are known by their names, and stay named after their end", async () => {
  await using gateway = await openGateway();
  const boss = await gateway.as("boss", { role: "admin" });
  const alice = await gateway.as("alice");
  ok(await boss.put("/v1/collaboration/mcp/servers/wiki", { url: "https://wiki.example.com/mcp" }));
  const tools = ["wiki.*", "wiki.search", "wiki_search"];
  const { id } = ok(
    await alice.post(AGENTS, { displayName: "Helper", tools, askFirst: ["skill_read", "wiki_search"] }),
  );
  const stranger = await gateway.as("stranger", { tenant: "elsewhere" });
  assertProblem(await stranger.post(AGENTS, { displayName: "Helper", tools }), 422, "validation_failed");
  assert.equal((await boss.delete("/v1/collaboration/mcp/servers/wiki")).status, 204);
  assertProblem(await alice.patch(`${AGENTS}/${id}`, { tools: ["wiki.edit"] }), 422, "validation_failed");
  ok(await alice.patch(`${AGENTS}/${id}`, { tools: ["task.list", ...tools] }));
});
