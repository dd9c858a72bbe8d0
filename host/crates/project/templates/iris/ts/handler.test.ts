// Unit tests, without a host: npm test

import assert from "node:assert/strict";
import test from "node:test";

import { Sample, Tensor, Tensors } from "modelhost-guest";

import { answer, load, prepare } from "./handler.js";

const FLOWER = { sepal_length: 5.2, sepal_width: 3.6, petal_length: 1.4, petal_width: 0.3 };

test("a flower becomes one row", () => {
  assert.deepEqual(prepare(new Sample(FLOWER)), new Tensor([[5.2, 3.6, 1.4, 0.3]]));
});

test("a measurement that is missing is named", () => {
  const { petal_width: _, ...rest } = FLOWER;
  assert.throws(() => prepare(new Sample(rest)), { name: "InvalidInput", message: "missing field `petal_width`" });
});

test("the largest probability names the flower", () => {
  load({ labels: ["a", "b"] });
  const outputs = new Tensors(new Tensor([[0.25, 0.75]], { name: "probabilities" }));
  assert.equal(answer(outputs).class_label, "b");
});
