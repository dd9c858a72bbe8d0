// The types of `modelhost-guest/tokenizer`, for TypeScript and for editors.

import type { InvalidInput, Tensor } from "./index.js";

/** How texts become rows of tokens. */
export interface Options {
  /** The second texts of pairs, one for each text. */
  seconds?: string | Iterable<string>;
  /** Whether the tokens are added that the model expects around texts: they are, if not said otherwise. */
  specialTokens?: boolean;
  /** Makes rows as long as each other: to the longest, to a number of tokens, as the file says. */
  padding?: "off" | "longest" | "file" | number;
  /** Most tokens of a row: a number, or what the file says. */
  truncation?: "off" | "file" | number;
  /** Whether the places of tokens are wanted. */
  offsets?: boolean;
}

/** Rows of tokens: INT64 `[texts, length]`, with the names that most models give their inputs. */
export interface Encoding {
  /** `input_ids`. */
  ids: Tensor;
  /** `attention_mask`: 0 for what only fills a row. */
  mask: Tensor;
  /** `token_type_ids`: 1 for the second text of a pair. */
  types: Tensor;
  /** `[texts, length, 2]`: where in its text, a string, a token begins and ends. */
  offsets?: Tensor;
}

export interface Tokenizer {
  /** The tokens of a text, or of each text of a list. */
  encode(texts: string | Iterable<string>, options?: Options): Encoding;
  /** The text of tokens: of numbers, or of a tensor. */
  decode(ids: Iterable<number | bigint> | Tensor, options?: { skipSpecialTokens?: boolean }): string;
  idOf(token: string): number | undefined;
  tokenOf(id: number): string | undefined;
  /** Number of tokens. */
  readonly size: number;
}

/** Reads a tokenizer.json. To be called in `init`, or in a request. */
export function load(json: Uint8Array): Tokenizer;
/** For tests: the numbers of the tokens of a text or of a pair, and their text. */
export function answerWith(
  encode: (text: string, second?: string) => Iterable<number>,
  decode?: (ids: number[]) => string,
): void;

/** Why texts have no tokens, or too many. */
export class TokenizerError extends InvalidInput {}
