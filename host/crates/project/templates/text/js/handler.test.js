// Unit tests, without a host: node --test

import assert from "node:assert/strict";
import test from "node:test";

import { Context, Sample, Tensor, Tensors } from "modelhost-guest";

import { answer, prepare } from "./handler.js";
import WORDS from "./vocabulary.json" with { type: "json" };

test("words become numbers", () => {
  const tensor = prepare(new Sample({ text: "Great, zzz!" }));
  assert.deepEqual(tensor, new Tensor([[BigInt(WORDS.indexOf("great")), 0n]]));
});

test("a text without words is refused", () => {
  assert.throws(() => prepare(new Sample({ text: "?!" })), { name: "InvalidInput", message: /no words/ });
});

test("the larger score is the label", () => {
  const context = new Context({ sample: new Sample({ text: "great zzz" }) });
  const outputs = Tensors.of(new Tensor([[0.25, 0.75]]));
  assert.deepEqual(answer(outputs, context), { label: "positive", score: 0.75, unknown: ["zzz"] });
});
