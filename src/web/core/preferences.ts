// What a person has chosen for this browser in the profile: how dates and times are written, and the colors of the page.
const KEY = "gateway.preferences";
const MONDAY = 1;

/** As the browser says, unless it was chosen. `firstDay` of the week is a number of `Date`, where 0 is Sunday. */
export type Preferences = {
  locale?: string | undefined;
  hourCycle?: "h12" | "h23" | undefined;
  theme?: "light" | "dark" | undefined;
  firstDay: number;
};

export const preferences = read();
export const { locale } = preferences;
/** What times have, besides their minutes. */
export const hour: Intl.DateTimeFormatOptions = {
  hour: "numeric",
  ...preferences.hourCycle === undefined ? {} : { hourCycle: preferences.hourCycle },
};

/** They take effect once the page is loaded again. */
export function setPreferences(chosen: Preferences): void {
  const { locale, hourCycle, theme, firstDay } = chosen;
  const isUsual = (locale ?? hourCycle ?? theme) === undefined && firstDay === MONDAY;
  if (isUsual) localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, JSON.stringify(chosen));
}

function read(): Preferences {
  try {
    const chosen: Preferences = { firstDay: MONDAY, ...JSON.parse(localStorage.getItem(KEY) ?? "{}") };
    // Throws where a browser does not know them.
    new Intl.DateTimeFormat(chosen.locale, { hour: "numeric", hourCycle: chosen.hourCycle });
    return chosen;
  } catch {
    return { firstDay: MONDAY };
  }
}
