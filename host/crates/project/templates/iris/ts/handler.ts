// Names an iris from four measurements.
//
// In:  `{"sepal_length": 5.2, "sepal_width": 3.6, "petal_length": 1.4, "petal_width": 0.3}`, in centimetres.
// Out: `{"class_label": "setosa", "class_index": 0, "probabilities": [0.98, 0.02, 0.0]}`.
//
// The model takes `[rows, 4]` floats; its output `probabilities` holds one for each class.

import { Sample, Tensor, Tensors, handler } from "modelhost-guest";

let labels: string[] = [];

/** Runs once, when the handler is loaded. `metadata` is the endpoint's in modelhost.toml. */
export function load(metadata: { labels: string[] }): void {
  labels = metadata.labels;
}

/** From the request to the model's input. */
export function prepare(sample: Sample): Tensor {
  return new Tensor([sample.numbers("sepal_length", "sepal_width", "petal_length", "petal_width")]);
}

/** From the model's outputs to the response. */
export function answer(outputs: Tensors) {
  const probabilities = outputs.named("probabilities").row(0);
  const best = probabilities.argmax();
  return { class_label: labels[best], class_index: best, probabilities };
}

export const { init, preInference, postInference } = handler({ init: load, preInference: prepare, postInference: answer });
