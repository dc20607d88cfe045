// Reasoning that a server of an open model sends within the text.
import assert from "node:assert/strict";
import { ReasoningTags } from "@/adapters/model/reasoning_tags.ts";

/** The reasoning and the text of a response in pieces of this length. */
function read(response: string, length: number): [reasoning: string, text: string] {
  const tags = new ReasoningTags();
  const parts: { kind: string; text: string }[] = [];
  for (let at = 0; at < response.length; at += length) parts.push(...tags.push(response.slice(at, at + length)));
  parts.push(...tags.end());
  assert.ok(parts.every(({ text }) => text !== ""));
  const of = (kind: string) => parts.filter((part) => part.kind === kind).map(({ text }) => text).join("");
  return [of("reasoning"), of("text")];
}

Deno.test("reasoning before a response is recognized, however it is cut", () => {
  const cases: [response: string, reasoning: string, text: string][] = [
    ["<think>Hm, </b> </thin> 1 < 2</think>\n\nTwo", "Hm, </b> </thin> 1 < 2", "Two"],
    ["\n<think>\n</think>Two", "\n", "Two"],
    ["<think></think>\n", "", ""],
    ["<think>never ends </thi", "never ends </thi", ""],
    ["Two", "", "Two"],
    ["<thing> is no tag", "", "<thing> is no tag"],
    ["  <thi", "", "  <thi"],
    ["Write <think>x</think>", "", "Write <think>x</think>"],
    ["<think>a</think>b <think>c</think>", "a", "b <think>c</think>"],
  ];
  for (const [response, reasoning, text] of cases) {
    for (let length = 1; length <= response.length; length++) {
      assert.deepEqual(read(response, length), [reasoning, text], `${response} in pieces of ${length}`);
    }
  }
});
