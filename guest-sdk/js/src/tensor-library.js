// What is done with tensors around a model, by the library `tensor`, which `modelhost build` puts into the handler.
//
// modelhost.toml names it, `[build]` with `with = ["tensor"]`.

import * as arithmetic from "modelhost:tensor/arithmetic@0.1.0";

import { bytesOf } from "./bytes.js";
import { operations } from "./tensor-arguments.js";
import { Tensor } from "./tensor.js";

export const { argmax, topK, softmax, normalise, meanPool, concat, gather, suppress } = operations(called);

/** For tests, which have no library. */
export function answerWith() {
  throw new Error("only a test says what comes of tensors");
}

function called(operation, ...given) {
  let made;
  try {
    made = arithmetic[operation](...given.map(toLibrary));
  } catch (error) {
    const said = error?.payload ?? error;
    throw typeof said === "string" ? new TypeError(said) : error;
  }
  return Array.isArray(made) ? made.map(fromLibrary) : fromLibrary(made);
}

function toLibrary(value) {
  if (Array.isArray(value)) return value.map(toLibrary);
  if (!(value instanceof Tensor)) return value;
  const { datatype, shape, data } = value;
  if (datatype === "BYTES") throw new TypeError("a tensor of BYTES has no numbers");
  return { datatype: datatype === "BOOL" ? "boolean" : datatype.toLowerCase(), shape: BigUint64Array.from(shape, BigInt), data };
}

function fromLibrary({ datatype, shape, data }) {
  const name = datatype === "boolean" ? "BOOL" : datatype.toUpperCase();
  return Tensor.raw(bytesOf(data), name, Array.from(shape, Number));
}
