// Picture files to a model's tensor, by the library `image`, which `modelhost build` puts into the handler.
//
// modelhost.toml names it, `[build]` with `with = ["image"]`.

import * as images from "modelhost:image/images@0.1.0";

import { bytesOf } from "./bytes.js";
import { ImageError, preparationOf } from "./image-preparation.js";
import { Tensor } from "./tensor.js";

/**
 * Decodes a JPEG, PNG or WebP file, brings the picture to a size, and makes a tensor of it with an axis for a batch. May throw
 * `ImageError`.
 */
export function prepare(file, options = {}) {
  const { name = "", ...preparation } = options;
  const given = preparationOf(preparation);
  const pixels = asked(() => images.prepare(file, given));
  const shape = [1, ...Array.from(pixels.shape, Number)];
  return {
    tensor: Tensor.raw(bytesOf(pixels.data), given.datatype.toUpperCase(), shape, name),
    width: pixels.width,
    height: pixels.height,
    offset: [pixels.left, pixels.top],
    scale: [pixels.scaleX, pixels.scaleY],
  };
}

/** What a file says of its picture, without decoding it. */
export function inspect(file) {
  const { format, width, height } = asked(() => images.inspect(file));
  return { format, width, height };
}

/** For tests, which have no library. */
export function answerWith() {
  throw new Error("only a test says what comes of a file");
}

function asked(call) {
  try {
    return call();
  } catch (error) {
    const { tag, val } = error?.payload ?? error;
    if (tag === undefined) throw error;
    throw tag === "preparation" ? new TypeError(val) : new ImageError(tag, val);
  }
}

export { ImageError } from "./image-preparation.js";
