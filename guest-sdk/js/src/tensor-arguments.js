// What is done with tensors, by name: the same in a component and in a test.

import { Tensor } from "./tensor.js";

/** The operations, of which `call(name, ...arguments)` does one. */
export function operations(call) {
  return {
    argmax: (tensor, axis = -1) => call("argmax", tensor, axis),
    topK: (tensor, count, axis = -1) => call("topK", tensor, count, axis),
    softmax: (tensor, axis = -1) => call("softmax", tensor, axis),
    normalise: (tensor, axis = -1) => call("normalise", tensor, axis),
    meanPool: (tensor, mask) => call("meanPool", tensor, mask),
    concat: (tensors, axis = 0) => call("concat", [...tensors], axis),
    gather(tensor, places, axis = 0) {
      const numbers = places instanceof Tensor ? places : new Tensor(BigInt64Array.from(places, BigInt));
      return call("gather", tensor, numbers, axis);
    },
    suppress: (boxes, scores, { classes, mostOverlap = 0.5, leastScore = 0, most = 0 } = {}) =>
      call("suppress", boxes, scores, classes, mostOverlap, leastScore, most),
  };
}
