// The types of `modelhost-guest/kv`, for TypeScript and for editors.

import type { Json } from "./index.js";

/** A bucket: `default`, or `shared/sessions` for one that several endpoints are granted. */
export function open(name?: string): Bucket;
/** For tests: forgets all values. */
export function forget(): void;

/** In seconds; without one a value stays until it is deleted. */
export interface Life {
  ttl?: number;
}

/** Keys and their values, which are bytes. */
export class Bucket {
  private constructor();
  readonly name: string;
  /** The value of a key. */
  get(key: string): Uint8Array | undefined;
  /** A value as text. */
  getText(key: string): string | undefined;
  /** A value that was set as JSON. */
  getJson(key: string): any;
  set(key: string, value: Uint8Array | string, options?: Life): void;
  /** Sets a value as JSON. */
  setJson(key: string, value: Json, options?: Life): void;
  /** Sets a value if the key is not there, and says whether it did. */
  add(key: string, value: Uint8Array | string, options?: Life): boolean;
  /** Adds to a number and gives the sum. A key that is not there counts as 0, and `ttl` is for it alone. */
  increment(key: string, by?: number, options?: Life): number;
  increment(key: string, by: bigint, options?: Life): bigint;
  /** Sets a value if the present one is `current`, undefined for no value, and says whether it did. */
  swap(key: string, current: Uint8Array | string | undefined, value: Uint8Array | string): boolean;
  /** Removes a key, whether it is there or not. */
  delete(key: string): void;
  /** All keys that begin with `prefix`, in the order of their bytes. */
  keys(prefix?: string): string[];
  /** At most `limit` keys behind the cursor, and the next one if there are more. */
  page(prefix?: string, options?: { cursor?: string; limit?: number }): { keys: string[]; cursor?: string };
}

/** Why a bucket has not done what it should. */
export class KvError extends Error {
  readonly kind: "no-such-bucket" | "invalid" | "limit" | "unavailable";
}
