// A picker of emoji, and the three that were used last.
import type { VNode } from "preact";
import { html } from "../core/html.ts";
import { later } from "../part/lazy.ts";
import { Popup } from "../part/menu.ts";

const Grid = later(() => import("./emoji_grid.ts"));
const RECENT_KEY = "gateway.emoji";

/** Those to offer first. */
export function recentEmoji(): readonly string[] {
  const recent = (sessionStorage.getItem(RECENT_KEY) ?? "").split(" ").filter((one) => one !== "");
  return [...new Set([...recent, "👍", "🎉", "✅"])].slice(0, 3);
}

function rememberEmoji(emoji: string): void {
  sessionStorage.setItem(RECENT_KEY, [...new Set([emoji, ...recentEmoji()])].slice(0, 3).join(" "));
}

export function EmojiPicker({ label, onPick }: { label: string; onPick: (emoji: string) => void }): VNode {
  return html`
    <${Popup} label=${label} icon="smile">
      ${(close: () => void) =>
        html`<${Grid} onPick=${(emoji: string) => {
          close();
          rememberEmoji(emoji);
          onPick(emoji);
        }} />`}
    <//>
  `;
}
