// Counters and histograms that count in numbers. Those of prom-client make a text of their labels at each call, which was a tenth
// of what a send takes. The registry, the text format and the gauges, which only scrapes set, are prom-client's.
import type { Metric, Registry } from "prom-client";

type Labels<Label extends string> = Readonly<Record<Label, string>>;
/** What `Registry.metrics` writes as one line. */
type Sample = { metricName?: string; labels: Record<string, string | number>; value: number };

/** What families of counters and histograms share: a series for each combination of labels, created at its first use. */
abstract class Family<Label extends string, Series> {
  readonly name: string;
  readonly help: string;
  readonly aggregator = "sum";
  abstract readonly type: string;
  readonly #labelNames: readonly Label[];
  readonly #series = new Map<string, { labels: Labels<Label>; series: Series }>();

  constructor(registry: Registry, name: string, help: string, labelNames: readonly Label[]) {
    this.name = name;
    this.help = help;
    this.#labelNames = labelNames;
    // The registry needs no more of a metric than what this class has; its type names its own classes.
    registry.registerMetric(this as unknown as Metric<string>);
  }

  /** The series of these labels. Those that are written often keep it. */
  labels(labels: Labels<Label>): Series {
    const key = this.#labelNames.map((name) => labels[name]).join("\0");
    let known = this.#series.get(key);
    if (known === undefined) this.#series.set(key, known = { labels, series: this.create() });
    return known.series;
  }

  /** Called by the registry at a scrape. */
  get(): Promise<object> {
    const { name, help, type, aggregator } = this;
    const values = [...this.#series.values()].flatMap(({ labels, series }) => this.samples(labels, series));
    return Promise.resolve({ name, help, type, aggregator, values });
  }

  protected abstract create(): Series;
  protected abstract samples(labels: Labels<Label>, series: Series): Sample[];
}

/** One series of a counter. */
export class Count {
  value = 0;

  inc(by = 1): void {
    this.value += by;
  }
}

export class Counter<Label extends string> extends Family<Label, Count> {
  readonly type = "counter";

  /** Series that are counted often are taken once, with `labels`. */
  inc(labels: Labels<Label>, by = 1): void {
    this.labels(labels).value += by;
  }

  protected create(): Count {
    return new Count();
  }

  protected samples(labels: Labels<Label>, { value }: Count): Sample[] {
    return [{ labels, value }];
  }
}

/** One series of a histogram. */
export class Distribution {
  count = 0;
  sum = 0;
  /** For each upper bound the values up to it that are larger than the bound before. */
  readonly counts: number[];
  readonly #bounds: readonly number[];

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
    this.counts = bounds.map(() => 0);
  }

  observe(value: number): void {
    this.count++;
    this.sum += value;
    const { length } = this.counts;
    for (let at = 0; at < length; at++) {
      if (value <= (this.#bounds[at] ?? Infinity)) {
        this.counts[at] = (this.counts[at] ?? 0) + 1;
        return;
      }
    }
  }
}

export class Histogram<Label extends string> extends Family<Label, Distribution> {
  readonly type = "histogram";
  readonly #bounds: readonly number[];

  constructor(
    registry: Registry,
    name: string,
    help: string,
    { bounds, labelNames }: { bounds: readonly number[]; labelNames: readonly Label[] },
  ) {
    super(registry, name, help, labelNames);
    this.#bounds = bounds;
  }

  observe(labels: Labels<Label>, value: number): void {
    this.labels(labels).observe(value);
  }

  protected create(): Distribution {
    return new Distribution(this.#bounds);
  }

  protected samples(labels: Labels<Label>, { count, sum, counts }: Distribution): Sample[] {
    const metricName = `${this.name}_bucket`;
    let upTo = 0;
    return [
      ...this.#bounds.map((le, at) => ({ metricName, labels: { le, ...labels }, value: upTo += counts[at] ?? 0 })),
      { metricName, labels: { le: "+Inf", ...labels }, value: count },
      { metricName: `${this.name}_sum`, labels, value: sum },
      { metricName: `${this.name}_count`, labels, value: count },
    ];
  }
}
