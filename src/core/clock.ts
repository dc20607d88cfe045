// Time as a dependency, so that tests can stand still or jump.

export type Clock = {
  /** Milliseconds since the Unix epoch. */
  now(): number;
};

/** The machine's clock. */
export const systemClock: Clock = { now: () => Date.now() };

/** What a machine tells time by. */
export type Machine = {
  /** Its clock: may be wrong, and is set forward and back while we run. */
  readonly clock: Clock;
  /** Milliseconds since some moment, which nobody sets. */
  elapsed(): number;
};

/** The machine we run on. */
export const thisMachine: Machine = { clock: systemClock, elapsed: () => performance.now() };

/** Lets whoever waits have a turn of the event loop. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

let common: Promise<void> | undefined;

/**
 * One turn for all who ask for it within this one: they go on side by side, the same step of each after the other. So what a
 * step needs stays in the processor's caches, which for short work costs more than the work itself.
 */
export function commonTurn(): Promise<void> {
  return common ??= nextTurn().then(() => {
    common = undefined;
  });
}

/** How long one piece of work keeps this thread before others get their turn. */
const TURN_MS = 10;

/** To be called in between of what keeps this thread busy: lets others have a turn now and then, and says whether it did. */
export function turns(): () => Promise<boolean> {
  let since = performance.now();
  return async () => {
    if (performance.now() - since < TURN_MS) return false;
    await nextTurn();
    since = performance.now();
    return true;
  };
}

/** What `work` resolves to; `undefined` when it takes longer. */
export async function inTime<Result>(work: Promise<Result>, ms: number): Promise<Result | undefined> {
  const late = Promise.withResolvers<undefined>();
  const timer = setTimeout(() => late.resolve(undefined), ms);
  try {
    return await Promise.race([work, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}

/** Whether this is an IANA name of a time zone; offsets such as +02:00 are none, they know no daylight saving. */
export function isTimeZone(name: string): boolean {
  if (!/^[A-Za-z]/.test(name)) return false;
  try {
    new Intl.DateTimeFormat("en", { timeZone: name });
    // Which knows a few names more than Temporal does, such as PST.
    Temporal.Now.zonedDateTimeISO(name);
    return true;
  } catch {
    return false;
  }
}

const [FIRST, LAST] = [Date.parse("0000-01-01T00:00:00.000Z"), Date.parse("9999-12-31T23:59:59.999Z")];

/**
 * RFC 3339 UTC with milliseconds, the only form in which time leaves the gateway. It has four digits for the year, so what
 * lies beyond is the first or last moment there is: a longer year would sort before all others.
 */
export function iso(ms: number): string {
  return new Date(Math.min(Math.max(ms, FIRST), LAST)).toISOString();
}
