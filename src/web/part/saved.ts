// A field that is saved when it is left. What others save meanwhile does not replace what is being typed, nor does a failure.
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { html } from "../core/html.ts";

/** `onSave` returns whether the text was saved. With `rows` it has several lines. A required text cannot be removed. */
export function Saved(
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
    const { value: text } = event.target as HTMLInputElement;
    const isKept = text === value || isRequired && text.trim() === "";
    if (!isKept && !await onSave(text)) return;
    setDraft((current) => current === text ? undefined : current);
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
  };
  return rows === undefined ? html`<input ...${shown} />` : html`<textarea rows=${rows} ...${shown}></textarea>`;
}
