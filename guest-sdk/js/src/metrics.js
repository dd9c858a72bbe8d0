// Metrics that the handler makes, beside the server's in `/metrics`, with the words of prom-client. They are constants of a module.

import * as host from "modelhost:handler/metrics@0.1.0";

import { metricsOf } from "./metric.js";

export const { Counter, Gauge, Histogram } = metricsOf(host);

function onlyInTests() {
  throw new Error("only a test does this: the host keeps the numbers");
}

export { onlyInTests as forget, onlyInTests as value };
