// How this browser writes dates and times: as its language does, unless a person has chosen otherwise in the profile.
const KEY = "gateway.dates";
const MONDAY = 1;

/** `firstDay` of the week is a number of `Date`, where 0 is Sunday. */
export type Dates = { locale?: string | undefined; hourCycle?: "h12" | "h23" | undefined; firstDay: number };

export const dates = read();
export const { locale } = dates;
/** What times have, besides their minutes. */
export const hour: Intl.DateTimeFormatOptions = {
  hour: "numeric",
  ...dates.hourCycle === undefined ? {} : { hourCycle: dates.hourCycle },
};

/** Shown once the page is loaded again. */
export function setDates(chosen: Dates): void {
  const isUsual = chosen.locale === undefined && chosen.hourCycle === undefined && chosen.firstDay === MONDAY;
  if (isUsual) localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, JSON.stringify(chosen));
}

function read(): Dates {
  try {
    const chosen: Dates = { firstDay: MONDAY, ...JSON.parse(localStorage.getItem(KEY) ?? "{}") };
    // Throws where a browser does not know them.
    new Intl.DateTimeFormat(chosen.locale, { hour: "numeric", hourCycle: chosen.hourCycle });
    return chosen;
  } catch {
    return { firstDay: MONDAY };
  }
}
