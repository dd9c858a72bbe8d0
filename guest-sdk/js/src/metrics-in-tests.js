// Metrics where there is no host: their numbers are in memory.

import { metricsOf, size } from "./metric.js";

let numbers = new Map();

const place = (name, labels) => JSON.stringify([name, labels.toSorted()]);

function add(name, labels, by) {
  const at = place(name, labels);
  numbers.set(at, (numbers.get(at) ?? 0) + by);
}

/** What the host's functions do, but for the limit of series. */
function changed(name, number, labels, change) {
  if (!Number.isFinite(number)) throw new Error(`${number} is not a finite number, which \`${name}\` takes`);
  for (const [label, value] of labels) {
    if (size(value) > 200) throw new Error(`a value of ${size(value)} bytes of the label \`${label}\`, expected at most 200`);
  }
  change();
}

export const { Counter, Gauge, Histogram } = metricsOf({
  describe() {},
  add: (name, by, labels) =>
    changed(name, by, labels, () => {
      if (by < 0) throw new Error(`${by} is not a finite number of at least 0, which \`${name}\` takes`);
      add(name, labels, by);
    }),
  set: (name, value, labels) => changed(name, value, labels, () => numbers.set(place(name, labels), value)),
  change: (name, by, labels) => changed(name, by, labels, () => add(name, labels, by)),
  observe: (name, value, labels) =>
    changed(name, value, labels, () => {
      add(`${name}_count`, labels, 1);
      add(`${name}_sum`, labels, value);
    }),
});

/** The number of a series; of a histogram `words` those of `words_count` and `words_sum`. */
export function value(name, labels = {}) {
  return numbers.get(place(name, Object.entries(labels).map(([label, value]) => [label, String(value)])));
}

/** Begins anew. */
export function forget() {
  numbers = new Map();
}
