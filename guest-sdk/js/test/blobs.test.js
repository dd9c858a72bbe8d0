// Containers without a host.

import assert from "node:assert/strict";
import test, { beforeEach } from "node:test";

import * as blobs from "modelhost-guest/blobs";

const container = blobs.open();
const bytes = (text) => new TextEncoder().encode(text);

beforeEach(() => blobs.forget());

test("objects are kept by container", () => {
  container.set("k/1", "0123456789");
  assert.deepEqual(blobs.open("default").get("k/1"), bytes("0123456789"));
  assert.deepEqual([container.getText("k/1"), blobs.open("other").get("k/1"), container.get("none")], ["0123456789", undefined, undefined]);
  for (const [start, end, expected] of [[2, 4, "23"], [8, 99, "89"], [5, 5, ""], [99, 100, ""]]) {
    assert.deepEqual(container.getRange("k/1", start, end), bytes(expected));
  }
  assert.equal(container.getRange("none", 5, 5), undefined);
  assert.deepEqual([container.info("k/1").size, container.info("none")], [10, undefined]);
  container.set("k/2", "\ufeffx");
  assert.equal(container.getText("k/2"), "\ufeffx");
  assert.deepEqual([container.names(), container.names(1)], [["k/1", "k/2"], ["k/1"]]);
  container.delete("k/1");
  container.delete("k/1");
  assert.deepEqual(container.names(), ["k/2"]);
  container.clear();
  assert.deepEqual(container.names(), []);
});

test("an object is there when it is finished", () => {
  const writer = container.writer("k");
  writer.write("ab");
  assert.equal(container.get("k"), undefined);
  writer.write(bytes("c"));
  writer.finish();
  const reader = container.reader("k");
  assert.deepEqual([reader.size, reader.read(2), reader.rest(), reader.read(1)], [3, bytes("ab"), bytes("c"), bytes("")]);
  const half = container.writer("k");
  half.write("half");
  half.abort();
  half.abort();
  assert.equal(container.getText("k"), "abc");
  for (const piece of container.reader("k")) assert.deepEqual(piece, bytes("abc"));
});

test("what cannot be used is refused", () => {
  assert.throws(() => container.set("", ""), { name: "BlobError", message: /a name of 0 bytes, expected 1 to 512/ });
  assert.throws(() => container.set("k", 1), { name: "TypeError", message: /bytes or a text, and not number/ });
  assert.equal(container.get("k"), undefined);
  container.set("k", new Uint8Array([0xff]));
  assert.throws(() => container.getText("k"), { name: "BlobError", message: /`k` is not UTF-8/ });
  const writer = container.writer("k");
  writer.finish();
  assert.throws(() => writer.write("late"), { name: "BlobError", message: /finished/ });
});
