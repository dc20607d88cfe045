// Recurrence rules (RFC 5545 3.3.10): parsed strictly, and refused by their cost before anything is expanded.
import { RRuleTemporal } from "rrule-temporal";
import { Fault } from "../fault.ts";

/** The syntax of each part, or what to do instead of a part that is not supported. */
type Syntax = RegExp | string | undefined;
type Grammar = Readonly<Record<string, Syntax>>;

const LIST = (item: string): RegExp => new RegExp(`^${item}(,${item}){0,365}$`);
const GRAMMAR: Grammar = {
  FREQ: /^(YEARLY|MONTHLY|WEEKLY|DAILY|HOURLY|MINUTELY|SECONDLY)$/,
  INTERVAL: /^[1-9]\d{0,2}$/,
  COUNT: /^[1-9]\d{0,8}$/,
  UNTIL: /^\d{8}(T\d{6}Z?)?$/,
  BYMONTH: LIST("(0?[1-9]|1[0-2])"),
  BYMONTHDAY: LIST("[+-]?(0?[1-9]|[12]\\d|3[01])"),
  BYYEARDAY: LIST("[+-]?(0*[1-9]\\d?|[1-3]\\d\\d)"),
  BYWEEKNO: LIST("[+-]?(0?[1-9]|[1-4]\\d|5[0-3])"),
  BYDAY: LIST("([+-]?0?[1-9]\\d?)?(MO|TU|WE|TH|FR|SA|SU)"),
  BYHOUR: LIST("([01]?\\d|2[0-3])"),
  BYMINUTE: LIST("[0-5]?\\d"),
  BYSECOND: LIST("[0-5]?\\d"),
  BYSETPOS: LIST("[+-]?[1-9]\\d{0,2}"),
  WKST: /^(MO|TU|WE|TH|FR|SA|SU)$/,
};
/** Combinations of BY lists in one period. */
const PRODUCT_MAX = 1000;
/** Periods without a date that are searched for the next one, by the work of one. */
const PERIODS_MAX: Readonly<Record<string, number>> = {
  YEARLY: 100,
  MONTHLY: 1200,
  WEEKLY: 1000,
  DAILY: 1500,
  HOURLY: 800,
};
/** Dates that are computed for the next one: BYSETPOS may name a position that no period has. */
const CANDIDATES_MAX = 2000;

export type RecurrenceRule = {
  /** The parts by name, in capitals and in the order of the text. */
  parts: ReadonlyMap<string, string>;
  frequency: string;
  count: number | undefined;
};

/** Parses the rules of one kind of resource; its faults name the field. */
export class RecurrenceRuleParser {
  readonly #resources: string;
  readonly #pointer: string;
  readonly #grammar: ReadonlyMap<string, Syntax>;

  /** `grammar` replaces the syntax of single parts; a part that is `undefined` there is not accepted. */
  constructor({ resources, pointer, grammar = {} }: { resources: string; pointer: string; grammar?: Grammar }) {
    this.#resources = resources;
    this.#pointer = pointer;
    this.#grammar = new Map(Object.entries({ ...GRAMMAR, ...grammar }));
  }

  /** Throws `validation_failed` for a malformed rule, `recurrence_too_complex` for one that costs too much. */
  parse(text: string): RecurrenceRule {
    const parts = new Map<string, string>();
    for (const part of text.toUpperCase().replace(/^RRULE:/, "").replace(/;$/, "").split(";")) {
      const at = part.indexOf("=");
      const [name, value] = [part.slice(0, Math.max(at, 0)), part.slice(at + 1)];
      const syntax = this.#grammar.get(name);
      if (typeof syntax === "string") throw this.malformed(`${name} is not supported: ${syntax}`);
      if (syntax?.test(value) !== true) throw this.malformed(`invalid part ${part.slice(0, 40)}`);
      if (parts.has(name)) throw this.malformed(`${name} is given more than once`);
      parts.set(name, value);
    }
    const frequency = parts.get("FREQ");
    if (frequency === undefined) throw this.malformed("FREQ is missing");
    if (parts.has("COUNT") && parts.has("UNTIL")) throw this.malformed("COUNT and UNTIL are mutually exclusive");
    if (frequency === "MINUTELY" || frequency === "SECONDLY") {
      throw this.tooComplex(`the highest frequency of ${this.#resources} is hourly`);
    }
    const product = [...parts].filter(([name]) => name.startsWith("BY") && name !== "BYSETPOS")
      .reduce((all, [, value]) => all * value.split(",").length, 1);
    if (product > PRODUCT_MAX) {
      throw this.tooComplex(`its lists have ${product} combinations; at most ${PRODUCT_MAX} are allowed`);
    }
    const count = parts.get("COUNT");
    return { parts, frequency, count: count === undefined ? undefined : Number(count) };
  }

  /**
   * The first date by the rule after `afterMs`, in the zone of `start`; `undefined` when there is none. Wall times that a zone
   * skips are left out (RFC 5545). COUNT is the caller's, who knows the position in the series. Throws `recurrence_too_complex`.
   */
  nextDate(
    { parts, frequency }: RecurrenceRule,
    { timeZone, wall }: { timeZone: string; wall: string },
    afterMs: number,
  ): Temporal.ZonedDateTime | undefined {
    const text = [...parts].filter(([name]) => name !== "COUNT").map((part) => part.join("=")).join(";");
    const stamp = Temporal.PlainDateTime.from(wall).toString({ smallestUnit: "second" }).replaceAll(/[-:]/g, "");
    try {
      const next = new RRuleTemporal({
        rruleString: `DTSTART;TZID=${timeZone}:${stamp}\nRRULE:${text}`,
        maxIterations: PERIODS_MAX[frequency] ?? 1,
        maxCandidateEvaluations: CANDIDATES_MAX,
        temporal: Temporal,
      }).next(new Date(afterMs), false);
      return next === null || next === undefined ? undefined : Temporal.ZonedDateTime.from(next.toString());
    } catch (cause) {
      const detail = `${this.#pointer}: finding the next date takes too long`;
      throw new Fault("recurrence_too_complex", detail, { cause });
    }
  }

  /** Few years have a 53rd weekday, and the rule engine would continue into the next. Stored series may have such a rule. */
  assertWeekdaysExist(rrule: string): void {
    if (/(5[3-9]|[6-9]\d)(MO|TU|WE|TH|FR|SA|SU)/i.test(rrule)) throw this.malformed("BYDAY must not exceed 52");
  }

  malformed(detail: string): Fault {
    return Fault.forField(this.#pointer, "invalid_rule", detail);
  }

  tooComplex(detail: string): Fault {
    return Fault.forField(this.#pointer, "recurrence_too_complex", detail, "recurrence_too_complex");
  }
}
