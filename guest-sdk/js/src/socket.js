// WebSockets: a function that talks with a client for as long as both like.

import { bytesOf } from "./bytes.js";
import { Context } from "./context.js";
import { InvalidInput, UnsupportedMediaType } from "./errors.js";
import { Response, refusal, responseToHost, unsupported } from "./messages.js";
import { dispose, ended } from "./released.js";
import { Request } from "./request.js";
import { said } from "./traces.js";

/** No message came in the time that `receive` was given. */
export class TimeoutError extends Error {
  name = "TimeoutError";
}

/**
 * A client's socket: `for (const message of socket)`. It opens at its first use, and is closed with 1000 when the function returns.
 * Until it is open, a thrown `Response` and `InvalidInput` are the answer to the handshake, as to any request.
 */
export class Socket {
  #host;
  #isOpen = false;
  #closed;

  constructor(host) {
    this.#host = host;
  }

  get isOpen() {
    return this.#isOpen;
  }

  /** How it was closed, `{ code, reason }`, once a call has found that out. */
  get closed() {
    return this.#closed;
  }

  /** The subprotocols that the client offers, in its order of preference. */
  get protocols() {
    return this.#host.protocols();
  }

  /** Opens the socket, with one of the client's subprotocols or none. */
  accept(protocol) {
    if (this.#isOpen) throw new Error("the socket is open already");
    this.#host.accept(protocol);
    this.#isOpen = true;
  }

  /** Waits for the next message, `timeout` seconds at most: a text, or bytes. Undefined: the socket is closed. */
  receive({ timeout } = {}) {
    const most = timeout === undefined ? undefined : Math.min(Math.max(Math.floor(timeout * 1000), 0), 2 ** 32 - 1);
    const message = this.#asked((host) => host.receive(most));
    return message?.tag === "binary" ? bytesOf(message.val) : message?.val;
  }

  /** The next message as JSON; undefined if the socket is closed. */
  receiveJson(options) {
    const message = this.receive(options);
    return message === undefined ? undefined : JSON.parse(typeof message === "string" ? message : new TextDecoder().decode(message));
  }

  /** Sends a text, or bytes; waits while the client does not read. False: the socket is closed. */
  send(message) {
    let sent;
    if (typeof message === "string") sent = { tag: "text", val: message };
    else if (ArrayBuffer.isView(message)) sent = { tag: "binary", val: bytesOf(message) };
    else throw new TypeError(`a message is a text or bytes, and not ${typeof message}; \`sendJson\` sends others`);
    return this.#asked((host) => host.send(sent) ?? true) ?? false;
  }

  /** Sends a value as JSON. */
  sendJson(value) {
    return this.send(JSON.stringify(value));
  }

  /** Closes the socket after what was sent, with 1000 to 1003, 1007 to 1011, or 3000 to 4999. The first close counts. */
  close(code = 1000, reason = "") {
    this.#asked((host) => host.close(code, reason));
    this.#closed ??= { code, reason };
  }

  *[Symbol.iterator]() {
    for (let message = this.receive(); message !== undefined; message = this.receive()) yield message;
  }

  /** What the host answers; undefined if the socket is closed. */
  #asked(ask) {
    if (!this.#isOpen) this.accept();
    try {
      return ask(this.#host);
    } catch (error) {
      const { tag, val } = error?.payload ?? error;
      if (tag === "timed-out") throw new TimeoutError("no message came in that time");
      if (tag === "invalid") throw new RangeError(val);
      if (tag !== "closed") throw error;
      this.#closed ??= { code: val.code, reason: val.reason };
      return undefined;
    }
  }
}

/** The export `websocket`; `talk` takes a socket and the request of the handshake. */
export function websocketExport(talk) {
  return {
    async websocket(upgrade, context) {
      const host = new Host(upgrade);
      try {
        await served(talk, host, Context.of(context));
      } catch (error) {
        throw said(error);
      } finally {
        host.end();
        ended();
      }
    },
  };
}

/** Has a function talk. What it throws before the socket is open is the answer to the handshake. */
export async function served(talk, host, context) {
  const socket = new Socket(host);
  try {
    await talk(socket, new Request(undefined, undefined, context));
    if (!socket.isOpen) socket.accept();
  } catch (error) {
    if (socket.isOpen || !(error instanceof Response || error instanceof InvalidInput)) throw error;
    if (error instanceof UnsupportedMediaType) host.refuse(unsupported(error, context));
    else host.refuse(error instanceof Response ? error : refusal(context, 400, "invalid_input", error.message));
  }
}

/** The host's side of a socket: the handshake, and what comes of it. */
class Host {
  #upgrade;
  #socket;

  constructor(upgrade) {
    this.#upgrade = upgrade;
  }

  protocols() {
    return this.#upgrade?.protocols() ?? [];
  }

  accept(protocol) {
    this.#socket = this.#answered("accept", protocol);
  }

  refuse(response) {
    this.#answered("refuse", responseToHost(response));
  }

  #answered(how, given) {
    const upgrade = this.#upgrade;
    if (upgrade === undefined) throw new Error("the handshake is answered already");
    this.#upgrade = undefined;
    try {
      return upgrade.constructor[how](upgrade, given);
    } catch (error) {
      throw typeof error?.payload === "string" ? new RangeError(error.payload) : error;
    }
  }

  receive(milliseconds) {
    return this.#socket.receive(milliseconds);
  }

  send(message) {
    return this.#socket.send(message);
  }

  close(code, reason) {
    this.#socket.close(code, reason);
  }

  /** Gives up what the host lent: an instance that keeps it serves no other socket. */
  end() {
    dispose(this.#upgrade);
    dispose(this.#socket);
    this.#upgrade = this.#socket = undefined;
  }
}
