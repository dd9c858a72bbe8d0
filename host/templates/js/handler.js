// Names an iris from four measurements.
//
// In:  `{"sepal_length": 5.2, "sepal_width": 3.6, "petal_length": 1.4, "petal_width": 0.3}`, in centimetres.
// Out: `{"class_label": "setosa", "class_index": 0, "probabilities": [0.98, 0.02, 0.0]}`.
//
// The model takes `[rows, 4]` floats; its last output holds a probability for each class.
// A thrown `{ tag, val }` is the contract's `error`: see types.wit below `wit`.

const FEATURES = ["sepal_length", "sepal_width", "petal_length", "petal_width"];

let labels = [];

/** Runs once, when the handler is loaded. `metadata` is the endpoint's in modelhost.toml, as JSON. */
export const init = {
  init(metadata) {
    labels = JSON.parse(metadata)?.labels;
    if (!Array.isArray(labels)) throw "`metadata` has no list `labels`";
  },
};

/** From the request to the model's inputs. */
export const preInference = {
  preInference(sample, _context) {
    const flower = parse(sample.body);
    const features = Float32Array.from(FEATURES, (name) => number(flower, name));
    const data = new Uint8Array(features.buffer);
    return [{ name: "input", datatype: "fp32", shape: [1n, BigInt(FEATURES.length)], data }];
  },
};

/** From the model's outputs to the response. */
export const postInference = {
  postInference(prediction, _context) {
    const output = prediction.at(-1);
    if (output?.datatype !== "fp32") throw internal("the model's last output is no fp32 tensor");
    // `slice`: a view of floats begins at a multiple of 4 bytes.
    const probabilities = Array.from(new Float32Array(output.data.slice().buffer));
    const index = probabilities.reduce((best, value, at) => (value > probabilities[best] ? at : best), 0);
    if (index >= labels.length) throw internal("more classes than labels");
    const answer = { class_label: labels[index], class_index: index, probabilities };
    const body = new TextEncoder().encode(JSON.stringify(answer));
    return { status: 200, contentType: "application/json", headers: [], body };
  },
};

/** The request's JSON. */
function parse(body) {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(body));
  } catch (error) {
    throw invalid(`malformed json: ${error.message}`);
  }
}

/** The finite number under `name`. */
function number(flower, name) {
  const value = flower?.[name];
  if (value === undefined) throw invalid(`missing field \`${name}\``);
  if (!Number.isFinite(value)) throw invalid(`\`${name}\` is no finite number`);
  return value;
}

/** 400 to the caller, who reads the text. */
function invalid(text) {
  return { tag: "invalid-input", val: text };
}

/** 500; the text goes to the log. */
function internal(text) {
  return { tag: "internal", val: text };
}
