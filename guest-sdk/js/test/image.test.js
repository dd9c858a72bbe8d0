// Pictures without a library.

import assert from "node:assert/strict";
import test from "node:test";

import { InvalidInput, Tensor } from "modelhost-guest";
import { ImageError, answerWith, prepare } from "modelhost-guest/image";

test("a picture is what the test says", () => {
  assert.throws(() => prepare(new Uint8Array(4)), /answerWith/);
  const tensor = new Tensor(new Float32Array(3), { shape: [1, 3, 1, 1] });
  answerWith((file) => ({ tensor, width: file.length, height: 1, offset: [0, 0], scale: [1, 1] }));
  assert.equal(prepare(new Uint8Array(4), { size: 1 }).width, 4);
});

test("what is said wrongly is told", () => {
  for (const wrong of [{ fit: "crop" }, { filter: "cubic" }, { datatype: "FP64" }, { layout: "CHW" }]) {
    assert.throws(() => prepare(new Uint8Array(4), wrong), /is none of/);
  }
});

test("a file that is no picture is the caller's", () => {
  assert.ok(new ImageError("invalid", "broken") instanceof InvalidInput);
});
