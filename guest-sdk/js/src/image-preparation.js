// What is said of a picture's preparation, checked: the same in a component and in a test.

import { InvalidInput } from "./errors.js";

const KNOWN = {
  fit: ["stretch", "cover", "contain"],
  filter: ["nearest", "box", "bilinear", "bicubic", "lanczos"],
  colours: ["rgb", "bgr", "grey"],
  layout: ["planes", "pixels"],
  datatype: ["uint8", "fp16", "fp32"],
};

/** Why a file is no picture. Without more it is the caller's 400. */
export class ImageError extends InvalidInput {
  name = "ImageError";

  constructor(kind, text) {
    super(text);
    this.kind = kind;
  }
}

/** As the library takes it. */
export function preparationOf({
  size, fit = "stretch", filter = "bilinear", colours = "rgb", layout = "planes", datatype = "FP32", scale = 1 / 255,
  mean = [], deviation = [], padding = 0, upright = true, mostPixels = 0,
}) {
  const named = { fit, filter, colours, layout, datatype: datatype.toLowerCase() };
  for (const [key, value] of Object.entries(named)) {
    if (!KNOWN[key].includes(value)) throw new TypeError(`\`${value}\` is none of ${KNOWN[key].join(", ")}`);
  }
  return {
    ...named,
    size: typeof size === "number" ? [size, size] : size,
    scale,
    mean: Float32Array.from(mean),
    deviation: Float32Array.from(deviation),
    padding,
    upright,
    mostPixels,
  };
}
