// The endpoint's models where there is no host: a test says what they answer.

import { ModelError } from "./model-error.js";
import { Tensors, tensors } from "./tensor.js";

let answers = {};

/** What the models answer, each a function from its inputs to its outputs. The empty name is the first. */
export function answerWith(models) {
  answers = models;
}

export function names() {
  return Object.keys(answers);
}

export function describe() {
  return { inputs: [], outputs: [] };
}

export function infer(inputs, model = "") {
  const answer = answers[model === "" ? names()[0] : model];
  if (answer === undefined) throw new ModelError("no-such-model", model);
  return Tensors.from(tensors(answer(Tensors.from(tensors(inputs)))));
}

export function run(inputs, { model = "", outputs = [] } = {}) {
  const named = Object.fromEntries(Object.entries(inputs).map(([name, { tensor }]) => [name, tensor]));
  const answered = infer(named, model);
  const wanted = outputs.length === 0 ? answered : outputs.map((name) => answered.named(name));
  return Object.fromEntries(wanted.map((tensor) => [tensor.name, new Resident(tensor)]));
}

export function start(inputs, options) {
  const given = run(inputs, options);
  return { wait: () => given };
}

export class Resident {
  constructor(tensor) {
    this.tensor = tensor;
  }

  get datatype() {
    return this.tensor.datatype;
  }

  get shape() {
    return this.tensor.shape;
  }

  read() {
    return this.tensor;
  }

  reshape(...shape) {
    return new Resident(this.tensor.reshape(...shape));
  }

  rows(start, count) {
    return new Resident(this.tensor.rows(start, count));
  }

  close() {}
}

export { ModelError } from "./model-error.js";
