// The endpoint's models, called by the handler: by value, or with tensors that stay with the host.

import * as host from "modelhost:handler/models@0.1.0";

import { bytesOf } from "./bytes.js";
import { signatureOf } from "./context.js";
import { asked } from "./model-error.js";
import { hold, release } from "./released.js";
import { Tensor, fromHost, tensors, toHost } from "./tensor.js";

/** Names, in the configuration's order. The first is what an empty name means. */
export function names() {
  return host.names();
}

/** The model's inputs and outputs. */
export function describe(model = "") {
  return signatureOf(asked(() => host.describe(model)));
}

/** Runs the model by value: `inputs` is a tensor, several, or an object of them by name. Outputs are by place and by name. */
export function infer(inputs, model = "") {
  return fromHost(asked(() => host.infer(model, toHost(tensors(inputs)))));
}

/**
 * Runs the model with tensors that the host holds: an object of `Resident` by name, here and as the result. `outputs` names those
 * that are wanted; none means all.
 */
export function run(inputs, { model = "", outputs = [] } = {}) {
  return residents(asked(() => host.run(model, handles(inputs), outputs)));
}

/** The same without waiting: `wait()` of the result gives the outputs. Runs that are started together go on together. */
export function start(inputs, { model = "", outputs = [] } = {}) {
  const pending = hold(asked(() => host.start(model, handles(inputs), outputs)));
  return {
    wait() {
      const given = residents(asked(() => pending.wait()));
      release(pending);
      return given;
    },
  };
}

/** A tensor that the host holds. What is not read is not copied. It goes with the request, or with `close()`. */
export class Resident {
  constructor({ datatype, shape, data }) {
    this.handle = hold(asked(() => host.Resident.make(datatype.toLowerCase(), shape.map(BigInt), data)));
  }

  static of(handle) {
    return Object.assign(Object.create(Resident.prototype), { handle: hold(handle) });
  }

  get datatype() {
    return this.handle.datatype().toUpperCase();
  }

  get shape() {
    return Array.from(this.handle.shape(), Number);
  }

  /** A copy of all of it. */
  read(name = "") {
    return Tensor.raw(bytesOf(asked(() => this.handle.read())), this.datatype, this.shape, name);
  }

  /** The same elements under another shape, without a copy. */
  reshape(...shape) {
    return Resident.of(asked(() => this.handle.reshape(shape.flat().map(BigInt))));
  }

  /** `count` rows from `start` along the first axis, without a copy. */
  rows(start, count) {
    return Resident.of(asked(() => this.handle.rows(BigInt(start), BigInt(count))));
  }

  /** Gives it up before the request ends. */
  close() {
    release(this.handle);
  }
}

/** For tests, which have no host. */
export function answerWith() {
  throw new Error("only a test says what models answer");
}

function handles(inputs) {
  return Object.entries(inputs).map(([name, { handle }]) => [name, handle]);
}

function residents(outputs) {
  return Object.fromEntries(outputs.map(([name, handle]) => [name, Resident.of(handle)]));
}

export { ModelError } from "./model-error.js";
