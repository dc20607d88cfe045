// How dates and times are written in this browser, and the colors of its pages.
import type { VNode } from "preact";
import { html } from "../core/html.ts";
import { type Preferences, preferences, setPreferences } from "../core/preferences.ts";
import { notify } from "../core/notice.ts";
import { callRoomId } from "../meeting/active.ts";

/** Texts of the page are in English: others are offered besides the language of the browser. */
const LOCALES: readonly (readonly [locale: string, label: string])[] = [
  ["en-US", "English, United States"],
  ["en-GB", "English, United Kingdom"],
  ["de", "Deutsch"],
  ["es", "Español"],
  ["fr", "Français"],
  ["it", "Italiano"],
  ["nl", "Nederlands"],
  ["pl", "Polski"],
  ["pt-BR", "Português, Brasil"],
  ["sv", "Svenska, as in ISO 8601"],
  ["tr", "Türkçe"],
  ["uk", "Українська"],
  ["ar", "العربية"],
  ["he", "עברית"],
  ["hi", "हिन्दी"],
  ["ja", "日本語"],
  ["ko", "한국어"],
  ["zh-CN", "中文"],
];

export function BrowserCard(): VNode {
  function submit(event: SubmitEvent): void {
    event.preventDefault();
    const fields = new FormData(event.currentTarget as HTMLFormElement);
    const text = (name: string): string | undefined => String(fields.get(name) ?? "") || undefined;
    setPreferences({
      locale: text("locale"),
      hourCycle: text("hourCycle") as Preferences["hourCycle"],
      theme: text("theme") as Preferences["theme"],
      firstDay: Number(fields.get("firstDay")),
    });
    // A call would end with the page.
    if (callRoomId.value === undefined) location.reload();
    else notify("Saved. Load the page again to see it.");
  }
  const own = new Intl.DateTimeFormat().resolvedOptions().locale;
  return html`
    <form class="card fields" onSubmit=${submit}>
      <h2>In this browser</h2>
      <label>Language of dates <select name="locale" value=${preferences.locale ?? ""}>
        <option value="">as in the browser (${own})</option>
        ${LOCALES.map(([locale, label]) => html`<option key=${locale} value=${locale}>${label}</option>`)}
      </select></label>
      <div class="pair">
        <label>Hours <select name="hourCycle" value=${preferences.hourCycle ?? ""}>
          <option value="">as usual in the language</option><option value="h23">24 hours</option>
          <option value="h12">12 hours</option></select></label>
        <label>A week begins on <select name="firstDay" value=${String(preferences.firstDay)}>
          <option value="1">Monday</option><option value="6">Saturday</option><option value="0">Sunday</option>
        </select></label>
        <label>Colors <select name="theme" value=${preferences.theme ?? ""}>
          <option value="">as in the system</option><option value="light">light</option>
          <option value="dark">dark</option></select></label>
      </div>
      <footer><button>Apply</button></footer>
    </form>
  `;
}
