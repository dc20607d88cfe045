// Reasoning that a server of an open model sends within the text.
import assert from "node:assert/strict";
import { ReasoningTags } from "@/adapters/model/reasoning_tags.ts";

/** The reasoning and the text of a response in pieces of this length; and whether the next one may begin in reasoning. */
function read(
  response: string,
  length: number,
  { omitsFirstTag = false } = {},
): [reasoning: string, text: string, omitsFirstTag: boolean] {
  const tags = new ReasoningTags(omitsFirstTag);
  let [reasoning, text] = ["", ""];
  const add = (parts: ReturnType<ReasoningTags["push"]>): void => {
    for (const part of parts) {
      if (part.kind === "reset") {
        assert.notEqual(text, "");
        [reasoning, text] = [reasoning + text, ""];
        continue;
      }
      assert.notEqual(part.text, "");
      if (part.kind === "text") text += part.text;
      else reasoning += part.text;
    }
  };
  for (let at = 0; at < response.length; at += length) add(tags.push(response.slice(at, at + length)));
  add(tags.end());
  return [reasoning, text, tags.omitsFirstTag];
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
      assert.deepEqual(read(response, length), [reasoning, text, false], `${response} in pieces of ${length}`);
    }
  }
});

Deno.test("reasoning whose first tag is missing is recognized when the second one comes, and at once in the next response", () => {
  const only: [response: string, reasoning: string, text: string][] = [
    ["Hm, 1 < 2\n</think>\n\nTwo", "Hm, 1 < 2\n", "Two"],
    ["Hm</think>Two, not </think> or `<think>`", "Hm", "Two, not </think> or `<think>`"],
    ["</think>Two", "", "Two"],
    ["`a` is <th\n</think>\n", "`a` is <th\n", ""],
  ];
  for (const omitsFirstTag of [false, true]) {
    for (const [response, reasoning, text] of only) {
      for (let length = 1; length <= response.length; length++) {
        const expected = [reasoning, text, true];
        assert.deepEqual(read(response, length, { omitsFirstTag }), expected, `${response} in pieces of ${length}`);
      }
    }
  }
  // A text about the tags is a text.
  for (const text of ["The tag `</think>` ends it", "First <think>, then </think>", "```\n</think>\n```"]) {
    for (let length = 1; length <= text.length; length++) assert.deepEqual(read(text, length), ["", text, false]);
  }
  // A response without reasoning, maybe.
  assert.deepEqual(read("Two", 2, { omitsFirstTag: true }), ["Two", "Two", false]);
  assert.deepEqual(read("<think>Hm</think>Two", 3, { omitsFirstTag: true }), ["Hm", "Two", true]);
});
