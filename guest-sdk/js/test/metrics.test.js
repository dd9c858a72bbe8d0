// Metrics without a host.

import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import test, { beforeEach } from "node:test";

import { App } from "modelhost-guest";
import * as metrics from "modelhost-guest/metrics";

const { Counter, Gauge, Histogram, value } = metrics;
const flowers = new Counter({ name: "flowers", help: "Flowers by species", labelNames: ["species", "size"] });
const requests = new Counter({ name: "requests_total" });
const age = new Gauge({ name: "age_seconds" });
const words = new Histogram({ name: "words", labelNames: ["of"], buckets: [1, 10, Infinity] });
const app = new App().post("/count", () => {
  requests.inc();
  return value("requests_total");
});

// The rules of all SDKs and of the host: beside a copy of these tests, or in the repository.
const places = ["metrics.json", "../../../tests/languages/metrics.json"].map((path) => new URL(path, import.meta.url));
const rules = JSON.parse(readFileSync(places.find((place) => existsSync(place)), "utf8"));

beforeEach(() => metrics.forget());

test("an application counts", async () => {
  const counts = [];
  for (let at = 0; at < 2; at++) counts.push((await app.answer({ path: "/count", json: {} })).json());
  assert.deepEqual(counts, [1, 2]);
});

test("numbers are kept by series", () => {
  flowers.inc({ species: "setosa", size: 1 });
  flowers.inc({ size: 1, species: "setosa" }, 2);
  flowers.labels("setosa", 1).inc();
  flowers.labels({ species: "setosa", size: 1 }).inc(0.5);
  assert.equal(value("flowers_total", { species: "setosa", size: 1 }), 4.5);
  assert.equal(value("flowers_total", { species: "virginica", size: 1 }), undefined);
  age.set(12);
  age.inc();
  age.dec(3);
  assert.equal(value("age_seconds"), 10);
  words.observe({ of: "x" }, 3);
  words.labels("x").observe(5);
  assert.deepEqual([value("words_count", { of: "x" }), value("words_sum", { of: "x" })], [2, 8]);
  metrics.forget();
  assert.equal(value("age_seconds"), undefined);
});

test("times are measured", () => {
  const seconds = words.startTimer()({ of: "x" });
  assert.ok(seconds >= 0);
  assert.equal(value("words_sum", { of: "x" }), seconds);
  assert.equal(age.startTimer()(), value("age_seconds"));
  age.setToCurrentTime();
  assert.ok(Math.abs(value("age_seconds") - Date.now() / 1000) < 60);
});

test("names and labels have the rules of the host", () => {
  const kinds = { counter: Counter, gauge: Gauge, histogram: Histogram };
  const cases = [
    ...rules.names.map(({ kind, name, times = 1, good }) => [kinds[kind], { name: name.repeat(times) }, good]),
    ...rules.labels.map(({ labels, good }) => [Gauge, { name: "a", labelNames: labels }, good]),
  ];
  for (const [Kind, options, isGood] of cases) {
    const made = () => new Kind(options);
    if (isGood) made();
    else assert.throws(made, undefined, JSON.stringify(options));
  }
});

test("what cannot be used is said", () => {
  const labelled = (...labelNames) => new Counter({ name: "a", labelNames });
  for (const [made, message] of [
    [() => new Counter({ name: "a".repeat(101) }), /a name of 101 characters/],
    [() => new Counter({ name: "a-b" }), /the name `a-b` has other characters/],
    [() => new Counter({ name: "modelhost_a" }), /begins with `modelhost_`/],
    [() => new Counter({ name: "a_bucket" }), /ends in `_bucket`/],
    [() => new Counter({}), /a name is a text/],
    [() => labelled("le"), /the label `le` of `a_total`/],
    [() => labelled("__a"), /the label `__a`/],
    [() => labelled("b", "b"), /the label `b` twice/],
    [() => labelled(..."bcdefghij"), /9 labels, expected at most 8/],
    ...["\n", "\r"].map((end) => [() => new Counter({ name: "a", help: `x${end}y` }), /one line/]),
    [() => new Counter({ name: "a", help: "é".repeat(101) }), /at most 200 bytes/],
    [() => new Histogram({ name: "a", buckets: [2, 1] }), /the bound 1/],
    [() => new Histogram({ name: "a", buckets: Array.from({ length: 31 }, (_, at) => at) }), /31 buckets/],
    [() => flowers.inc(), /the label `species` of `flowers_total` has no value/],
    [() => flowers.inc({ species: "a", size: 1, colour: "red" }), /and not `colour`/],
    [() => flowers.labels("a", "b", "c"), /3 values/],
    [() => flowers.labels("é".repeat(101), 1).inc(), /a value of 202 bytes of the label `species`/],
    [() => requests.inc(-1), /-1 is not a finite number of at least 0/],
    [() => requests.inc("1"), /takes a number, and not string/],
    [() => age.set(Infinity), /Infinity is not a finite number/],
    [() => age.set(), /takes a number, and not undefined/],
    [() => words.observe({ of: "x" }, NaN), /NaN is not a finite number/],
  ]) {
    assert.throws(made, { message });
  }
  assert.deepEqual([value("requests_total"), value("age_seconds"), value("words_count", { of: "x" })], [undefined, undefined, undefined]);
});
