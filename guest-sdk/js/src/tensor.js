// Tensors: what goes to a model and what comes from it.
//
// Elements are those of the Open Inference Protocol. Numbers are read where they lie, as a typed array; FP16 and BF16, which
// have none, are copied to 32 bits.

import { bytesOf, textOf } from "./bytes.js";
import { InvalidInput } from "./errors.js";

const VIEWS = {
  BOOL: Uint8Array, UINT8: Uint8Array, UINT16: Uint16Array, UINT32: Uint32Array, UINT64: BigUint64Array,
  INT8: Int8Array, INT16: Int16Array, INT32: Int32Array, INT64: BigInt64Array, FP32: Float32Array, FP64: Float64Array,
};
const HALVES = { FP16: 2, BF16: 2 };

/**
 * `new Tensor([[1, 2]])`, `new Tensor(new Float32Array(6), { shape: [2, 3] })`, `new Tensor(["a", "b"])`.
 *
 * `values` are a number or a text, lists of them (nested as the shape is), or a typed array. Without a `datatype` numbers are
 * FP32, bigints INT64, truth values BOOL, texts BYTES; a typed array has its own. `name` is the model's input; without one
 * the tensor is its only input. `data` has the bytes of the contract.
 */
export class Tensor {
  constructor(values, { datatype, shape, name = "" } = {}) {
    if (datatype !== undefined && !(datatype in VIEWS) && !(datatype in HALVES) && datatype !== "BYTES") {
      throw new TypeError(`\`${datatype}\` is no datatype; one is FP32, INT64, BYTES`);
    }
    const own = ArrayBuffer.isView(values) ? [[values.length], values] : flat(values);
    this.name = name;
    this.datatype = datatype ?? datatypeOf(own[1]);
    this.shape = shape === undefined ? own[0] : fitted(shape, count(own[0]));
    this.data = encoded(own[1], this.datatype);
  }

  /** Of bytes as the contract has them: row-major, little-endian; BYTES with their lengths in front. */
  static raw(data, datatype, shape, name = "") {
    const size = sizeOf(datatype);
    if (size !== undefined && count(shape) * size !== data.length) {
      throw new TypeError(`${data.length} bytes are no ${datatype}[${shape}]`);
    }
    return Object.assign(Object.create(Tensor.prototype), { name, datatype, shape: [...shape], data });
  }

  /** All elements in a row: a typed array, of BYTES a list of `Uint8Array`. */
  get values() {
    if (this.datatype === "BYTES") return parts(this.data);
    const { data } = this;
    const view = (type) => {
      // A view of larger elements begins at a multiple of their size.
      const aligned = data.byteOffset % type.BYTES_PER_ELEMENT === 0 ? data : data.slice();
      return new type(aligned.buffer, aligned.byteOffset, aligned.byteLength / type.BYTES_PER_ELEMENT);
    };
    if (!(this.datatype in HALVES)) return view(VIEWS[this.datatype]);
    return Float32Array.from(view(Uint16Array), this.datatype === "FP16" ? fromHalf : fromBrain);
  }

  /** All elements of a BYTES tensor as text; an error if one is not UTF-8. */
  strings() {
    if (this.datatype !== "BYTES") throw new TypeError(`a tensor of ${this.datatype} has no strings`);
    return parts(this.data).map(textOf);
  }

  /** Lists, nested as the shape is; of a scalar the value. BYTES are text, and whole numbers are numbers where they fit. */
  toList() {
    let values = this.datatype === "BYTES" ? this.strings() : Array.from(this.values, plain);
    if (this.datatype === "BOOL") values = values.map(Boolean);
    for (let axis = this.shape.length - 1; axis > 0; axis--) {
      const extent = this.shape[axis];
      const rows = count(this.shape.slice(0, axis));
      values = Array.from({ length: rows }, (_, row) => values.slice(row * extent, (row + 1) * extent));
    }
    return this.shape.length === 0 ? values[0] : values;
  }

  /** `JSON.stringify` writes a tensor as its lists. */
  toJSON() {
    return this.toList();
  }

  /** The same elements under another shape; one extent may be -1. */
  reshape(...shape) {
    return Tensor.raw(this.data, this.datatype, fitted(shape.flat(), count(this.shape)), this.name);
  }

  /** The extent of the first axis. */
  get length() {
    return this.shape[0];
  }

  /** A row along the first axis; of numbers nothing is copied. */
  row(at) {
    const rows = this.shape[0] ?? 0;
    if (!Number.isInteger(at) || at < 0 || at >= rows) throw new RangeError(`row ${at} of ${rows}`);
    return part(this, at, 1, this.shape.slice(1));
  }

