// Objects that outlive a request, of any size: in the containers that the endpoint grants, `blobs = ["default"]`.

import * as host from "wasi:blobstore/blobstore@0.2.0-draft";
import { OutgoingValue } from "wasi:blobstore/types@0.2.0-draft";

import { bytesOf } from "./bytes.js";
import { BlobError, Container } from "./container.js";
import { dispose, hold, release, taken } from "./released.js";

/** Most names of one page. */
const PAGE = 1000;

/**
 * A container: `default`, or `shared/images` for one that several endpoints are granted. The host is asked at each use, so that a
 * container may be a constant of the module.
 */
export function open(name = "default") {
  return new Container(name, (call) => {
    const container = told(() => host.getContainer(name));
    try {
      return told(() => call(new Opened(container)));
    } finally {
      dispose(container);
    }
  });
}

/** For tests, which have no host. */
export function forget() {
  throw new Error("only a test forgets all objects");
}

/** A container of the host, for one call. */
class Opened {
  #container;

  constructor(container) {
    this.#container = container;
  }

  read(name, first, last) {
    const value = this.#container.getData(name, BigInt(first), BigInt(last));
    const size = Number(value.size());
    return { stream: new Input(value.constructor.incomingValueConsumeAsync(value)), size };
  }

  write(name) {
    const value = OutgoingValue.newOutgoingValue();
    this.#container.writeData(name, value);
    return new Output(value);
  }

  info(name) {
    if (!this.#container.hasObject(name)) return undefined;
    const { size, createdAt } = this.#container.objectInfo(name);
    return { size: Number(size), created: Number(createdAt) };
  }

  delete(name) {
    this.#container.deleteObject(name);
  }

  clear() {
    this.#container.clear();
  }

  names(most) {
    const listing = this.#container.listObjects();
    const names = [];
    try {
      for (let isEnd = false; !isEnd && names.length < most; ) {
        const [page, end] = listing.readStreamObjectNames(BigInt(Math.min(PAGE, most - names.length)));
        names.push(...page);
        isEnd = end;
      }
    } finally {
      dispose(listing);
    }
    return names;
  }
}

/** A stream of the host's that is read. */
class Input {
  #stream;

  constructor(stream) {
    this.#stream = hold(stream);
  }

  read(size) {
    try {
      return bytesOf(this.#stream.blockingRead(BigInt(size)));
    } catch (error) {
      if (error?.payload?.tag === "closed") return new Uint8Array();
      throw blobError(error);
    }
  }

  close() {
    release(this.#stream);
  }
}

/** One that is written. */
class Output {
  #value;
  #stream;

  constructor(value) {
    this.#stream = hold(value.outgoingValueWriteBody());
    // Behind its stream, so that it is given up after it.
    this.#value = hold(value);
  }

  /** Writes the first bytes of these, and says how many. */
  write(content) {
    return told(() => {
      let room = Number(this.#stream.checkWrite());
      if (room === 0) {
        const ready = this.#stream.subscribe();
        ready.block();
        dispose(ready);
        room = Number(this.#stream.checkWrite());
      }
      const piece = content.subarray(0, room);
      this.#stream.write(piece);
      return piece.length;
    });
  }

  finish() {
    release(this.#stream);
    told(() => OutgoingValue.finish(taken(this.#value)));
  }

  abort() {
    release(this.#stream);
    release(this.#value);
  }
}

/** What a call gives; what the host refuses is an error of a container. */
function told(call) {
  try {
    return call();
  } catch (error) {
    throw error?.payload === undefined ? error : blobError(error);
  }
}

/** The host's words. */
function blobError(error) {
  const { payload } = error;
  if (typeof payload === "string") return new BlobError(payload);
  const words = payload?.val?.toDebugString?.() ?? "the object is closed";
  dispose(payload?.val);
  return new BlobError(words);
}

export { BlobError } from "./container.js";
