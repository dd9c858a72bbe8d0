// A bucket of the store, of the host's or of a test's: what both have in common.

import { bytesOf, textOf } from "./bytes.js";
import { openedOnce } from "./released.js";

const TEXTS = {
  "no-such-bucket": (name) => `the endpoint grants no bucket \`${name}\``,
  unavailable: (text) => `the store cannot be used: ${text}`,
};
/** Most keys of one page of a listing. */
const PAGE = 1000;
const LONGEST = 2 ** 63;

/** Why a bucket has not done what it should. `kind` is one of no-such-bucket, invalid, limit, unavailable. */
export class KvError extends Error {
  name = "KvError";

  constructor(kind, value) {
    super(TEXTS[kind]?.(value) ?? value);
    this.kind = kind;
  }
}

/** Keys and their values, which are bytes. A `ttl` is in seconds; without one a value stays until it is deleted. */
export class Bucket {
  #open;

  /** `open` gives the bucket of this name as the contract has it. */
  constructor(name, open) {
    this.name = name;
    this.#open = open;
  }

  /** The value of a key, or undefined. */
  get(key) {
    const value = this.#asked((bucket) => bucket.get(key));
    return value === undefined ? undefined : bytesOf(value);
  }

  /** A value as text, or undefined. */
  getText(key) {
    const value = this.get(key);
    if (value === undefined) return undefined;
    return read(key, () => textOf(value));
  }

  /** A value that was set as JSON, or undefined. */
  getJson(key) {
    const text = this.getText(key);
    return text === undefined ? undefined : read(key, () => JSON.parse(text));
  }

  /** Sets a value: bytes, or a text. */
  set(key, value, { ttl } = {}) {
    this.#asked((bucket) => bucket.set(key, bytes(value), milliseconds(ttl)));
  }

  /** Sets a value as JSON. */
  setJson(key, value, options) {
    this.set(key, JSON.stringify(value), options);
  }

  /** Sets a value if the key is not there, and says whether it did: a lock, or a mark that something is being done. */
  add(key, value, { ttl } = {}) {
    return this.#asked((bucket) => bucket.add(key, bytes(value), milliseconds(ttl)));
  }

  /**
   * Adds to a number and gives the sum, a bigint if `by` is one. A key that is not there counts as 0, and `ttl` is for it alone.
   */
  increment(key, by = 1, { ttl } = {}) {
    const added = whole(by);
    const sum = added < 0n
      ? this.#decrement(key, added, { ttl })
      : this.#asked((bucket) => bucket.increment(key, added, milliseconds(ttl)));
    return typeof by === "bigint" ? sum : Number(sum);
  }

  /** The bindings of StarlingMonkey abort at a negative argument, so the sum is put in place of the number that was read. */
  #decrement(key, by, life) {
    for (;;) {
      const present = this.get(key);
      const sum = number(present) + by;
      if (BigInt.asIntN(64, sum) !== sum) throw new KvError("invalid", "the sum is beyond 64 bits");
      const isDone = present === undefined ? this.add(key, String(sum), life) : this.swap(key, present, String(sum));
      if (isDone) return sum;
    }
  }

  /** Sets a value if the present one is `current`, undefined for no value, and says whether it did. Its end stays. */
  swap(key, current, value) {
    const present = current === undefined || current === null ? undefined : bytes(current);
    return this.#asked((bucket) => bucket.swap(key, present, bytes(value)));
  }

  /** Removes a key, whether it is there or not. */
  delete(key) {
    this.#asked((bucket) => bucket.delete(key));
  }

  /** All keys that begin with `prefix`, in the order of their bytes. */
  keys(prefix = "") {
    const found = [];
    let page = {};
    do {
      page = this.page(prefix, page);
      found.push(...page.keys);
    } while (page.cursor !== undefined);
    return found;
  }

  /** At most `limit` keys behind the cursor, and the next one if there are more. */
  page(prefix = "", { cursor, limit = PAGE } = {}) {
    const [keys, next] = this.#asked((bucket) => bucket.keys(prefix, cursor, limit));
    return { keys, cursor: next };
  }

  #asked(call) {
    try {
      return call(openedOnce(this.name, () => this.#open(this.name)));
    } catch (error) {
      const { tag, val } = error?.payload ?? error;
      throw tag === undefined ? error : new KvError(tag, val);
    }
  }
}

function read(key, call) {
  try {
    return call();
  } catch (error) {
    throw new KvError("invalid", `the value of \`${key}\`: ${error.message}`);
  }
}

/** A value as `increment` takes it. */
export function number(value) {
  const text = value === undefined ? "0" : new TextDecoder().decode(value);
  const read = /^[+-]?\d+$/.test(text) ? BigInt(text.replace("+", "")) : undefined;
  if (read === undefined || BigInt.asIntN(64, read) !== read) {
    throw new KvError("invalid", "the value is not a whole number of 64 bits");
  }
  return read;
}

function bytes(value) {
  if (typeof value === "string") return new TextEncoder().encode(value);
  if (ArrayBuffer.isView(value)) return bytesOf(value);
  throw new TypeError(`a value is bytes or a text, and not ${typeof value}; \`setJson\` keeps others`);
}

function milliseconds(ttl) {
  if (ttl === undefined || ttl === null) return undefined;
  const milliseconds = Math.ceil(ttl * 1000);
  if (!(milliseconds > 0 && milliseconds < LONGEST)) throw new KvError("invalid", `a time to live of ${ttl} seconds`);
  return BigInt(milliseconds);
}

function whole(by) {
  if (typeof by !== "bigint" && !Number.isSafeInteger(by)) throw new KvError("invalid", `\`${by}\` is no whole number`);
  if (BigInt.asIntN(64, BigInt(by)) !== BigInt(by)) throw new KvError("invalid", "a number beyond 64 bits");
  return BigInt(by);
}
