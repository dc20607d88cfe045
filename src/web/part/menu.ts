// A menu that a button opens. Arrow keys move, Escape closes, focus returns to the button.
import type { ComponentChildren, VNode } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { classes, html } from "../core/html.ts";
import { Icon, type IconName } from "./icon.ts";

const LOWER_PART = 0.6;

export type MenuItem = { label: string; icon?: IconName; isDanger?: boolean; onSelect: () => void };

export function Menu({ label, icon = "more", items, className = "plain" }: {
  label: string;
  icon?: IconName;
  items: readonly MenuItem[];
  className?: string;
}): VNode {
  return html`
    <${Popup} label=${label} icon=${icon} className=${className} role="menu">
      ${(close: () => void) =>
        items.map(({ label, icon, isDanger, onSelect }) =>
          html`<button type="button" role="menuitem" class=${isDanger ? "danger-text" : ""} onClick=${() => {
            close();
            onSelect();
          }}>${icon === undefined ? null : html`<${Icon} name=${icon} />`}<span>${label}</span></button>`
        )}
    <//>
  `;
}

/** A button with a pop-up; `children` receives the function that closes it. */
export function Popup({ label, icon, className = "plain", role = "dialog", children }: {
  label: string;
  icon: IconName;
  className?: string;
  role?: "menu" | "dialog";
  children: (close: () => void) => ComponentChildren;
}): VNode {
  const [isOpen, setOpen] = useState(false);
  const [isUp, setUp] = useState(false);
  const root = useRef<HTMLSpanElement>(null);
  const button = useRef<HTMLButtonElement>(null);

  // Before the next key: what is typed quickly must meet the menu.
  useLayoutEffect(() => {
    if (!isOpen) return;
    root.current?.querySelector<HTMLElement>(".popup button, .popup input")?.focus();
    const onDown = (event: Event): void => {
      if (!root.current?.contains(event.target as Node)) setOpen(false);
    };
    addEventListener("pointerdown", onDown);
    return () => removeEventListener("pointerdown", onDown);
  }, [isOpen]);

  /** In the lower part of the page it opens upwards. */
  function toggle(): void {
    const { bottom } = button.current?.getBoundingClientRect() ?? { bottom: 0 };
    setUp(bottom > innerHeight * LOWER_PART);
    setOpen(!isOpen);
  }

  function close(): void {
    setOpen(false);
    button.current?.focus();
  }

  function onKey(event: KeyboardEvent): void {
    if (!isOpen) return;
    if (event.key === "Escape") {
      event.stopPropagation();
      event.preventDefault();
      return close();
    }
    const step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
    if (step === undefined || event.target instanceof HTMLInputElement) return;
    event.preventDefault();
    event.stopPropagation();
    const all = [...root.current?.querySelectorAll<HTMLElement>(".popup button") ?? []];
    all.at((all.indexOf(event.target as HTMLElement) + step) % all.length)?.focus();
  }

  return html`
    <span class="anchor" ref=${root} onKeyDown=${onKey}>
      <button type="button" ref=${button} class=${className} aria-label=${label} title=${label} aria-haspopup=${role}
        aria-expanded=${isOpen} onClick=${toggle}><${Icon} name=${icon} /></button>
      ${isOpen
        ? html`<div class=${classes("popup", isUp && "up")} role=${role} aria-label=${label}>${children(close)}</div>`
        : null}
    </span>
  `;
}
