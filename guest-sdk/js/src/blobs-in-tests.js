// Containers where there is no host: in memory, each there as soon as it is named.

import { BlobError, Container } from "./container.js";

const LONGEST_NAME = 512;

let containers = new Map();

export function open(name = "default") {
  return new Container(name, (call) => call(new Objects(name)));
}

/** Forgets all objects. */
export function forget() {
  containers = new Map();
}

/** What the host's container does, but for limits. */
class Objects {
  constructor(name) {
    if (!containers.has(name)) containers.set(name, new Map());
    this.stored = containers.get(name);
  }

  read(name, first, last) {
    const object = this.stored.get(checked(name));
    if (object === undefined) throw new BlobError(`there is no object \`${name}\``);
    const content = object.content.subarray(first, last + 1);
    return { stream: new Input(content), size: content.length };
  }

  write(name) {
    return new Output(this.stored, checked(name));
  }

  info(name) {
    const object = this.stored.get(checked(name));
    return object && { size: object.content.length, created: object.created };
  }

  delete(name) {
    this.stored.delete(checked(name));
  }

  clear() {
    this.stored.clear();
  }

  names(most) {
    return [...this.stored.keys()].slice(0, most);
  }
}

class Input {
  #content;

  constructor(content) {
    this.#content = content;
  }

  read(size) {
    const piece = this.#content.slice(0, size);
    this.#content = this.#content.subarray(size);
    return piece;
  }

  close() {}
}

class Output {
  #stored;
  #name;
  #content = new Uint8Array();

  constructor(stored, name) {
    this.#stored = stored;
    this.#name = name;
  }

  write(piece) {
    const before = this.#content;
    this.#content = new Uint8Array(before.length + piece.length);
    this.#content.set(before);
    this.#content.set(piece, before.length);
    return piece.length;
  }

  finish() {
    this.#stored.set(this.#name, { content: this.#content, created: Math.floor(Date.now() / 1000) });
  }

  abort() {}
}

function checked(name) {
  const { length } = new TextEncoder().encode(name);
  if (length < 1 || length > LONGEST_NAME) throw new BlobError(`a name of ${length} bytes, expected 1 to ${LONGEST_NAME}`);
  return name;
}

export { BlobError } from "./container.js";
