// The client of a WebSocket where there is no host.

import { Context } from "./context.js";
import { served } from "./socket.js";

/** Codes that a close may have, each from the first to the last. */
const CODES = [[1000, 1003], [1007, 1011], [3000, 4999]];

/**
 * Has a function, or an application, serve a client that says these messages and then closes with 1000. What the function throws
 * while the socket is open, this throws too. The client's subprotocols are in the header `sec-websocket-protocol`.
 */
export async function converse(talk, says = [], head = {}) {
  const context = new Context({ method: "GET", ...head });
  const client = new Client(says, context.header("sec-websocket-protocol") ?? "");
  await served(typeof talk === "function" ? talk : (socket, request) => talk.talk(socket, request), client, context);
  return client.conversation;
}

/** The host's side; keeps what the function sent, the subprotocol that it chose, and how it ended. */
class Client {
  conversation = { sent: [] };
  #says;
  #protocols;

  constructor(says, protocols) {
    this.#says = [...says];
    this.#protocols = protocols.split(",").map((it) => it.trim()).filter((it) => it !== "");
  }

  protocols() {
    return this.#protocols;
  }

  accept(protocol) {
    if (protocol !== undefined && !this.#protocols.includes(protocol)) {
      throw new RangeError(`the client offers no subprotocol \`${protocol}\``);
    }
    this.conversation.protocol = protocol;
  }

  refuse(response) {
    this.conversation.refusal = response;
  }

  receive() {
    if (this.#says.length === 0) this.#end({ code: 1000, reason: "" });
    this.#end(this.conversation.close);
    const val = this.#says.shift();
    return { tag: typeof val === "string" ? "text" : "binary", val };
  }

  send({ val }) {
    this.#end(this.conversation.close);
    this.conversation.sent.push(val);
  }

  close(code, reason) {
    if (!CODES.some(([first, last]) => first <= code && code <= last)) {
      throw { tag: "invalid", val: `code ${code} is not one that is sent` };
    }
    this.conversation.close ??= { code, reason };
  }

  /** Says that the socket is closed, if it is. */
  #end(close) {
    if (close !== undefined) throw { tag: "closed", val: this.conversation.close ?? close };
  }
}
