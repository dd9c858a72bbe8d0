// Pictures where there is no library: a test says what comes of a file.

import { preparationOf } from "./image-preparation.js";

let answer;

/** A function from a file's bytes to a picture. */
export function answerWith(given) {
  answer = given;
}

export function prepare(file, { name: _, ...preparation } = {}) {
  preparationOf(preparation);
  if (answer === undefined) throw new Error("the test does not say what comes of a file: `answerWith`");
  return answer(file);
}

export function inspect() {
  throw new Error("a test looks at no files");
}

export { ImageError } from "./image-preparation.js";
