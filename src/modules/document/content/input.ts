// Content as callers send it: Markdown, HTML or ProseMirror JSON, of which one is given.
import { invalidField } from "@/core/fault.ts";
import { readNodes } from "../rendering.ts";
import type { Dialect } from "../rich/dialect.ts";
import { parseDocument, type RichNode } from "../rich/node.ts";
import { TEXT_MAX_BYTES } from "../limits.ts";
import { bytesOf, textTooLong } from "./text_edits.ts";
import type { DocumentKind } from "./update_scan.ts";

export type ContentInput = {
  text?: string | undefined;
  html?: string | undefined;
  prosemirror?: Record<string, unknown> | undefined;
};
export type ParsedContent = { text: string } | { nodes: RichNode[] };

/** Parses content for a document of this kind; Markdown and HTML get the names of a dialect. */
export async function parseContent(
  { text, html, prosemirror }: ContentInput,
  kind: DocumentKind,
  dialect: Dialect,
): Promise<ParsedContent> {
  const given = [text, html, prosemirror].filter((one) => one !== undefined);
  if (given.length !== 1) throw invalidField("/text", "expected the content in one of text, html and prosemirror");
  if (bytesOf(text ?? html ?? "") > TEXT_MAX_BYTES) throw textTooLong();
  if (kind === "text") {
    if (text === undefined) throw invalidField("/text", "expected Markdown, as the document is not rich");
    return { text };
  }
  if (prosemirror !== undefined) return { nodes: parseDocument(prosemirror, "/prosemirror") };
  return { nodes: await readNodes(html === undefined ? { markdown: text ?? "" } : { html }, dialect) };
}
