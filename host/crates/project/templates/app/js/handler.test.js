// Unit tests, without a host: node --test

import assert from "node:assert/strict";
import test, { beforeEach } from "node:test";

import { Tensor } from "modelhost-guest";
import * as models from "modelhost-guest/models";

import app from "./handler.js";

const FLOWER = [5.2, 3.6, 1.4, 0.3];

beforeEach(() => {
  app.start({ labels: ["a", "b"] });
  models.answerWith({ iris: () => ({ probabilities: new Tensor([[0.25, 0.75]]) }) });
});

test("one flower is named", async () => {
  const answer = await app.answer({ path: "/classify", json: { measurements: FLOWER } });
  assert.deepEqual(answer.json(), { label: "b", probability: 0.75 });
});

test("what is missing is named", async () => {
  const answer = await app.answer({ path: "/classify", json: {} });
  assert.deepEqual([answer.status, answer.json().error], [400, "missing field `measurements`"]);
});

test("what is wrong is the caller's to correct", async () => {
  for (const measurements of [FLOWER.slice(1), "5.2", ["a", "b", "c", "d"], null]) {
    const answer = await app.answer({ path: "/classify", json: { measurements } });
    assert.deepEqual([answer.status, answer.json().error], [400, "`measurements` are 4 numbers"]);
  }
  const answer = await app.answer({ path: "/stream", json: { flowers: 5 } });
  assert.deepEqual([answer.status, answer.json().error], [400, "`flowers` is a list of measurements"]);
});

test("several are named one after another", async () => {
  const answer = await app.answer({ path: "/stream", json: { flowers: [FLOWER, FLOWER] } });
  assert.equal(answer.text(), 'data: {"label":"b","probability":0.75}\n\n'.repeat(2));
});

test("a job is answered at once", async () => {
  assert.deepEqual((await app.answer({ path: "/jobs", json: { flowers: [] } })).json(), { started: true });
});
