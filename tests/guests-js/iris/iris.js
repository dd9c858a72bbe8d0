// The iris handler in JavaScript: what examples/iris-wasm does, on the same WIT world, to prove that the contract carries over.
//
// Built by scripts/build-guests-js.sh with jco to target/components/tests/iris_js.wasm.
//
// In: `{"sepal_length": 5.2, "sepal_width": 3.6, "petal_length": 1.4, "petal_width": 0.3}`.
// To the model: the tensor `input`, FP32 [1, 4].
// From the model: its last output, FP32 [1, classes], the probability of each class.
// Out: `{"class_label": …, "class_index": …, "probabilities": […]}`.
//
// The labels come from the endpoint's metadata (`labels`), else from the project's file `labels.json`, else from LABELS.
// A thrown `{ tag, val }` is the contract's `error`. This module is evaluated at build time and snapshotted: nothing here
// may touch the project before the first call.

import { getDirectories } from "wasi:filesystem/preopens@0.2.12";

const FEATURES = ["sepal_length", "sepal_width", "petal_length", "petal_width"];
const LABELS = ["iris-setosa", "iris-versicolor", "iris-virginica"];
const PROJECT = "/mnt/project";

/** From the request to the model's input. */
export const preInference = {
  preInference(sample, _context) {
    const flower = parse(sample.body);
    const features = Float32Array.from(FEATURES, (name) => number(flower, name));
    return [{ name: "input", datatype: "fp32", shape: [1n, BigInt(FEATURES.length)], data: new Uint8Array(features.buffer) }];
  },
};

/** From the model's outputs to the response. */
export const postInference = {
  postInference(prediction, context) {
    const output = prediction.at(-1);
    if (output?.datatype !== "fp32") throw internal("the model's last output is no fp32 tensor");
    // `slice` because a view of 4-byte elements needs an offset that is a multiple of 4.
    const probabilities = Array.from(new Float32Array(output.data.slice().buffer));
    const names = labels(context);
    if (probabilities.length === 0 || probabilities.length > names.length) {
      throw internal(`${probabilities.length} probabilities for ${names.length} labels`);
    }
    const index = argmax(probabilities);
    // `stringify` writes NaN and infinities as null, which is what JSON has for them.
    return json({ class_label: names[index], class_index: index, probabilities });
  },
};

/** The request's JSON object. */
function parse(body) {
  let flower;
  try {
    flower = JSON.parse(utf8(body));
  } catch (error) {
    throw invalid(`malformed json: ${error.message}`);
  }
  if (kind(flower) !== "map") throw invalid(`invalid type: ${kind(flower)}, expected an object`);
  return flower;
}

/** The finite number under `name`. */
function number(flower, name) {
  if (!Object.hasOwn(flower, name)) throw invalid(`missing field \`${name}\``);
  const value = flower[name];
  if (typeof value !== "number") throw invalid(`\`${name}\`: invalid type: ${describe(value)}, expected f32`);
  // JSON.parse makes infinity of 1e999.
  if (!Number.isFinite(value)) throw invalid(`\`${name}\`: number out of range`);
  return value;
}

/** Where the largest value is; `Math.max` would answer NaN if one of them is. */
function argmax(values) {
  return values.reduce((best, value, index) => (value > values[best] ? index : best), 0);
}

/** How the type of a JSON value is called. */
function kind(value) {
  if (value === null) return "null";
  if (Array.isArray(value)) return "sequence";
  return typeof value === "object" ? "map" : typeof value;
}

/** Its type, with the value if it is short. */
function describe(value) {
  return typeof value === "object" ? kind(value) : `${kind(value)} ${JSON.stringify(value).slice(0, 40)}`;
}

/** The class names, most specific source first. */
function labels(context) {
  const fromConfig = JSON.parse(context.metadata())?.labels;
  if (fromConfig !== undefined) return fromConfig;
  const file = projectFile("labels.json");
  if (file === undefined) return LABELS;
  try {
    return JSON.parse(file);
  } catch (error) {
    throw internal(`labels.json: ${error.message}`);
  }
}

/** The text of a file of the project; undefined if there is no such file. */
function projectFile(name) {
  const project = getDirectories().find(([_, path]) => path === PROJECT)?.[0];
  if (project === undefined) return undefined;
  let file;
  try {
    file = project.openAt({ symlinkFollow: true }, name, {}, { read: true });
  } catch (error) {
    const code = error.payload ?? error;
    if (code === "no-entry") return undefined;
    throw internal(`${name}: ${code}`);
  }
  const content = [];
  for (let end = false; !end; ) {
    const [bytes, eof] = file.read(65536n, BigInt(content.length));
    content.push(...bytes);
    end = eof || bytes.length === 0;
  }
  return utf8(new Uint8Array(content));
}

function utf8(bytes) {
  return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
}

function json(value) {
  return {
    status: 200,
    contentType: "application/json",
    headers: [],
    body: new TextEncoder().encode(JSON.stringify(value)),
  };
}

/** 400 to the caller, who reads the text. */
function invalid(text) {
  return { tag: "invalid-input", val: text };
}

/** 500; the text goes to the log. */
function internal(text) {
  return { tag: "internal", val: text };
}
