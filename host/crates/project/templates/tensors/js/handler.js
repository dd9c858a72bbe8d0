// Names irises, any number of them in a request of tensors.
//
// In:  `measurements`, FP32 `[flowers, 4]`: in centimetres, or in millimetres if the request's parameter `unit` is `mm`.
// Out: `label`, BYTES `[flowers]`, and `probability`, FP32 `[flowers]`.

import { InvalidInput, Tensor, handler } from "modelhost-guest";

const UNITS = { cm: 1, mm: 0.1 };

let labels = [];

/** By this a JSON body becomes tensors too. */
const inputs = [
  { name: "measurements", shape: [-1, 4], example: [[5.2, 3.6, 1.4, 0.3]], description: "a row for each flower" },
];

/** Runs once, when the handler is loaded. `metadata` is the endpoint's in modelhost.toml. */
export function load(metadata) {
  labels = metadata.labels;
}

/** From the caller's tensors to the model's. */
export function prepare(inputs, context) {
  const measurements = inputs.named("measurements");
  const { unit = "cm" } = context.parameters;
  if (!Object.hasOwn(UNITS, unit)) throw new InvalidInput(`parameter \`unit\`: expected one of ${Object.keys(UNITS).join(", ")}`);
  const centimetres = measurements.values.map((value) => value * UNITS[unit]);
  return new Tensor(centimetres, { shape: measurements.shape });
}

/** From the model's tensors to the caller's. */
export function answer(outputs) {
  const best = [...outputs.named("probabilities")].map((row) => row.topK(1)[0]);
  return {
    label: new Tensor(best.map(({ index }) => labels[index])),
    probability: new Tensor(best.map(({ value }) => value)),
  };
}

export const { init, inputSchema, preInferenceTensors, postInferenceTensors } = handler({
  init: load,
  inputs,
  preInferenceTensors: prepare,
  postInferenceTensors: answer,
});
