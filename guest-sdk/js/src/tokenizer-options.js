// What is said of texts' tokens, checked: the same in a component and in a test.

import { InvalidInput } from "./errors.js";
import { Tensor } from "./tensor.js";

/** Why texts have no tokens, or too many. Without more it is the caller's 400. */
export class TokenizerError extends InvalidInput {
  name = "TokenizerError";
}

/** As the library takes it. */
export function optionsOf({ specialTokens = true, padding = "longest", truncation = "file", offsets = false }) {
  return {
    specialTokens,
    padding: choice(padding, ["off", "longest", "file"]),
    truncation: choice(truncation, ["off", "file"]),
    // Places in a string of this language.
    offsets: offsets ? "utf16" : undefined,
  };
}

/** A text, or a list of them. */
export function textsOf(texts) {
  return typeof texts === "string" ? [texts] : [...(texts ?? [])];
}

/** With the names that most models give their inputs. */
export function encodingOf({ texts, length, ids, mask, types, offsets }) {
  const tensor = (data, name, ...more) => Tensor.raw(data, "INT64", [texts, length, ...more], name);
  return {
    ids: tensor(ids, "input_ids"),
    mask: tensor(mask, "attention_mask"),
    types: tensor(types, "token_type_ids"),
    offsets: offsets === undefined ? undefined : tensor(offsets, "offsets", 2),
  };
}

function choice(given, known) {
  if (Number.isInteger(given)) return { tag: "to", val: given };
  if (!known.includes(given)) throw new TypeError(`\`${given}\` is no number, and none of ${known.join(", ")}`);
  return { tag: given === "file" ? "as-file" : given };
}
