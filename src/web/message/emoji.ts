// A picker of common emoji, and the three that were used last.
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { html } from "../core/html.ts";
import { Popup } from "../part/menu.ts";

export const EMOJI: readonly (readonly [emoji: string, names: string])[] = [
  ["👍", "thumbs up yes"],
  ["👎", "thumbs down no"],
  ["❤️", "heart love"],
  ["🎉", "party tada"],
  ["✅", "check done"],
  ["👀", "eyes look"],
  ["🙏", "thanks please"],
  ["😂", "joy laugh"],
  ["😊", "smile happy"],
  ["😅", "sweat relief"],
  ["🤔", "thinking"],
  ["😮", "surprised"],
  ["😢", "sad cry"],
  ["😎", "cool"],
  ["🙂", "slight smile"],
  ["🙁", "frown"],
  ["👏", "clap"],
  ["🙌", "raised hands"],
  ["💪", "strong"],
  ["🤝", "handshake deal"],
  ["👋", "wave hello"],
  ["✋", "hand stop"],
  ["🚀", "rocket ship"],
  ["🔥", "fire hot"],
  ["⭐", "star"],
  ["💡", "idea"],
  ["💯", "hundred perfect"],
  ["⚠️", "warning"],
  ["❌", "cross no"],
  ["❓", "question"],
  ["❗", "important"],
  ["⏳", "waiting"],
  ["☕", "coffee"],
  ["🍕", "pizza"],
  ["🎂", "cake birthday"],
  ["🥳", "celebrate"],
  ["🐛", "bug"],
  ["🔧", "tool fix"],
  ["📌", "pin"],
  ["📎", "clip"],
  ["📅", "calendar"],
  ["📈", "chart up"],
  ["📉", "chart down"],
  ["🧪", "test"],
  ["🏖️", "holiday beach"],
  ["🌱", "growing"],
  ["🌈", "rainbow"],
  ["🤖", "robot agent"],
];
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

function Grid({ onPick }: { onPick: (emoji: string) => void }): VNode {
  const [filter, setFilter] = useState("");
  const shown = EMOJI.filter(([, names]) => names.includes(filter.toLowerCase()));
  return html`
    <div class="emoji">
      <input type="search" placeholder="Find an emoji" aria-label="Find an emoji" value=${filter}
        onInput=${(event: InputEvent) => setFilter((event.target as HTMLInputElement).value)}
        onKeyDown=${(event: KeyboardEvent) => {
          const [first] = shown;
          if (event.key !== "Enter" || first === undefined) return;
          event.preventDefault();
          onPick(first[0]);
        }} />
      <div class="grid">${shown.map(([emoji, names]) =>
        html`<button type="button" class="plain" aria-label=${names} title=${names} onClick=${() =>
          onPick(emoji)}>${emoji}</button>`
      )}</div>
    </div>
  `;
}
