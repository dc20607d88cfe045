// Time as a dependency, so that tests can stand still or jump.

export type Clock = {
  /** Milliseconds since the Unix epoch. */
  now(): number;
};

/** The machine's clock. */
export const systemClock: Clock = { now: () => Date.now() };

/** RFC 3339 UTC with milliseconds, the only form in which time leaves the gateway. */
export function iso(ms: number): string {
  return new Date(ms).toISOString();
}