  /** `length` rows from `start`; of numbers nothing is copied. */
  rows(start = 0, length = this.shape[0] - start) {
    if (start < 0 || length < 0 || start + length > this.shape[0]) {
      throw new RangeError(`rows ${start} to ${start + length} of ${this.shape[0]}`);
    }
    return part(this, start, length, [length, ...this.shape.slice(1)]);
  }

  /** The rows along the first axis. */
  *[Symbol.iterator]() {
    for (let at = 0; at < this.shape[0]; at++) yield this.row(at);
  }

  /** Where the largest element is, all of them in a row; NaN is never the largest. */
  argmax() {
    return this.topK(1)[0]?.index;
  }

  /** The largest elements, all of them in a row: `{ index, value }`, largest first. */
  topK(count) {
    if (count <= 0 || Number.isNaN(count)) return [];
    const found = [];
    this.values.forEach((value, index) => {
      if (Number.isNaN(value) || (found.length === count && !(value > found[count - 1].value))) return;
      const place = found.findIndex((other) => value > other.value);
      found.splice(place < 0 ? found.length : place, 0, { index, value });
      found.length = Math.min(found.length, count);
    });
    return found.map(({ index, value }) => ({ index, value: plain(value) }));
  }

  /** Each row along the last axis as probabilities, FP32. */
  softmax() {
    const values = this.values;
    const width = this.shape.at(-1) ?? 1;
    const result = new Float32Array(values.length);
    for (let start = 0; start < values.length; start += width) {
      const row = Array.from(values.subarray(start, start + width), Number);
      const largest = row.reduce((largest, value) => Math.max(largest, value), -Infinity);
      const powers = row.map((value) => Math.exp(value - largest));
      const total = powers.reduce((total, power) => total + power, 0);
      powers.forEach((power, at) => (result[start + at] = power / total));
    }
    return new Tensor(result, { shape: this.shape, name: this.name });
  }
}

/** Tensors in the model's order: `outputs[0]`, `outputs.at(-1)`, `outputs.named("probabilities")`. */
export class Tensors extends Array {
  named(name) {
    const tensor = this.find((tensor) => tensor.name === name);
    if (tensor !== undefined) return tensor;
    throw new RangeError(`no tensor is named \`${name}\`; there are ${Array.from(this, (it) => `\`${it.name}\``).join(", ")}`);
  }
}

/** What a function returned as a list of tensors: one, several, or an object of them by name. */
export function tensors(value) {
  if (value instanceof Tensor) return [value];
  if (Array.isArray(value) && value.every((it) => it instanceof Tensor)) return value;
  if (value === null || typeof value !== "object" || Array.isArray(value)) throw new TypeError("expected tensors");
  return Object.entries(value).map(([name, it]) =>
    it instanceof Tensor ? Tensor.raw(it.data, it.datatype, it.shape, name) : new Tensor(it, { name }),
  );
}

/** From the host. */
export function fromHost(given) {
  return Tensors.from(given, ({ name, datatype, shape, data }) =>
    Tensor.raw(bytesOf(data), datatype.toUpperCase(), Array.from(shape, Number), name),
  );
}

/** To the host. */
export function toHost(given) {
  return given.map(({ name, datatype, shape, data }) => ({
    name, datatype: datatype.toLowerCase(), shape: shape.map(BigInt), data,
  }));
}

/** `length` rows of a tensor from `start`. */
function part(tensor, start, length, shape) {
  const width = count(tensor.shape.slice(1));
  const size = sizeOf(tensor.datatype);
  const [from, to] = [start * width, (start + length) * width];
  const data = size === undefined
    ? encoded(parts(tensor.data).slice(from, to), "BYTES")
    : tensor.data.subarray(from * size, to * size);
  return Tensor.raw(data, tensor.datatype, shape, tensor.name);
}

function count(shape) {
  return shape.reduce((count, extent) => count * extent, 1);
}

function sizeOf(datatype) {
  return HALVES[datatype] ?? VIEWS[datatype]?.BYTES_PER_ELEMENT;
}

function fitted(shape, elements) {
  const rest = count(shape.filter((extent) => extent !== -1));
  const free = shape.filter((extent) => extent === -1).length;
  if (free === 0 && rest === elements) return [...shape];
  if (free === 1 && rest > 0 && elements % rest === 0) {
    return shape.map((extent) => (extent === -1 ? elements / rest : extent));
  }
  throw new TypeError(`${elements} elements do not fit [${shape}]`);
}

function flat(values) {
  const shape = [];
  let row = [values];
  while (row.length > 0 && isList(row[0])) {
    const extent = row[0].length;
    if (row.some((it) => !isList(it) || it.length !== extent)) throw new InvalidInput("rows are not of one length");
    shape.push(extent);
    row = row.flatMap((it) => Array.from(it));
  }
  if (row.some(isList)) throw new InvalidInput("rows are not of one length");
  return [shape, row];
}

function isList(value) {
  return Array.isArray(value) || (ArrayBuffer.isView(value) && !(value instanceof Uint8Array));
}

function datatypeOf(values) {
  if (ArrayBuffer.isView(values)) {
    const own = Object.keys(VIEWS).find((name) => name !== "BOOL" && values instanceof VIEWS[name]);
    if (own === undefined) throw new TypeError("a view of these elements is no tensor");
    return own;
  }
  const all = (test) => values.length > 0 && values.every(test);
  if (all((it) => typeof it === "string" || it instanceof Uint8Array)) return "BYTES";
  if (all((it) => typeof it === "boolean")) return "BOOL";
  return all((it) => typeof it === "bigint") ? "INT64" : "FP32";
}

function encoded(values, datatype) {
  if (datatype === "BYTES") return joined(values);
  const type = VIEWS[datatype];
  let view;
  if (type === undefined) {
    const half = datatype === "FP16" ? toHalf : toBrain;
    view = Uint16Array.from(values, (value) => half(number(value)));
  } else if (values instanceof type) {
    view = values.slice();
  } else {
    view = type.from(values, type === BigInt64Array || type === BigUint64Array ? whole : number);
    if (!datatype.startsWith("FP")) fitting(view, values, datatype);
  }
  return new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
}

/** A typed array would make another number of one that it cannot hold. */
function fitting(view, values, datatype) {
  const most = datatype === "BOOL" ? 1 : Infinity;
  // Loosely: numbers are compared with bigints and truth values.
  const at = view.findIndex((element, at) => element != values[at] || element > most);
  if (at >= 0) throw new InvalidInput(`\`${values[at]}\` is no ${datatype}`);
}

