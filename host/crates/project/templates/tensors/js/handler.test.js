// Unit tests, without a host: node --test

import assert from "node:assert/strict";
import test from "node:test";

import { Context, Tensor, Tensors } from "modelhost-guest";

import { answer, load, prepare } from "./handler.js";

const FLOWERS = Tensors.of(new Tensor([[50, 30, 10, 0]], { name: "measurements" }));

test("millimetres become centimetres", () => {
  const tensor = prepare(FLOWERS, new Context({ parameters: { unit: "mm" } }));
  assert.deepEqual(tensor, new Tensor([[5, 3, 1, 0]]));
});

test("a unit that is none is refused", () => {
  const context = new Context({ parameters: { unit: "inch" } });
  assert.throws(() => prepare(FLOWERS, context), { message: "parameter `unit`: expected one of cm, mm" });
});

test("each flower gets its name", () => {
  load({ labels: ["a", "b"] });
  const outputs = Tensors.of(new Tensor([[0.25, 0.75], [1, 0]], { name: "probabilities" }));
  assert.deepEqual(answer(outputs), { label: new Tensor(["b", "a"]), probability: new Tensor([0.75, 1]) });
});
