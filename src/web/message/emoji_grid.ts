// All emoji by their names, which are those of the server, and the grid to choose from.
import type { VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { parseEmoji } from "../../core/text/emoji_list.ts";
import { html } from "../core/html.ts";

type Found = { emoji: string; name: string };

/** Those to offer first, with further words that they are found by. */
const COMMON = `
👍 yes 👎 no ❤️ love 🎉 party ✅ done check 👀 look 🙏 thanks please 😂 laugh 😊 happy 😅 relief 🤔 hmm 😮 surprised 😢 sad 😎 chill 🙂
👏 applause 🙌 hooray 💪 strong 🤝 deal 👋 hello bye ✋ stop 🚀 launch 🔥 hot ⭐ favorite 💡 idea 💯 perfect ⚠️ careful ❌ cross
❓ ❗ important ⏳ waiting ☕ 🍕 🎂 🥳 celebrate 🐛 🔧 tool fix 📌 pinned 📎 clip 📅 day 📈 rising 📉 falling 🧪 experiment 🏖️
holiday 🌱 growing 🌈 🤖 agent
`;
/** As in the style sheet. */
const COLUMNS = 8;
/** The others follow once the grid is scrolled. */
const SHOWN_AT_ONCE = 160;

const TONE_KEY = "gateway.emoji.tone";
const TONES = ["", "🏻", "🏼", "🏽", "🏾", "🏿"];
const LETTERS = [..."ABCDEFGHIJKLMNOPQRSTUVWXYZ"];
const FLAG = /^\p{RGI_Emoji_Flag_Sequence}$/v;
const ONE_EMOJI = /^\p{RGI_Emoji}$/v;
const TONED = /(\p{Emoji_Modifier_Base})\u{fe0f}?/u;

const all = orderedEmoji();

/** By their names as elsewhere, such as `flag-at`, and in the language of the names of all others. */
function flags(): [emoji: string, names: string[]][] {
  const names = new Intl.DisplayNames("en", { type: "region" });
  const codes = LETTERS.flatMap((first) => LETTERS.map((second) => first + second));
  return codes.flatMap((code): [string, string[]][] => {
    const emoji = String.fromCodePoint(...[...code].map((letter) => 0x1f1a5 + letter.charCodeAt(0)));
    const name = names.of(code)?.normalize("NFD").replaceAll(/\p{M}/gu, "").toLowerCase().replaceAll(/\W+/g, "_");
    return FLAG.test(emoji) ? [[emoji, [`flag-${code.toLowerCase()}`, `flag_${name}`]]] : [];
  });
}

/** The emoji in a skin tone, if it has some. */
export function toned(emoji: string, tone: string): string {
  const other = emoji.replace(TONED, `$1${tone}`);
  return tone !== "" && ONE_EMOJI.test(other) ? other : emoji;
}

/** Common ones first. */
function orderedEmoji(): [emoji: string, names: string[]][] {
  const rest = new Map(parseEmoji());
  const common = parseEmoji(COMMON).map(([emoji, words]): [string, string[]] => {
    const names = rest.get(emoji) ?? [];
    rest.delete(emoji);
    return [emoji, [...names, ...words]];
  });
  return [...common, ...rest, ...flags()];
}

/** Emoji with a name that is this, then those with one that begins so, then those with one that has a word that does. */
export function findEmoji(typed: string): Found[] {
  const part = typed.trim().toLowerCase().replaceAll(/\s+/g, "_");
  const begins = (name: string): boolean => ["_", "-"].some((gap) => `${gap}${name}`.includes(`${gap}${part}`));
  const found = all.flatMap(([emoji, names]) => {
    const name = names.find((one) => one === part) ?? names.find((one) => one.startsWith(part)) ?? names.find(begins);
    return name === undefined ? [] : [{ emoji, name }];
  });
  const rankOf = ({ name }: Found): number => Number(name === part) + Number(name.startsWith(part));
  return found.toSorted((a, b) => rankOf(b) - rankOf(a));
}

export default function Grid({ onPick }: { onPick: (emoji: string) => void }): VNode {
  const [typed, setTyped] = useState("");
  const [isWhole, setWhole] = useState(false);
  const box = useRef<HTMLInputElement>(null);
  // It was not there yet when the pop-up opened.
  useEffect(() => box.current?.focus(), []);
  const [tone, setTone] = useState(sessionStorage.getItem(TONE_KEY) ?? "");
  const found = findEmoji(typed).map(({ emoji, name }) => ({ emoji: toned(emoji, tone), name }));
  /** Up and down move by a row, and between the field and the first one. */
  function onKey(event: KeyboardEvent): void {
    const step = { ArrowDown: COLUMNS, ArrowUp: -COLUMNS }[event.key];
    if (step === undefined) return;
    event.stopPropagation();
    if (event.target instanceof HTMLSelectElement) return;
    event.preventDefault();
    const all = [...(event.currentTarget as HTMLElement).querySelectorAll("button")];
    const at = all.indexOf(event.target as HTMLButtonElement);
    (at < 0 ? all[0] : all[at + step] ?? (step < 0 ? box.current : undefined))?.focus();
  }
  return html`
    <div class="emoji" onKeyDown=${onKey}>
      <div class="find">
      <input ref=${box} type="search" placeholder="Find an emoji" aria-label="Find an emoji" value=${typed}
        onInput=${(event: InputEvent) => setTyped((event.target as HTMLInputElement).value)}
        onKeyDown=${(event: KeyboardEvent) => {
          const [first] = found;
          if (event.key !== "Enter" || first === undefined) return;
          event.preventDefault();
          onPick(first.emoji);
        }} />
      <select aria-label="Skin tone" value=${tone} onChange=${({ target }: Event) => {
        const { value } = target as HTMLSelectElement;
        sessionStorage.setItem(TONE_KEY, value);
        setTone(value);
      }}>${TONES.map((one) => html`<option key=${one} value=${one}>${toned("✋", one)}</option>`)}</select>
      </div>
      ${found.length === 0 ? html`<p class="dim">No emoji has this name.</p>` : null}
      <div class="grid" onScroll=${() => setWhole(true)}>${found.slice(0, isWhole ? undefined : SHOWN_AT_ONCE).map((
        { emoji, name },
      ) => {
        const label = name.replaceAll("_", " ");
        return html`
          <button type="button" class="plain" key=${emoji} aria-label=${label} title=${label}
            onClick=${() => onPick(emoji)}>${emoji}</button>
        `;
      })}</div>
    </div>
  `;
}
