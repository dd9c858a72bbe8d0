// Buckets where there is no host: in memory, each there as soon as it is named.

import { Bucket, KvError, number } from "./bucket.js";

const LONGEST_KEY = 1024;
const MOST_KEYS = 1000;

let buckets = new Map();

export function open(name = "default") {
  return new Bucket(name, () => new Values(name));
}

/** Forgets all values. */
export function forget() {
  buckets = new Map();
}

/** What the host's bucket does, but for limits. */
class Values {
  constructor(name) {
    this.name = name;
  }

  get stored() {
    if (!buckets.has(this.name)) buckets.set(this.name, new Map());
    return buckets.get(this.name);
  }

  found(key) {
    checked(key);
    const found = this.stored.get(key);
    return found !== undefined && (found.end === undefined || found.end > performance.now()) ? found : undefined;
  }

  get(key) {
    return this.found(key)?.value.slice();
  }

  set(key, value, ttl) {
    this.stored.set(checked(key), { value: value.slice(), end: endOf(ttl) });
  }

  add(key, value, ttl) {
    const isNew = this.found(key) === undefined;
    if (isNew) this.set(key, value, ttl);
    return isNew;
  }

  increment(key, by, ttl) {
    const { value, end = value === undefined ? endOf(ttl) : undefined } = this.found(key) ?? {};
    const sum = number(value) + by;
    if (BigInt.asIntN(64, sum) !== sum) throw new KvError("invalid", "the sum is beyond 64 bits");
    this.stored.set(key, { value: encoded(String(sum)), end });
    return sum;
  }

  swap(key, current, value) {
    const found = this.found(key);
    if (!isSame(found?.value, current)) return false;
    this.stored.set(key, { value: value.slice(), end: found?.end });
    return true;
  }

  delete(key) {
    this.stored.delete(checked(key));
  }

  keys(prefix, cursor, limit) {
    const own = [...this.stored.keys()].filter((key) => key.startsWith(prefix) && this.found(key) !== undefined);
    const behind = own.sort(order).filter((key) => cursor === undefined || order(key, cursor) > 0);
    const page = behind.slice(0, Math.min(Math.max(limit, 1), MOST_KEYS));
    return [page, page.length < behind.length ? page.at(-1) : undefined];
  }
}

function checked(key) {
  const { length } = encoded(key);
  if (length < 1 || length > LONGEST_KEY) throw new KvError("invalid", `a key of ${length} bytes, expected 1 to ${LONGEST_KEY}`);
  return key;
}

function endOf(ttl) {
  return ttl === undefined ? undefined : performance.now() + Number(ttl);
}

function encoded(text) {
  return new TextEncoder().encode(text);
}

function isSame(one, other) {
  if (one === undefined || other === undefined) return one === other;
  return one.length === other.length && one.every((byte, at) => byte === other[at]);
}

/** The order of their bytes in UTF-8. */
function order(one, other) {
  const [left, right] = [encoded(one), encoded(other)];
  const at = left.findIndex((byte, at) => byte !== right[at]);
  return at === -1 ? left.length - right.length : left[at] - (right[at] ?? -1);
}

export { KvError } from "./bucket.js";
