// A container of the store, of the host's or of a test's: what both have in common.

import { bytesOf, textOf } from "./bytes.js";

/** Most bytes that are asked for or given at once. */
const PIECE = 256 * 1024;
/** As far as an object can reach. */
const END = Number.MAX_SAFE_INTEGER;

/** Why a container has not done what it should, in the host's words. */
export class BlobError extends Error {
  name = "BlobError";
}

/** Objects by name; a name is any text of 1 to 512 bytes. */
export class Container {
  #with;

  /** `opened` calls a function with the store's container of this name. */
  constructor(name, opened) {
    this.name = name;
    this.#with = opened;
  }

  /** An object as a whole, or undefined. */
  get(name) {
    return this.reader(name)?.rest();
  }

  /** The same as text. */
  getText(name) {
    const content = this.get(name);
    return content === undefined ? undefined : text(name, content);
  }

  /** Its bytes from `start` up to `end`, as far as there are some; undefined if it is not there. */
  getRange(name, start, end) {
    if (end > start) return this.#opened(name, start, end - 1)?.rest();
    return this.info(name) === undefined ? undefined : new Uint8Array();
  }

  /** The object to be read piece by piece, or undefined: `for (const piece of reader)`, or `reader.read(size)`. */
  reader(name) {
    return this.#opened(name, 0, END);
  }

  /** Writes an object as a whole, in place of an earlier one: bytes, or a text. */
  set(name, content) {
    const writer = this.writer(name);
    try {
      writer.write(content);
    } catch (error) {
      writer.abort();
      throw error;
    }
    writer.finish();
  }

  /** An object to be written piece by piece: it is there when `finish` has returned, and nothing is left of one without. */
  writer(name) {
    return new Writer(this.#with((container) => container.write(name)));
  }

  /** `{ size, created }`: its bytes, and when it was written, in seconds since 1970; undefined if it is not there. */
  info(name) {
    return this.#with((container) => container.info(name));
  }

  /** Removes an object, whether it is there or not. */
  delete(name) {
    this.#with((container) => container.delete(name));
  }

  /** Removes all objects. */
  clear() {
    this.#with((container) => container.clear());
  }

  /** The names of all objects, or of so many, in any order. */
  names(most = Infinity) {
    return this.#with((container) => container.names(most));
  }

  #opened(name, first, last) {
    try {
      return new Reader(this.#with((container) => container.read(name, first, last)));
    } catch (error) {
      // What went wrong, its words alone say.
      if (error instanceof BlobError && this.info(name) === undefined) return undefined;
      throw error;
    }
  }
}

/** An object that is read; `size` are the bytes that there are. It closes itself at its end. */
export class Reader {
  #stream;

  constructor({ stream, size }) {
    this.#stream = stream;
    this.size = size;
  }

  /** At most so many of the next bytes, none at the end. */
  read(size = PIECE) {
    if (this.#stream === undefined || size <= 0) return new Uint8Array();
    const piece = this.#stream.read(Math.min(size, PIECE));
    if (piece.length === 0) this.close();
    return piece;
  }

  /** All bytes that are left. */
  rest() {
    const pieces = [...this];
    const all = new Uint8Array(pieces.reduce((sum, { length }) => sum + length, 0));
    let at = 0;
    for (const piece of pieces) {
      all.set(piece, at);
      at += piece.length;
    }
    return all;
  }

  /** Reads no more. */
  close() {
    const stream = this.#stream;
    this.#stream = undefined;
    stream?.close();
  }

  *[Symbol.iterator]() {
    try {
      for (let piece = this.read(); piece.length > 0; piece = this.read()) yield piece;
    } finally {
      this.close();
    }
  }
}

/** An object that is written. */
export class Writer {
  #stream;

  constructor(stream) {
    this.#stream = stream;
  }

  /** Adds to it: bytes, or a text. */
  write(content) {
    const all = bytes(content);
    for (let at = 0; at < all.length; ) at += this.#open().write(all.subarray(at, at + PIECE));
  }

  /** Ends the object: it is stored when this returns. */
  finish() {
    const stream = this.#open();
    this.#stream = undefined;
    stream.finish();
  }

  /** Gives the object up: nothing is left of it. */
  abort() {
    const stream = this.#stream;
    this.#stream = undefined;
    stream?.abort();
  }

  #open() {
    if (this.#stream === undefined) throw new BlobError("the object is finished");
    return this.#stream;
  }
}

function text(name, content) {
  try {
    return textOf(content);
  } catch {
    throw new BlobError(`the object \`${name}\` is not UTF-8`);
  }
}

function bytes(content) {
  if (typeof content === "string") return new TextEncoder().encode(content);
  if (ArrayBuffer.isView(content)) return bytesOf(content);
  throw new TypeError(`the content of an object is bytes or a text, and not ${typeof content}`);
}
