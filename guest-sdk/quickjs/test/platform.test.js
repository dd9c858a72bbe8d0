// What handlers find of the web's platform on QuickJS, in Node: `web.js` and `fetch.js` with a runtime of the test's.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import vm from "node:vm";

/** The globals of a fresh realm, and what the runtime has of it. */
function platform() {
  const realm = vm.createContext();
  const ran = (name) => vm.runInContext(readFileSync(new URL(`../${name}`, import.meta.url), "utf8"), realm, name);
  const time = { now: 0 };
  const { define, bytesOf, joined, ...runtime } = ran("web.js")({
    now: () => time.now,
    fillRandom: (into) => into.fill(7),
    encode: (text) => new TextEncoder().encode(text),
    decode: (bytes) => new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes),
    out: () => {},
    err: () => {},
  });
  ran("fetch.js")(define, bytesOf, joined, ran("forms.js")(define, bytesOf, joined));
  return { ...vm.runInContext("({ ReadableStream, Request, Response, Blob, File, FormData, setTimeout, setInterval, TextEncoder })", realm), ...runtime, time };
}

const { ReadableStream, Request, Response } = platform();
const later = () => new Promise((resolve) => setTimeout(resolve, 1));

async function all(stream) {
  const pieces = [];
  for await (const piece of stream) pieces.push(piece);
  return pieces;
}

/** A stream of so many pieces, whose source waits before it has one and after. */
function slow(count, log = []) {
  let next = 0;
  return new ReadableStream({
    async pull(controller) {
      log.push("pull");
      await later();
      if (next < count) controller.enqueue(String(next++));
      else controller.close();
      await later();
      log.push("pulled");
    },
    cancel: (reason) => log.push(reason),
  });
}

test("a source that waits behind its piece is asked for the next", async () => {
  const log = [];
  assert.deepEqual(await all(slow(3, log)), ["0", "1", "2"]);
  await later();
  await later();
  assert.deepEqual(log, Array(4).fill(["pull", "pulled"]).flat(), "one at a time");
});

test("reads that come together have a piece each", async () => {
  const reader = slow(2).getReader();
  const read = await Promise.all([reader.read(), reader.read(), reader.read()]);
  assert.deepEqual(read.map(({ value, done }) => value ?? done), ["0", "1", true]);
});

test("a source may have its piece after its pull", async () => {
  let pulls = 0;
  const stream = new ReadableStream({
    pull(controller) {
      pulls++;
      setTimeout(() => (pulls < 3 ? controller.enqueue(pulls) : controller.close()), 1);
    },
  });
  assert.deepEqual([await all(stream), pulls], [[1, 2], 3]);
});

test("pieces are there before an asynchronous start ends, and a pull is not", async () => {
  const log = [];
  const stream = new ReadableStream({
    async start(controller) {
      controller.enqueue("a");
      await later();
      controller.enqueue("b");
      await later();
      log.push("started");
    },
    pull(controller) {
      log.push("pull");
      controller.close();
    },
  });
  const reader = stream.getReader();
  assert.deepEqual([(await reader.read()).value, (await reader.read()).value, log.length], ["a", "b", 0]);
  assert.ok((await reader.read()).done);
  assert.deepEqual(log, ["started", "pull"]);
});

test("a source that fails ends the stream with its error", async () => {
  const failing = new ReadableStream({
    async pull() {
      throw new Error("as asked");
    },
  });
  const branches = failing.tee().map(all);
  for (const branch of branches) await assert.rejects(branch, /as asked/);
});

test("a stream becomes two", async () => {
  const [first, second] = slow(3).tee();
  assert.deepEqual(await all(first), ["0", "1", "2"]);
  assert.deepEqual(await all(second), ["0", "1", "2"]);
  assert.deepEqual(await Promise.all(slow(2).tee().map(all)), [["0", "1"], ["0", "1"]]);
  const log = [];
  const [left, kept] = slow(2, log).tee();
  await left.cancel("left");
  assert.deepEqual(await all(kept), ["0", "1"]);
  const both = slow(2, log).tee();
  await both[0].cancel("one");
  await both[1].cancel("both");
  assert.deepEqual(log.filter((it) => !it.startsWith("pull")), ["both"]);
});

test("a body that was cloned is there twice", async () => {
  const head = { method: "POST", headers: { "x-a": "1" } };
  for (const body of [() => "01", () => slow(2), () => new Uint8Array([48, 49])]) {
    for (const made of [new Request("http://a/b", { ...head, body: body() }), new Response(body(), { status: 201, headers: head.headers })]) {
      const { status } = made;
      const copy = made.clone();
      assert.ok(copy instanceof made.constructor && copy !== made);
      assert.deepEqual([copy.url, copy.method, copy.status, copy.headers.get("x-a")], [made.url, made.method, status, "1"]);
      assert.deepEqual([copy.headers.get("content-type"), await copy.text()], [made.headers.get("content-type"), "01"]);
      assert.equal(await made.clone().text(), "01");
      assert.equal(await made.text(), "01");
      assert.throws(() => made.clone(), { name: "TypeError" });
    }
  }
  assert.equal(new Response(null).clone().body, null);
  const looked = new Request("http://a/", { method: "POST", body: "01" });
  assert.equal((await all(looked.clone().body)).length, 1);
  assert.ok(looked.body && (await looked.clone().text()) === "01" && (await looked.text()) === "01");
});

test("timers run in the order of their times, and none is left behind a call", () => {
  const own = platform();
  const log = [];
  own.setTimeout(() => log.push("late"), 20);
  own.setInterval(() => log.push("again"), 5);
  assert.equal(own.fireTimers(), 5);
  own.time.now = 5;
  assert.deepEqual([own.fireTimers(), own.fireTimers()], [0, 5]);
  own.dropTimers();
  own.time.now = 100;
  assert.deepEqual([own.fireTimers(), log], [-1, ["again"]]);
});

test("bodies are blobs, forms and fields", async () => {
  const { Blob, File, FormData, Request, Response } = platform();
  const form = new FormData();
  form.append("title", "h\u00e9\n");
  form.append("file", new File([new Uint8Array([97, 255]), new Blob(["b"])], 'a"\u00fc.bin', { type: "Image/PNG" }));
  form.append("blob", new Blob([]), "empty");
  const sent = new Request("http://a/", { method: "POST", body: form });
  // Node reads what was sent.
  const read = await new globalThis.Response(await sent.bytes(), { headers: [...sent.headers] }).formData();
  assert.equal(read.get("title"), "h\u00e9\r\n");
  const file = read.get("file");
  assert.deepEqual([file.name, file.type, [...new Uint8Array(await file.arrayBuffer())]], ['a"\u00fc.bin', "image/png", [97, 255, 98]]);
  assert.deepEqual([read.get("blob").name, read.get("blob").size], ["empty", 0]);
  const blob = await new Response(new Blob(["x"], { type: "text/csv" })).blob();
  assert.deepEqual([blob.type, blob.size, await blob.text()], ["text/csv", 1, "x"]);
  assert.equal(new Response("x").headers.get("content-type"), "text/plain;charset=UTF-8");
  form.set("title", "new");
  form.delete("blob");
  assert.deepEqual([...form.keys()], ["title", "file"]);
});
