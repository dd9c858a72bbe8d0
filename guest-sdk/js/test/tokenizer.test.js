// Tokens without a library.

import assert from "node:assert/strict";
import test from "node:test";

import { InvalidInput } from "modelhost-guest";
import { TokenizerError, answerWith, load } from "modelhost-guest/tokenizer";

test("tokens are what the test says", () => {
  const words = load(new Uint8Array(0));
  assert.throws(() => words.encode("a text"), /answerWith/);
  answerWith((...texts) => texts.map((text) => text.length), (ids) => ids.join());
  const made = words.encode(["one", "three"], { seconds: ["2", "4"], padding: 3 });
  assert.deepEqual([made.ids.name, Array.from(made.ids.values, Number)], ["input_ids", [3, 1, 0, 5, 1, 0]]);
  assert.deepEqual([made.mask.name, Array.from(made.mask.values, Number)], ["attention_mask", [1, 1, 0, 1, 1, 0]]);
  assert.deepEqual([made.types.name, made.types.shape], ["token_type_ids", [2, 3]]);
  assert.deepEqual(Array.from(words.encode("one", { truncation: 1 }).ids.values, Number), [3]);
  assert.equal(words.decode(made.ids), "3,1,0,5,1,0");
});

test("what is said wrongly is told", () => {
  for (const wrong of [{ padding: "max" }, { truncation: "longest" }]) {
    assert.throws(() => load(new Uint8Array(0)).encode("a text", wrong), /none of/);
  }
});

test("a text without tokens is the caller's", () => {
  assert.ok(new TokenizerError("too long") instanceof InvalidInput);
});
