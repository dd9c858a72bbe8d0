// The functions around a model, as the component's exports.

import { Context } from "./context.js";
import { Sample, errorToHost, responseOf, responseToHost } from "./messages.js";
import { closed, described, ended, released } from "./released.js";
import { websocketExport } from "./socket.js";
import { fromHost, tensors, toHost } from "./tensor.js";
import { saidOfInit } from "./traces.js";

/**
 * The exports of a handler: `export const { preInference, postInference } = handler({ preInference(sample) {…}, … })`, with the
 * functions that there are.
 *
 * - `init(metadata)` runs once, when the handler is loaded; what it throws refuses the handler.
 * - `preInference(sample, context)` returns a tensor, several, or an object of them by the model's names.
 * - `postInference(outputs, context)` returns a `Response`, text, bytes, or what is written as JSON.
 * - `preInferenceTensors(tensors, context)`, `postInferenceTensors(outputs, context)` take and return tensors.
 * - `websocket(socket, request)` serves WebSockets.
 * - `inputs` declares what the handler takes: `{ name, datatype, shape, example, required, description }` each.
 *
 * Functions may be asynchronous.
 */
export function handler({ init, preInference, postInference, preInferenceTensors, postInferenceTensors, websocket, inputs }) {
  const exported = {};
  if (init) exported.init = initExport(init);
  const named = (name, call) => (exported[name] = { [name]: call });
  const tensorsToHost = (given) => toHost(tensors(given));
  // What the function before the model leaves with the host may be for the one behind it. A request that does not come to that one
  // leaves it to the next.
  const leave = postInference || postInferenceTensors ? closed : ended;
  const before = (name, call) => named(name, guarded((given, context) => {
    released();
    return call(given, Context.of(context));
  }, tensorsToHost, { leave }));
  const behind = (name, call, made) => named(name, guarded((given, context) => call(fromHost(given), Context.of(context)), made));
  if (preInference) before("preInference", ({ body, contentType }, context) => preInference(new Sample(body, contentType), context));
  if (preInferenceTensors) before("preInferenceTensors", (given, context) => preInferenceTensors(fromHost(given), context));
  if (postInference) behind("postInference", postInference, (given) => responseToHost(responseOf(given)));
  if (postInferenceTensors) behind("postInferenceTensors", postInferenceTensors, tensorsToHost);
  if (websocket) exported.websocket = websocketExport(websocket);
  if (inputs) {
    const declared = inputs.map(declaredInput);
    exported.inputSchema = { inputSchema: () => declared };
  }
  return exported;
}

/** The export `init`. A later start of the host begins with its memory, so each instance describes its metrics. */
export function initExport(init) {
  return { init: guarded((metadata) => init(JSON.parse(metadata)), () => void described.clear(), { told: saidOfInit }) };
}

/**
 * A function whose results are `made` the contract's, and what it throws is `told` as the contract does. Only of an asynchronous one
 * the result is a promise. `leave` gives up what it held, as an error always does.
 */
function guarded(call, made, { told = errorToHost, leave = ended } = {}) {
  const finished = (value) => {
    const result = made(value);
    leave();
    return result;
  };
  const failed = (error, context) => {
    // It may be asked for the request's id.
    const answer = told(error, context && Context.of(context));
    ended();
    throw answer;
  };
  return (given, context) => {
    try {
      const value = call(given, context);
      return typeof value?.then === "function" ? Promise.resolve(value).then(finished).catch((error) => failed(error, context)) : finished(value);
    } catch (error) {
      return failed(error, context);
    }
  };
}

function declaredInput({ name, datatype = "FP32", shape = [1], example, required = true, description = "" }) {
  if (required && example === undefined) throw new TypeError(`input \`${name}\` is required and has no example`);
  return {
    name,
    datatype: datatype.toLowerCase(),
    shape: shape.map(BigInt),
    required,
    example: example === undefined ? undefined : JSON.stringify(example),
    description,
  };
}
