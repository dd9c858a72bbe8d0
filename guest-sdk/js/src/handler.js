// The functions around a model, as the component's exports.

import { Context } from "./context.js";
import { Sample, errorToHost, responseOf, responseToHost, said } from "./messages.js";
import { closed } from "./released.js";
import { websocketExport } from "./socket.js";
import { fromHost, tensors, toHost } from "./tensor.js";

/**
 * The exports of a handler: `export const { preInference, postInference } = handler({ preInference(sample) {…}, … })`, with the
 * functions that `wit/world.wit` lists.
 *
 * - `init(metadata)` runs once, when the handler is loaded; what it throws refuses the handler.
 * - `preInference(sample, context)` returns a tensor, several, or an object of them by the model's names.
 * - `postInference(outputs, context)` returns a `Response`, text, bytes, or what is written as JSON.
 * - `preInferenceTensors(tensors, context)`, `postInferenceTensors(outputs, context)` take and return tensors.
 * - `websocket(socket, request)` serves WebSockets.
 * - `inputs` declares what the handler takes: `{ name, datatype, shape, example, required, description }` each.
 */
export function handler({ init, preInference, postInference, preInferenceTensors, postInferenceTensors, websocket, inputs }) {
  const exported = {};
  if (init) exported.init = initExport(init);
  const named = (name, call) => (exported[name] = { [name]: call });
  if (preInference) {
    named("preInference", guarded(({ body, contentType }, context) =>
      toHost(tensors(preInference(new Sample(body, contentType), context)))));
  }
  if (postInference) {
    named("postInference", guarded((prediction, context) =>
      responseToHost(responseOf(postInference(fromHost(prediction), context)))));
  }
  for (const [name, call] of Object.entries({ preInferenceTensors, postInferenceTensors })) {
    if (call) named(name, guarded((given, context) => toHost(tensors(call(fromHost(given), context)))));
  }
  if (websocket) exported.websocket = websocketExport(websocket);
  if (inputs) {
    const declared = inputs.map(declaredInput);
    exported.inputSchema = { inputSchema: () => declared };
  }
  return exported;
}

/** The export `init`. */
export function initExport(init) {
  return {
    init(metadata) {
      try {
        init(JSON.parse(metadata));
      } catch (error) {
        throw said(error);
      } finally {
        closed();
      }
    },
  };
}

/** Says what a function throws as the contract does. */
function guarded(call) {
  return (given, context) => {
    try {
      return call(given, Context.of(context));
    } catch (error) {
      throw errorToHost(error);
    } finally {
      closed();
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
