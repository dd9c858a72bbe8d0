// Counters, gauges and histograms, of the host's or of a test's: what both have in common.

import { described } from "./released.js";

const NAME = /^[a-zA-Z_][a-zA-Z0-9_]*$/;
/** What names the server's metrics, parts of metrics, and labels of the server. */
const BEGINNINGS = ["modelhost_", "process_"];
const ENDS = ["_bucket", "_count", "_sum", "_created"];
const LABELS = ["endpoint", "le", "quantile"];

/** A text's bytes of UTF-8. */
export function size(text) {
  return new TextEncoder().encode(text).length;
}

/** The classes of metrics that a host's functions keep. */
export function metricsOf(host) {
  /** A metric, or with values of its labels a series of it. */
  class Metric {
    #kind;
    #name;
    #help;
    #labelNames;
    #bounds;

    constructor(kind, { name, help = "", labelNames = [], buckets = [] }) {
      this.#kind = kind;
      this.#name = named(name, kind);
      this.#help = help;
      this.#labelNames = [...labelNames];
      checkLabels(this.#name, this.#labelNames);
      // The last bucket of Prometheus, which every histogram has.
      this.#bounds = buckets.at(-1) === Infinity ? buckets.slice(0, -1) : [...buckets];
      checkDescription(this.#name, help, this.#bounds);
    }

    /** The series with these values of the labels: an object, or texts in the order of their names. */
    labels(...values) {
      return this.series(typeof values[0] === "object" ? values[0] : this.#zipped(values));
    }

    #zipped(values) {
      if (values.length > this.#labelNames.length) throw new Error(`${values.length} values for the labels ${this.#names()} of \`${this.#name}\``);
      return Object.fromEntries(values.map((value, at) => [this.#labelNames[at], value]));
    }

    #names() {
      return this.#labelNames.map((it) => `\`${it}\``).join(", ") || "[]";
    }

    /** Changes the series with these labels. */
    change(operation, labels, number) {
      if (typeof number !== "number") throw new TypeError(`\`${this.#name}\` takes a number, and not ${typeof number}`);
      const other = Object.keys(labels).find((it) => !this.#labelNames.includes(it));
      if (other !== undefined) throw new Error(`\`${this.#name}\` has the labels ${this.#names()}, and not \`${other}\``);
      const pairs = this.#labelNames.map((name) => {
        if (labels[name] === undefined) throw new Error(`the label \`${name}\` of \`${this.#name}\` has no value`);
        return [name, String(labels[name])];
      });
      try {
        if (!described.has(this.#name)) {
          host.describe(this.#name, this.#kind, this.#help, Float64Array.from(this.#bounds));
          described.add(this.#name);
        }
        host[operation](this.#name, number, pairs);
      } catch (error) {
        throw typeof error?.payload === "string" ? new Error(error.payload) : error;
      }
    }
  }

  /** A number that only grows. A name that does not end in `_total` gets it. */
  class Counter extends Metric {
    constructor(options) {
      super("counter", options);
    }

    inc(...given) {
      const [labels, number] = split(given, 1);
      this.change("add", labels, number);
    }

    series(labels) {
      return { inc: (number = 1) => this.inc(labels, number) };
    }
  }

  /** A number that goes up and down. Of all instances the one that set it last holds. */
  class Gauge extends Metric {
    constructor(options) {
      super("gauge", options);
    }

    set(...given) {
      this.change("set", ...split(given));
    }

    inc(...given) {
      this.change("change", ...split(given, 1));
    }

    dec(...given) {
      const [labels, number] = split(given, 1);
      this.change("change", labels, -number);
    }

    setToCurrentTime(labels = {}) {
      this.set(labels, Date.now() / 1000);
    }

    /** Sets the seconds until the function that it gives is called. */
    startTimer(labels = {}) {
      return timer(labels, (all, seconds) => this.set(all, seconds));
    }

    series(labels) {
      return {
        set: (number) => this.set(labels, number),
        inc: (number = 1) => this.inc(labels, number),
        dec: (number = 1) => this.dec(labels, number),
        setToCurrentTime: () => this.setToCurrentTime(labels),
        startTimer: () => this.startTimer(labels),
      };
    }
  }

  /** The distribution of numbers over buckets, of which there are at most 30. */
  class Histogram extends Metric {
    constructor(options) {
      super("histogram", options);
    }

    observe(...given) {
      this.change("observe", ...split(given));
    }

    /** Counts the seconds until the function that it gives is called. */
    startTimer(labels = {}) {
      return timer(labels, (all, seconds) => this.observe(all, seconds));
    }

    series(labels) {
      return { observe: (number) => this.observe(labels, number), startTimer: () => this.startTimer(labels) };
    }
  }

  return { Counter, Gauge, Histogram };
}

/** `(labels, number)` or `(number)`. */
function split(given, otherwise) {
  const [labels, number] = typeof given[0] === "object" && given[0] !== null ? given : [{}, given[0]];
  return [labels, number === undefined ? otherwise : number];
}

function timer(labels, measured) {
  const start = performance.now();
  return (more = {}) => {
    const seconds = (performance.now() - start) / 1000;
    measured({ ...labels, ...more }, seconds);
    return seconds;
  };
}

/** The name of a metric, a counter's with its end. */
export function named(name, kind) {
  checkName(name, 100);
  const beginning = BEGINNINGS.find((it) => name.startsWith(it));
  if (beginning) throw new Error(`the metric \`${name}\` begins with \`${beginning}\`, which names the server's`);
  const end = ENDS.find((it) => name.endsWith(it));
  if (end) throw new Error(`the metric \`${name}\` ends in \`${end}\`, which names a part of one`);
  const isTotal = name.endsWith("_total");
  if (kind === "counter") return isTotal ? name : `${name}_total`;
  if (isTotal) throw new Error(`the metric \`${name}\` ends in \`_total\`, which names a counter`);
  return name;
}

function checkLabels(name, labels) {
  if (labels.length > 8) throw new Error(`\`${name}\` has ${labels.length} labels, expected at most 8`);
  labels.forEach((label, at) => {
    checkName(label, 50);
    if (label.startsWith("__") || LABELS.includes(label)) throw new Error(`the label \`${label}\` of \`${name}\` has a name of the server's`);
    if (labels.indexOf(label) < at) throw new Error(`\`${name}\` has the label \`${label}\` twice`);
  });
}

function checkDescription(name, help, bounds) {
  if (size(help) > 200 || /[\r\n]/.test(help)) throw new Error(`the help text of \`${name}\` is not one line of at most 200 bytes`);
  if (bounds.length > 30) throw new Error(`\`${name}\` has ${bounds.length} buckets, expected at most 30`);
  bounds.forEach((bound, at) => {
    if (!Number.isFinite(bound) || bound <= bounds[at - 1]) {
      throw new Error(`the bound ${bound} of \`${name}\` is not finite, or not greater than the one before`);
    }
  });
}

function checkName(name, most) {
  if (typeof name !== "string") throw new TypeError(`a name is a text, and not ${typeof name}`);
  if (name.length < 1 || name.length > most) throw new Error(`a name of ${name.length} characters, expected 1 to ${most}`);
  if (!NAME.test(name)) throw new Error(`the name \`${name}\` has other characters than letters, digits and \`_\`, or begins with a digit`);
}
