// Keys that format what is selected in a field, as Markdown: Ctrl+B bold, Ctrl+I italic, Ctrl+E code, Ctrl+Shift+X struck. A new
// line continues a list or a quote, and ends it where nothing was written in it.

const SIGNS: Readonly<Record<string, string>> = { b: "**", i: "_", e: "`", X: "~~" };
/** Three backticks, which would begin a template for what removes comments. */
const FENCE = /^\x60{3}/gm;
const ITEM = /^( *)([-*>]|(\d{1,9})\.) /;

/** Handles a key; returns whether it did. What is formatted already becomes plain again. */
export function formatKey(event: KeyboardEvent, onChange: (text: string) => void): boolean {
  if (event.key === "Enter" && event.shiftKey && !event.isComposing) return continueList(event, onChange);
  const sign = SIGNS[event.key];
  if (sign === undefined || !(event.ctrlKey || event.metaKey) || event.altKey) return false;
  event.preventDefault();
  const box = event.target as HTMLTextAreaElement;
  const { selectionStart: from, selectionEnd: to, value } = box;
  const isMarked = value.slice(0, from).endsWith(sign) && value.slice(to).startsWith(sign);
  const [start, end] = isMarked ? [from - sign.length, to + sign.length] : [from, to];
  const text = isMarked ? value.slice(from, to) : sign + value.slice(from, to) + sign;
  replaceText(box, text, start, end);
  onChange(box.value);
  const at = isMarked ? start : from + sign.length;
  box.setSelectionRange(at, at + to - from);
  return true;
}

/** Whether the cursor is in a block of code, where Enter begins a line. */
export function isInCode({ target }: Event): boolean {
  const { value, selectionStart } = target as HTMLTextAreaElement;
  return (value.slice(0, selectionStart).match(FENCE)?.length ?? 0) % 2 === 1;
}

function continueList(event: KeyboardEvent, onChange: (text: string) => void): boolean {
  const box = event.target as HTMLTextAreaElement;
  const { selectionStart: to, selectionEnd: end, value } = box;
  const from = value.lastIndexOf("\n", to - 1) + 1;
  const line = value.slice(from, to);
  const [item, indent = "", mark = "", number] = ITEM.exec(line) ?? [];
  if (item === undefined || to !== end) return false;
  event.preventDefault();
  const next = number === undefined ? mark : `${Number(number) + 1}.`;
  // With the break before it: where a last line becomes empty, the cursor would be in the one before.
  if (item === line) replaceText(box, value.slice(from - 1, from), Math.max(0, from - 1), to);
  else replaceText(box, `\n${indent}${next} `, to, to);
  onChange(box.value);
  return true;
}

/** Writes a text instead of a part of a field, as if it was typed: it can be undone. The cursor is behind it then. */
export function replaceText(box: HTMLTextAreaElement, text: string, from: number, to: number): void {
  box.focus();
  box.setSelectionRange(from, to);
  // Deprecated, but nothing else is known to the browser's undo.
  if (!document.execCommand("insertText", false, text)) box.setRangeText(text, from, to, "end");
}
