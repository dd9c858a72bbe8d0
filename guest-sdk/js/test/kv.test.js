// Buckets without a host.

import assert from "node:assert/strict";
import test, { beforeEach } from "node:test";
import { setImmediate as turn } from "node:timers/promises";

import { App } from "modelhost-guest";
import * as kv from "modelhost-guest/kv";

const bucket = kv.open();
const requests = kv.open("requests");
const app = new App().post("/limited", (request) => requests.increment(...request.fields("client"), 1, { ttl: 60 }));
const text = (value) => value && new TextDecoder().decode(value);

beforeEach(() => kv.forget());

test("an application counts", async () => {
  const counts = [];
  for (const client of "aba") counts.push((await app.answer({ path: "/limited", json: { client } })).json());
  assert.deepEqual(counts, [1, 1, 2]);
});

test("values are kept by bucket", () => {
  bucket.set("k", "grüß");
  assert.deepEqual(kv.open("default").get("k"), new TextEncoder().encode("grüß"));
  assert.deepEqual([bucket.getText("k"), kv.open("other").get("k")], ["grüß", undefined]);
  bucket.set("mark", "\ufeffa");
  assert.equal(bucket.getText("mark"), "\ufeffa");
  bucket.setJson("j", { a: [1, null] });
  assert.deepEqual([bucket.getJson("j"), bucket.getJson("none")], [{ a: [1, null] }, undefined]);
  bucket.delete("k");
  bucket.delete("k");
  assert.equal(bucket.get("k"), undefined);
  kv.forget();
  assert.deepEqual(bucket.keys(), []);
});

test("steps", () => {
  assert.deepEqual([bucket.add("k", "v"), bucket.add("k", "w")], [true, false]);
  assert.deepEqual([bucket.swap("k", "x", "w"), bucket.swap("k", "v", "w")], [false, true]);
  assert.deepEqual([bucket.swap("new", undefined, "1"), bucket.swap("new", undefined, "2")], [true, false]);
  assert.deepEqual([bucket.increment("new"), bucket.increment("n", -3), bucket.increment("n", 1n)], [2, -3, -2n]);
  assert.deepEqual([bucket.getText("k"), text(bucket.get("n"))], ["w", "-2"]);
});

test("a value is gone when its time is over", async () => {
  bucket.set("k", "v", { ttl: 0.01 });
  bucket.increment("n", 5, { ttl: 0.01 });
  const end = performance.now() + 10_000;
  while (bucket.get("k") !== undefined || bucket.get("n") !== undefined) {
    assert.ok(performance.now() < end, "the values are still there");
    await turn();
  }
  assert.deepEqual([bucket.keys(), bucket.increment("n"), bucket.add("k", "")], [[], 1, true]);
});

test("keys are listed by page", () => {
  for (const key of ["b/2", "a", "b/\u{10000}", "b/ü", "b/\u{ffff}", "b/1"]) bucket.set(key, "");
  assert.deepEqual(bucket.keys("b/"), ["b/1", "b/2", "b/ü", "b/\u{ffff}", "b/\u{10000}"]);
  assert.deepEqual(bucket.page("b/", { limit: 2 }), { keys: ["b/1", "b/2"], cursor: "b/2" });
  assert.deepEqual(bucket.page("b/2", { cursor: "b/2", limit: 2 }), { keys: [], cursor: undefined });
  for (let number = 0; number < 1001; number++) bucket.set(`many/${number}`, "");
  assert.equal(new Set(bucket.keys("many/")).size, 1001);
});

test("what cannot be used is said", () => {
  bucket.set("text", "no number");
  bucket.set("most", String(2n ** 63n - 1n));
  bucket.set("least", String(-(2n ** 63n)));
  for (const [call, message] of [
    [() => bucket.increment("text"), /the value is not a whole number of 64 bits/],
    [() => bucket.increment("text", -1), /the value is not a whole number of 64 bits/],
    [() => bucket.increment("least", -1), /the sum is beyond 64 bits/],
    [() => bucket.increment("most"), /the sum is beyond 64 bits/],
    [() => bucket.increment("n", 2n ** 63n), /a number beyond 64 bits/],
    [() => bucket.increment("n", 1.5), /`1.5` is no whole number/],
    [() => bucket.getJson("text"), /the value of `text`/],
    [() => bucket.get(""), /a key of 0 bytes/],
    [() => bucket.set("k".repeat(1025), ""), /a key of 1025 bytes/],
    ...[0, -1, Infinity, NaN].map((ttl) => [() => bucket.set("k", "", { ttl }), /a time to live of/]),
  ]) {
    assert.throws(call, { name: "KvError", kind: "invalid", message });
  }
  assert.throws(() => bucket.set("k", 1), { name: "TypeError", message: /`setJson` keeps others/ });
});
