// Names irises: one, or several while the caller watches, or several while the caller does not wait.
//
// - `GET /` says what there is;
// - `POST /classify` takes `{"measurements": [5.2, 3.6, 1.4, 0.3]}`, in centimetres;
// - `POST /stream` takes `{"flowers": [[…], …]}` and sends an event for each;
// - `POST /jobs` takes the same, answers at once, and works after that.

import { App, InvalidInput, Tensor } from "modelhost-guest";
import * as models from "modelhost-guest/models";

let labels = [];

const app = new App()
  // Runs once, when the handler is loaded.
  .init((metadata) => {
    labels = metadata.labels;
  })
  .get("/", () => ({ labels, model: models.names()[0] }))
  .post("/classify", (request) => name(...request.fields("measurements")))
  // A generator is a stream: each piece is sent while the next one is made.
  .post("/stream", function* (request) {
    for (const measurements of flowers(request)) yield name(measurements);
  })
  // Runs after the answer; what it prints is in the log, with the request's id.
  .background("/jobs", (request) => {
    for (const measurements of flowers(request)) console.log(name(measurements).label);
  });

export default app;

/** The measurements of several. What a caller can correct is `InvalidInput`, which is answered with 400. */
function flowers(request) {
  const [found] = request.fields("flowers");
  if (!Array.isArray(found)) throw new InvalidInput("`flowers` is a list of measurements");
  return found;
}

/** Asks the model. */
function name(measurements) {
  const isGood = Array.isArray(measurements) && measurements.every((it) => typeof it === "number");
  if (!isGood || measurements.length !== 4) throw new InvalidInput("`measurements` are 4 numbers");
  const [{ index, value }] = models.infer(new Tensor([measurements])).named("probabilities").topK(1);
  return { label: labels[index], probability: value };
}
