// A field that is saved when it is left. What others save meanwhile does not replace what is being typed, nor does a failure.
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { html } from "../core/html.ts";

/**
 * `onSave` returns whether the text was saved. With `rows` it has several lines; with one, it is a line that is shown as a
 * whole. A required text cannot be removed.
 */
export function SavedField(
  { label, value, onSave, isRequired = false, isReadOnly = false, rows, maxlength, placeholder, className }: {
    label: string;
    value: string;
    onSave: (text: string) => Promise<boolean>;
    isRequired?: boolean;
    isReadOnly?: boolean;
    rows?: number;
    maxlength?: number;
    placeholder?: string;
    className?: string;
  },
): VNode {
  const [draft, setDraft] = useState<string>();
  async function save(event: Event): Promise<void> {
    const { value: typed } = event.target as HTMLInputElement;
    const text = rows === 1 ? typed.split("\n").map((line) => line.trim()).join(" ") : typed;
    const isKept = text === value || isRequired && text.trim() === "";
    if (!isKept && !await onSave(text)) return;
    setDraft((current) => current === typed ? undefined : current);
  }
  const shown = {
    value: draft ?? value,
    "aria-label": label,
    dir: "auto",
    class: className,
    maxlength,
    placeholder,
    readonly: isReadOnly,
    onInput: (event: Event) => setDraft((event.target as HTMLInputElement).value),
    onChange: (event: Event) => void save(event),
    onKeyDown: (event: KeyboardEvent) => {
      if (rows !== 1 || event.key !== "Enter" || event.isComposing) return;
      event.preventDefault();
      (event.target as HTMLElement).blur();
    },
  };
  return rows === undefined ? html`<input ...${shown} />` : html`<textarea rows=${rows} ...${shown}></textarea>`;
}
