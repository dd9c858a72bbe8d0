// What handlers find of the web's platform, beside what the engine has. `native` is the runtime's.
(function (native) {
  "use strict";
  const define = (values) => {
    for (const [name, value] of Object.entries(values)) {
      Object.defineProperty(globalThis, name, { value, writable: true, configurable: true });
    }
  };
  const bytesOf = (view) => {
    if (view instanceof Uint8Array) return view;
    if (ArrayBuffer.isView(view)) return new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
    return new Uint8Array(view);
  };
  const joined = (pieces) => {
    const whole = new Uint8Array(pieces.reduce((length, piece) => length + piece.length, 0));
    let at = 0;
    for (const piece of pieces) {
      whole.set(piece, at);
      at += piece.length;
    }
    return whole;
  };

  class TextEncoder {
    get encoding() { return "utf-8"; }
    encode(text = "") { return native.encode(String(text)); }
    encodeInto(text, into) {
      let read = 0, written = 0;
      for (const c of String(text)) {
        const bytes = native.encode(c);
        if (written + bytes.length > into.length) break;
        into.set(bytes, written);
        written += bytes.length;
        read += c.length;
      }
      return { read, written };
    }
  }

  class TextDecoder {
    #fatal; #ignoreBOM; #rest = new Uint8Array();
    constructor(label = "utf-8", { fatal = false, ignoreBOM = false } = {}) {
      if (!["utf-8", "utf8", "unicode-1-1-utf-8"].includes(String(label).trim().toLowerCase())) {
        throw new RangeError(`the encoding ${label} is not there, only utf-8`);
      }
      this.#fatal = fatal;
      this.#ignoreBOM = ignoreBOM;
    }
    get encoding() { return "utf-8"; }
    get fatal() { return this.#fatal; }
    get ignoreBOM() { return this.#ignoreBOM; }
    decode(given = new Uint8Array(), { stream = false } = {}) {
      let bytes = bytesOf(given);
      if (this.#rest.length > 0) {
        const joined = new Uint8Array(this.#rest.length + bytes.length);
        joined.set(this.#rest);
        joined.set(bytes, this.#rest.length);
        bytes = joined;
        this.#rest = new Uint8Array();
      }
      if (stream) {
        // A character that is not whole waits for its end.
        let at = bytes.length - 1;
        while (at >= 0 && at > bytes.length - 4 && (bytes[at] & 0xc0) === 0x80) at--;
        const first = bytes[at] ?? 0;
        const needs = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;
        if (at >= 0 && bytes.length - at < needs) {
          this.#rest = bytes.slice(at);
          bytes = bytes.subarray(0, at);
        }
      }
      const text = native.decode(bytes, this.#fatal);
      if (text === undefined) throw new TypeError("the bytes are no UTF-8");
      return !this.#ignoreBOM && text.charCodeAt(0) === 0xfeff ? text.slice(1) : text;
    }
  }

  const shown = (value, depth = 0) => {
    if (typeof value === "string") return depth === 0 ? value : JSON.stringify(value);
    if (typeof value === "bigint") return `${value}n`;
    if (typeof value === "function") return `[Function: ${value.name}]`;
    if (typeof value !== "object" || value === null) return String(value);
    if (value instanceof Error) return value.stack ? `${value}\n${value.stack}`.trimEnd() : String(value);
    if (depth > 3) return Array.isArray(value) ? "[…]" : "{…}";
    if (Array.isArray(value) || ArrayBuffer.isView(value)) {
      const items = Array.from(value, (it) => shown(it, depth + 1));
      const rest = items.length > 100 ? `, … ${items.length - 100} more` : "";
      return `[${items.slice(0, 100).join(", ")}${rest}]`;
    }
    if (value instanceof Map) return `Map {${[...value].map(([key, it]) => `${shown(key, 1)} => ${shown(it, depth + 1)}`).join(", ")}}`;
    if (value instanceof Set) return `Set {${[...value].map((it) => shown(it, depth + 1)).join(", ")}}`;
    return `{${Object.entries(value).map(([key, it]) => ` ${key}: ${shown(it, depth + 1)}`).join(",")} }`;
  };
  const line = (write) => (...values) => write(`${values.map((it) => shown(it)).join(" ")}\n`);
  const [out, err] = [line(native.out), line(native.err)];
  const console = { log: out, info: out, debug: out, trace: err, warn: err, error: err,
    assert: (holds, ...values) => void (holds || err("assertion failed:", ...values)) };

  // Timers, in the order of their times.
  let last = 0;
  const timers = new Map();
  const after = (every) => (call, ms = 0, ...values) => {
    timers.set(++last, { call, values, at: native.now() + Math.max(0, Number(ms) || 0), every: every ? Math.max(1, Number(ms) || 0) : 0 });
    return last;
  };
  const cleared = (number) => void timers.delete(number);
  // Runs the timer that is due; else the milliseconds until one is, -1 if there is none.
  const fireTimers = () => {
    let next, soonest;
    for (const [number, timer] of timers) if (!soonest || timer.at < soonest.at) [next, soonest] = [number, timer];
    if (!soonest) return -1;
    const wait = soonest.at - native.now();
    if (wait > 0) return wait;
    if (soonest.every) soonest.at = native.now() + soonest.every;
    else timers.delete(next);
    soonest.call(...soonest.values);
    return 0;
  };

  // What a call of the host leaves would run in that of another client.
  const dropTimers = () => timers.clear();

  class ComponentError extends Error {
    constructor(payload) {
      const isText = typeof payload === "string";
      super(isText ? payload : `${payload?.tag ?? payload} (see error.payload)`);
      Object.defineProperty(this, "payload", { value: payload, enumerable: !isText });
    }
  }

  const encoded = (text) => encodeURIComponent(text).replace(/%20/g, "+").replace(/[!'()~]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);
  const decoded = (text) => {
    const plain = text.replace(/\+/g, " ");
    if (!plain.includes("%")) return plain;
    const bytes = [];
    const source = native.encode(plain);
    for (let at = 0; at < source.length; at++) {
      const code = source[at] === 37 ? parseInt(String.fromCharCode(source[at + 1], source[at + 2]), 16) : NaN;
      const isHex = source[at] === 37 && /^[0-9a-f]{2}$/i.test(String.fromCharCode(source[at + 1] ?? 0, source[at + 2] ?? 0));
      bytes.push(isHex ? code : source[at]);
      if (isHex) at += 2;
    }
    return native.decode(new Uint8Array(bytes), false);
  };

  class URLSearchParams {
    #pairs = []; #changed;
    constructor(given = "", changed) {
      this.#changed = changed;
      if (typeof given === "object" && given !== null) {
        const pairs = typeof given[Symbol.iterator] === "function" ? [...given] : Object.entries(given);
        this.#pairs = pairs.map(([name, value]) => [String(name), String(value)]);
      } else {
        const parts = String(given).replace(/^\?/, "").split("&").filter((part) => part !== "");
        this.#pairs = parts.map((part) => {
          const at = part.indexOf("=");
          return at < 0 ? [decoded(part), ""] : [decoded(part.slice(0, at)), decoded(part.slice(at + 1))];
        });
      }
    }
    get size() { return this.#pairs.length; }
    get(name) { return this.#pairs.find(([own]) => own === String(name))?.[1] ?? null; }
    getAll(name) { return this.#pairs.filter(([own]) => own === String(name)).map(([, value]) => value); }
    has(name, value) { return this.#pairs.some(([own, it]) => own === String(name) && (value === undefined || it === String(value))); }
    append(name, value) { this.#pairs.push([String(name), String(value)]); this.#changed?.(); }
    delete(name, value) {
      this.#pairs = this.#pairs.filter(([own, it]) => own !== String(name) || (value !== undefined && it !== String(value)));
      this.#changed?.();
    }
    set(name, value) {
      const at = this.#pairs.findIndex(([own]) => own === String(name));
      if (at < 0) this.#pairs.push([String(name), String(value)]);
      else this.#pairs = this.#pairs.filter(([own], n) => own !== String(name) || n === at).map((pair, n) => (n === at ? [pair[0], String(value)] : pair));
      this.#changed?.();
    }
    sort() { this.#pairs.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)); this.#changed?.(); }
    forEach(call, self) { for (const [name, value] of this) call.call(self, value, name, this); }
    *entries() { yield* this.#pairs.map((pair) => [...pair]); }
    *keys() { for (const [name] of this.#pairs) yield name; }
    *values() { for (const [, value] of this.#pairs) yield value; }
    [Symbol.iterator]() { return this.entries(); }
    toString() { return this.#pairs.map(([name, value]) => `${encoded(name)}=${encoded(value)}`).join("&"); }
  }

  const crypto = {
    getRandomValues(into) {
      native.fillRandom(bytesOf(into));
      return into;
    },
    randomUUID() {
      const bytes = crypto.getRandomValues(new Uint8Array(16));
      bytes[6] = (bytes[6] & 0x0f) | 0x40;
      bytes[8] = (bytes[8] & 0x3f) | 0x80;
      const hex = Array.from(bytes, (it) => it.toString(16).padStart(2, "0")).join("");
      return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
    },
  };

  Object.defineProperty(Math, "random", { value: native.random, writable: true, configurable: true });
  define({
    TextEncoder, TextDecoder, URLSearchParams, console, crypto,
    setTimeout: after(false), setInterval: after(true), clearTimeout: cleared, clearInterval: cleared,
    queueMicrotask: (call) => void Promise.resolve().then(call),
    performance: { now: () => native.now(), timeOrigin: 0 },
    self: globalThis,
  });
  return { define, bytesOf, joined, fireTimers, dropTimers, hostError: (payload) => new ComponentError(payload) };
});
