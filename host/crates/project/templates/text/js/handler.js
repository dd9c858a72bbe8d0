// Says whether a text is friendly.
//
// In:  `{"text": "A great film"}`.
// Out: `{"label": "positive", "score": 0.99, "unknown": []}`.
//
// The model takes `[texts, words]` numbers of words and gives `[texts, 2]` scores.

import { InvalidInput, Tensor, handler } from "modelhost-guest";

import WORDS from "./vocabulary.json" with { type: "json" };

const NUMBERS = new Map(WORDS.map((word, number) => [word, number]));
const LABELS = ["negative", "positive"];

/** Held against every request before a function here runs; the example is tried when the handler is loaded. */
const inputs = [{ name: "text", datatype: "BYTES", example: "A great film", description: "what to judge" }];

/** The words of a text, in lower case. */
const words = (text) => text.toLowerCase().match(/[a-z0-9']+/g) ?? [];

/** From the text to the numbers of its words; 0 is one that the model does not know. */
export function prepare(sample) {
  const [text] = sample.fields("text");
  const numbers = words(text).map((word) => NUMBERS.get(word) ?? 0);
  if (numbers.length === 0) throw new InvalidInput("`text` has no words");
  return new Tensor([numbers], { datatype: "INT64" });
}

/** From the scores to the label; the request is at hand again. */
export function answer(outputs, context) {
  const [{ index, value }] = outputs[0].row(0).topK(1);
  const [text] = context.sample.fields("text");
  return { label: LABELS[index], score: value, unknown: words(text).filter((word) => !NUMBERS.has(word)) };
}

export const { inputSchema, preInference, postInference } = handler({ inputs, preInference: prepare, postInference: answer });
