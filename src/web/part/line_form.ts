// A form of one line. What was written stays until it has been sent, also while the form is not shown.
import type { VNode } from "preact";
import { useRef } from "preact/hooks";
import { html } from "../core/html.ts";
import { attempt } from "../core/notice.ts";
import { drafts, setDraft } from "../message/editing.ts";

export function LineForm(
  { draft, label, placeholder = label, action, isPrimary = false, maxlength, className, onSend }: {
    /** The key of what is written in it. */
    draft: string;
    label: string;
    placeholder?: string;
    /** Without one there is no button. */
    action?: string;
    isPrimary?: boolean;
    maxlength?: number;
    className?: string;
    onSend: (text: string) => Promise<unknown>;
  },
): VNode {
  const isSending = useRef(false);
  const field = useRef<HTMLInputElement>(null);
  async function submit(event: SubmitEvent): Promise<void> {
    event.preventDefault();
    const { current } = field;
    if (current === null || isSending.current) return;
    const { value } = current;
    if (value.trim() === "") return;
    isSending.current = true;
    const isSent = await attempt(() => onSend(value.trim()));
    isSending.current = false;
    // What was typed meanwhile is the next one.
    if (!isSent || !current.value.startsWith(value)) return;
    current.value = current.value.slice(value.length);
    setDraft(draft, current.value);
  }
  return html`
    <form class=${className} onSubmit=${submit}>
      <input ref=${field} placeholder=${placeholder} aria-label=${label} maxlength=${maxlength} autocomplete="off"
        defaultValue=${drafts.peek().get(draft) ?? ""} onInput=${(event: InputEvent) =>
          setDraft(draft, (event.target as HTMLInputElement).value)} />
      ${action === undefined ? null : html`<button class=${isPrimary ? "primary" : ""}>${action}</button>`}
    </form>
  `;
}
