// The types of `modelhost-guest/metrics`, for TypeScript and for editors.

/** What a metric is made with. A name or a label that cannot be used is an error. */
export interface MetricOptions<L extends string = string> {
  name: string;
  /** One line of at most 200 bytes. */
  help?: string;
  /** At most 8. */
  labelNames?: readonly L[];
}

export interface HistogramOptions<L extends string = string> extends MetricOptions<L> {
  /** At most 30 upper bounds, each greater than the one before; without, those of Prometheus, 0.005 to 10. */
  buckets?: number[];
}

/** The value of each label. */
export type LabelValues<L extends string = string> = Partial<Record<L, string | number>>;

/** A number that only grows. A name that does not end in `_total` gets it. */
export class Counter<L extends string = string> {
  constructor(options: MetricOptions<L>);
  /** Adds to the number, 1 unless said. */
  inc(by?: number): void;
  inc(labels: LabelValues<L>, by?: number): void;
  labels(...values: (string | number)[]): Counter.Series;
  labels(values: LabelValues<L>): Counter.Series;
}

export namespace Counter {
  interface Series {
    inc(by?: number): void;
  }
}

/** A number that goes up and down. Of all instances the one that set it last holds. */
export class Gauge<L extends string = string> {
  constructor(options: MetricOptions<L>);
  set(value: number): void;
  set(labels: LabelValues<L>, value: number): void;
  /** Adds to the number, 1 unless said. */
  inc(by?: number): void;
  inc(labels: LabelValues<L>, by?: number): void;
  /** Subtracts from the number, 1 unless said. */
  dec(by?: number): void;
  dec(labels: LabelValues<L>, by?: number): void;
  /** Sets the number to the time, in seconds since 1970. */
  setToCurrentTime(labels?: LabelValues<L>): void;
  /** Sets the seconds until the function that it gives is called, which returns them. */
  startTimer(labels?: LabelValues<L>): (labels?: LabelValues<L>) => number;
  labels(...values: (string | number)[]): Gauge.Series;
  labels(values: LabelValues<L>): Gauge.Series;
}

export namespace Gauge {
  interface Series {
    set(value: number): void;
    inc(by?: number): void;
    dec(by?: number): void;
    setToCurrentTime(): void;
    startTimer(): () => number;
  }
}

/** The distribution of numbers over buckets. */
export class Histogram<L extends string = string> {
  constructor(options: HistogramOptions<L>);
  /** Counts a number into the buckets. */
  observe(value: number): void;
  observe(labels: LabelValues<L>, value: number): void;
  /** Counts the seconds until the function that it gives is called, which returns them. */
  startTimer(labels?: LabelValues<L>): (labels?: LabelValues<L>) => number;
  labels(...values: (string | number)[]): Histogram.Series;
  labels(values: LabelValues<L>): Histogram.Series;
}

export namespace Histogram {
  interface Series {
    observe(value: number): void;
    startTimer(): () => number;
  }
}

/** For tests: the number of a series; of a histogram `words` those of `words_count` and `words_sum`. */
export function value(name: string, labels?: LabelValues): number | undefined;
/** For tests: begins anew. */
export function forget(): void;