/** A typed array would make a zero or NaN of what is no number. */
function number(value) {
  if (typeof value !== "number" && typeof value !== "boolean" && typeof value !== "bigint") {
    throw new InvalidInput(`\`${value}\` is no number`);
  }
  return Number(value);
}

function whole(value) {
  if (typeof value === "bigint") return value;
  if (!Number.isInteger(value)) throw new InvalidInput(`\`${value}\` is no whole number`);
  return BigInt(value);
}

function joined(values) {
  const pieces = values.map((value) => {
    if (typeof value !== "string" && !(value instanceof Uint8Array)) throw new InvalidInput(`\`${value}\` is no text`);
    return typeof value === "string" ? new TextEncoder().encode(value) : value;
  });
  const data = new Uint8Array(pieces.reduce((length, piece) => length + 4 + piece.length, 0));
  const view = new DataView(data.buffer);
  let at = 0;
  for (const piece of pieces) {
    view.setUint32(at, piece.length, true);
    data.set(piece, at + 4);
    at += 4 + piece.length;
  }
  return data;
}

function parts(data) {
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  const found = [];
  for (let at = 0; at < data.length; ) {
    const length = view.getUint32(at, true);
    found.push(data.slice(at + 4, at + 4 + length));
    at += 4 + length;
  }
  return found;
}

/** A bigint that fits as a number; else as text, which JSON can hold. */
function plain(value) {
  if (typeof value !== "bigint") return value;
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : String(value);
}

const SCRATCH = new DataView(new ArrayBuffer(4));

function bitsOf(value) {
  SCRATCH.setFloat32(0, value);
  return SCRATCH.getUint32(0);
}

function toBrain(value) {
  if (Number.isNaN(value)) return 0x7fc0;
  const bits = bitsOf(value);
  // To the nearest, ties to even.
  return ((bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16) & 0xffff;
}

function fromBrain(bits) {
  SCRATCH.setUint32(0, bits << 16);
  return SCRATCH.getFloat32(0);
}

function fromHalf(bits) {
  const [sign, exponent, fraction] = [bits >> 15 ? -1 : 1, (bits >> 10) & 31, bits & 1023];
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (exponent === 0 ? fraction * 2 ** -24 : (1024 + fraction) * 2 ** (exponent - 25));
}

function toHalf(value) {
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
  if (Number.isNaN(value)) return 0x7e00;
  const size = Math.abs(value);
  // Half a unit beyond the largest begins infinity.
  if (size >= 65520) return sign | 0x7c00;
  const exponent = size < 2 ** -14 ? -14 : Math.floor(Math.log2(size));
  const units = even(size / 2 ** (exponent - 10));
  return sign | (size < 2 ** -14 ? units : ((exponent + 14) << 10) + units);
}

/** The nearest whole number, ties to even. */
function even(value) {
  const whole = Math.floor(value);
  const rest = value - whole;
  return rest > 0.5 || (rest === 0.5 && whole % 2 === 1) ? whole + 1 : whole;
}
