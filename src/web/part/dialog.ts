// Dialogs: the browser's own element, so that focus, Escape and screen readers work as everywhere.
import type { ComponentChildren, VNode } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { signal } from "@preact/signals";
import { html } from "../core/html.ts";
import { attempt } from "../core/notice.ts";
import { moves } from "../core/route.ts";
import { Notices } from "./banner.ts";
import { Icon } from "./icon.ts";

type Opened = { id: number; view: () => VNode };

export const dialog = signal<Opened | undefined>(undefined);
let nextId = 1;

export function openDialog(view: () => VNode): void {
  leaveField();
  dialog.value = { id: nextId++, view };
}

export function closeDialog(): void {
  leaveField();
  dialog.value = undefined;
}

// Going back, or elsewhere, leaves a dialog.
moves.subscribe(closeDialog);

/** A field that is removed while it has the focus would not report what was typed in it. */
function leaveField(): void {
  const { activeElement } = document;
  if (dialog.value !== undefined && activeElement instanceof HTMLElement) activeElement.blur();
}

/**
 * Where the open dialog is rendered; each has an element of its own, so that the focus is placed in it. Notices are in it:
 * what is outside is below, and inert.
 */
export function DialogHost(): VNode {
  const opened = dialog.value;
  return opened === undefined ? html`<${Notices} />` : html`<${Modal} key=${opened.id} ...${opened} />`;
}

function Modal({ id, view }: Opened): VNode {
  const element = useRef<HTMLDialogElement>(null);
  const isFilled = useRef(false);
  // Before the next key: what is typed quickly must meet the dialog, and after that what had the focus.
  useLayoutEffect(() => {
    const { current } = element;
    const giveBack = focusKeeper(document.activeElement);
    current?.showModal();
    return () => {
      current?.close();
      giveBack();
    };
  }, []);
  /** The browser reports it later, when there may be another one. */
  function onClose(): void {
    if (dialog.peek()?.id === id) closeDialog();
  }
  /** A click beside a dialog closes it, unless that would lose what is in its form, or is shown only now. */
  function onBackdrop({ target }: MouseEvent): void {
    if (target === element.current && element.current?.querySelector("form.fields, .secret") === null) closeDialog();
  }
  /** Neither does Escape lose it, unless that is meant. */
  function onCancel(event: Event): void {
    if (isFilled.current && !confirm("Discard what you entered?")) event.preventDefault();
    else closeDialog();
  }
  function onInput({ target }: InputEvent): void {
    isFilled.current ||= (target as Element).closest("form.fields") !== null;
  }
  return html`
    <dialog ref=${element} onClose=${onClose} onCancel=${onCancel} onInput=${onInput}
      onMouseDown=${onBackdrop}>
      <div class="dialog">${view()}</div>
      <${Notices} />
    </dialog>
  `;
}

/**
 * A function that returns the focus to an element; once that is removed, as by what the dialog asked for, to what is next to
 * it, unless the focus is elsewhere by then.
 */
function focusKeeper(before: Element | null): () => void {
  const row = before?.closest<HTMLElement>("article, li");
  const rows = [...row?.parentElement?.querySelectorAll(`:scope > ${row.localName}`) ?? []];
  const at = rows.findIndex((one) => one === row);
  const composer = row?.closest(".chat, .pane")?.querySelector(".composer textarea");
  const next = [rows[at + 1], composer, rows[at - 1]];
  return () => {
    if (!(before instanceof HTMLElement)) return;
    before.focus();
    // The toolbar of a message is hidden while nothing of the message has the focus.
    if (before.isConnected && document.activeElement !== before) {
      row?.focus();
      before.focus();
    }
    const keep = (): boolean => {
      const isElsewhere = document.activeElement !== before && document.activeElement !== document.body;
      if (before.isConnected || isElsewhere) return !isElsewhere;
      const found = next.find((one) => one?.isConnected) ?? document.querySelector("main");
      focusable(found)?.focus();
      return false;
    };
    if (!keep()) return;
    const observer = new MutationObserver(() => keep() || observer.disconnect());
    observer.observe(document.body, { childList: true, subtree: true });
  };
}

/** The element itself, or what can be focused in it. */
function focusable(element: Element | null | undefined): HTMLElement | null | undefined {
  const selector = "[tabindex], a[href], button:not(:disabled), input, textarea";
  return element?.matches(selector) ? element as HTMLElement : element?.querySelector<HTMLElement>(selector);
}

/** Once a pane has closed that had the focus, `give` gives that to something else; it receives what had it before. */
export function usePaneFocus(pane: unknown, give: (before: HTMLElement) => void): void {
  useLayoutEffect(() => {
    const before = document.activeElement as HTMLElement;
    return () => {
      if (document.activeElement === document.body && document.querySelector(".pane") === null) give(before);
    };
  }, [pane]);
}

/** The head of a side pane, or of a dialog, which it names. */
export function Heading({ title, onClose, children }: {
  title: string;
  onClose: () => void;
  children?: ComponentChildren;
}): VNode {
  const element = useRef<HTMLElement>(null);
  useEffect(() => element.current?.closest("dialog")?.setAttribute("aria-label", title), [title]);
  return html`
    <header class="heading-bar" ref=${element}><h2>${title}</h2>${children}
      <button type="button" class="plain" aria-label="Close" onClick=${onClose}><${Icon} name="close" /></button>
    </header>
  `;
}

/** A form in a dialog that closes when it succeeds. */
export function DialogForm({ title, action, isDanger = false, onSubmit, children }: {
  title: string;
  action: string;
  isDanger?: boolean;
  onSubmit: (fields: FormData) => Promise<unknown>;
  children?: ComponentChildren;
}): VNode {
  async function submit(event: SubmitEvent): Promise<void> {
    event.preventDefault();
    const form = event.currentTarget as HTMLFormElement;
    const button = form.querySelector<HTMLButtonElement>("button.primary, button.danger");
    if (button !== null) button.disabled = true;
    const current = dialog.value;
    const isDone = await attempt(() => onSubmit(new FormData(form)));
    if (button !== null) button.disabled = false;
    // Unless the form has opened another dialog.
    if (isDone && dialog.value === current) closeDialog();
  }
  return html`
    <form class="fields" onSubmit=${submit}>
      <${Heading} title=${title} onClose=${closeDialog} />
      ${children}
      <footer>
        <button type="button" onClick=${closeDialog}>Cancel</button>
        <button class=${isDanger ? "danger" : "primary"}>${action}</button>
      </footer>
    </form>
  `;
}

/** Asks before something that cannot be undone. */
export function confirmThen(title: string, text: string, action: string, work: () => Promise<unknown>): void {
  openDialog(() =>
    html`
      <${DialogForm} title=${title} action=${action} isDanger onSubmit=${work}>
        <p>${text}</p>
        <//>
    `
  );
}
