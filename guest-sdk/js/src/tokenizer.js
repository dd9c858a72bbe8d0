// Texts to the numbers that a model takes, and back, by the library `tokenizer`, which `modelhost build` puts into the handler.
//
// modelhost.toml names it, `[build]` with `with = ["tokenizer"]`.

import { Tokenizer as Handle } from "modelhost:tokenizer/tokenizers@0.1.0";

import { bytesOf } from "./bytes.js";
import { Tensor } from "./tensor.js";
import { TokenizerError, encodingOf, optionsOf, textsOf } from "./tokenizer-options.js";

/** What `load` gives. */
class Tokenizer {
  #handle;

  constructor(handle) {
    this.#handle = handle;
  }

  /** The tokens of a text, or of each text of a list; with `seconds`, of pairs. May throw `TokenizerError`. */
  encode(texts, { seconds, ...options } = {}) {
    const given = optionsOf(options);
    const made = asked(() => this.#handle.encode(textsOf(texts), textsOf(seconds), given));
    return encodingOf({
      texts: made.texts,
      length: made.length,
      ids: bytesOf(made.ids),
      mask: bytesOf(made.mask),
      types: bytesOf(made.types),
      offsets: given.offsets === undefined ? undefined : bytesOf(made.offsets),
    });
  }

  /** The text of tokens: of numbers, or of a tensor. */
  decode(ids, { skipSpecialTokens = true } = {}) {
    const numbers = Uint32Array.from(ids instanceof Tensor ? ids.values : ids, Number);
    return asked(() => this.#handle.decode(numbers, skipSpecialTokens));
  }

  /** The number of a token, or `undefined`. */
  idOf(token) {
    return this.#handle.idOf(token);
  }

  /** The token of a number, or `undefined`. */
  tokenOf(id) {
    return this.#handle.tokenOf(id);
  }

  /** Number of tokens. */
  get size() {
    return this.#handle.size();
  }
}

/** Reads a tokenizer.json. To be called in `init`, or in a request: where a module is imported there is no library yet. */
export function load(json) {
  return new Tokenizer(asked(() => Handle.load(json)));
}

/** For tests, which have no library. */
export function answerWith() {
  throw new Error("only a test says what the tokens of a text are");
}

function asked(call) {
  try {
    return call();
  } catch (error) {
    const { tag, val } = error?.payload ?? error;
    if (tag === undefined) throw error;
    throw tag === "text" ? new TokenizerError(val) : new TypeError(val);
  }
}

export { TokenizerError } from "./tokenizer-options.js";
