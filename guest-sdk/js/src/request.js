// A request of an application, or the handshake of a WebSocket.

import { Context } from "./context.js";
import { Sample } from "./messages.js";

/** One request: its body (`body`, `text()`, `json()`, `fields()`) and its head. */
export class Request extends Sample {
  constructor(body, contentType, context = new Context(), params = {}) {
    super(body, contentType);
    this.context = context;
    this.params = params;
  }

  get method() {
    return this.context.method;
  }

  get path() {
    return this.context.path;
  }

  get query() {
    return this.context.query;
  }

  header(name) {
    return this.context.header(name);
  }
}
