// Applications: routes to functions, whose results become responses, in one piece or as a stream.
//
// A component that exports `respond` serves every method and path below its endpoint's.

import { bytesOf } from "./bytes.js";
import { Context } from "./context.js";
import { InvalidInput, UnsupportedMediaType } from "./errors.js";
import { initExport } from "./handler.js";
import {
  Event, Response, Sample, errorToHost, headerPairs, isBytes, refusal, responseOf, responseToHost, unsupported,
} from "./messages.js";
import { dispose, ended } from "./released.js";
import { Request } from "./request.js";
import { websocketExport } from "./socket.js";

/**
 * An application: `export const { operations, respond } = new App().get("/", () => "hello").exports()`.
 *
 * Functions take a request, and may be asynchronous. They return a `Response`, text, bytes, what is written as JSON, or a
 * generator, whose pieces are a stream: text, bytes, or events. `/items/{id}` has a parameter, which is one segment;
 * `/files/{*path}` has one that is all the rest.
 */
export class App {
  #routes = [];
  #talks = [];
  #init;

  /** Runs once, when the handler is loaded, with the endpoint's metadata. */
  init(call) {
    this.#init = call;
    return this;
  }

  /** Serves requests of a method to a path. */
  on(method, route, call) {
    this.#routes.push({ method, route, call });
    return this;
  }

  /** Serves `GET` and `HEAD`. */
  get(route, call) {
    return this.on("GET", route, call);
  }

  /** Serves `POST`. */
  post(route, call) {
    return this.on("POST", route, call);
  }

  /** Answers `{"started": true}` to `POST` at once, and works then: at most `limits.background_timeout`. */
  background(route, call) {
    this.#routes.push({ method: "POST", route, call, isBackground: true });
    return this;
  }

  /** Serves WebSockets at a path: `call(socket, request)`. */
  websocket(route, call) {
    this.#talks.push({ route, call });
    return this;
  }

  /**
   * Serves `POST`s together: the function gets a list of requests, as many as have come when the host calls, and returns a list with
   * a result for each; one may be an error. A request whose body it fails to read has that error, and the function is called again
   * with the others. The endpoint says how many may be in a batch (`batching.max_requests`); without, each is one of its own. The
   * module exports `respondAll` too, and the path has no parameters.
   */
  batch(route, call) {
    const alone = async (request) => only(await together(call, [request]));
    this.#routes.push({ method: "POST", route, call: alone, batch: call });
    return this;
  }

  /** The exports of the component. */
  exports() {
    const respond = exportOf((sample, context, output) => this.respond(sample, context, output));
    const exported = { operations: { operations: () => this.operations() }, respond };
    if (this.#init) exported.init = initExport(this.#init);
    if (this.#talks.length > 0) exported.websocket = websocketExport((socket, request) => this.talk(socket, request));
    const paths = this.#routes.filter(({ batch }) => batch).map(({ route }) => route);
    if (paths.length > 0) exported.respondAll = batchExport(paths, (requests) => this.respondAll(requests));
    return exported;
  }

  /** Serves the requests of a batch: a result or an error for each. */
  async respondAll(requests) {
    const { path } = requests[0];
    return together(this.#routes.find(({ batch, route }) => batch && route === path).batch, requests);
  }

  /** Its routes, as `/openapi.json` has them. */
  operations() {
    const consumes = (method) => (method === "GET" ? "" : "application/json");
    return this.#routes.map(({ method, route: path }) => ({ method, path, summary: "", consumes: consumes(method), produces: "" }));
  }

  /** Runs what `init` was given, as the host does when it loads the handler; a test calls it first. */
  async start(metadata) {
    await this.#init?.(metadata);
  }

  /** What a request gets, whole, without a host: for tests. Background work is done when it is there. */
  async answer({ method = "POST", path = "/", json, body, contentType, ...head } = {}) {
    const sample = json === undefined ? new Sample(body, contentType) : new Sample(json, contentType ?? "application/json");
    const context = new Context({ sample, method, path, ...head });
    const output = new Collected();
    try {
      const response = await this.respond(sample, context, output);
      return response ?? output.response;
    } catch (error) {
      if (error instanceof Response) return error;
      if (error instanceof UnsupportedMediaType) return unsupported(error, context);
      if (!(error instanceof InvalidInput)) throw error;
      return refusal(context, 400, "invalid_input", error.message);
    }
  }

  /** Serves one request: a response, or none if it was sent by `output`. */
  async respond(sample, context, output) {
    const { method, path } = context;
    const allowed = new Set();
    for (const { method: own, route, call, isBackground } of this.#routes) {
      const params = parameters(route, path);
      if (params === undefined) continue;
      if (own !== method && !(own === "GET" && method === "HEAD")) {
        allowed.add(own);
        continue;
      }
      const request = new Request(sample.body, sample.contentType, context, params);
      if (isBackground) {
        output.send(new Response({ started: true }));
        await call(request);
        return undefined;
      }
      const made = await call(request);
      if (isPlatforms(made)) {
        await sent(made, output);
        return undefined;
      }
      const response = responseOf(made);
      if (response.stream === undefined) return response;
      await streamed(response, output);
      return undefined;
    }
    if (allowed.size === 0) return nothingThere(context);
    if (allowed.has("GET")) allowed.add("HEAD");
    const headers = { allow: [...allowed].join(", ") };
    return refusal(context, 405, "method_not_allowed", "the path is there for other methods", headers);
  }

  /** Serves one socket: the handshake of a path that has no function is answered as any request is. */
  async talk(socket, request) {
    for (const { route, call } of this.#talks) {
      const params = parameters(route, request.path);
      if (params === undefined) continue;
      request.params = params;
      await call(socket, request);
      return;
    }
    throw nothingThere(request.context);
  }
}

function nothingThere(context) {
  return refusal(context, 404, "not_found", "there is nothing at this path");
}

/** The host gives a header by its name, and does not list them; these are what a `Request` has of them. */
const HEADERS = [
  "accept", "accept-language", "authorization", "content-type", "cookie", "if-none-match", "last-event-id", "origin", "referer",
  "user-agent", "x-forwarded-prefix", "x-request-id",
];

/**
 * The exports of an application that is one function of the web platform: `export const { operations, respond } = serve(fetch)`, with
 * `async function fetch(request, context)` from a `Request` to a `Response`. Other headers than the usual ones are to be
 * had by `context.header(name)`. `websocket(socket, request)` serves WebSockets beside it.
 */
export function serve(fetch, { websocket } = {}) {
  const respond = exportOf((sample, context, output) => fetched(fetch, sample, context, output));
  const exported = { operations: { operations: () => [] }, respond };
  if (websocket) exported.websocket = websocketExport(websocket);
  return exported;
}

async function fetched(fetch, sample, context, output) {
  const { method, path, search } = context;
  // A URL of any other would be another one, or none.
  const host = /^([\w.-]+|\[[\da-f:.]+\])(:\d+)?$/i.exec(context.header("host") ?? "")?.[0] ?? "localhost";
  const body = method === "GET" || method === "HEAD" ? undefined : sample.body;
  const given = HEADERS.map((name) => [name, context.header(name)]);
  const headers = Object.fromEntries(given.filter(([, value]) => value !== undefined));
  const scheme = context.header(":scheme") === "https" ? "https" : "http";
  const request = new globalThis.Request(`${scheme}://${host}${path}${search}`, { method, headers, body });
  await sent(await fetch(request, context), output);
  return undefined;
}

/** Whether a value is a response of the web platform's, and none of this package's. */
function isPlatforms(value) {
  return globalThis.Response !== undefined && value instanceof globalThis.Response;
}

/** Sends a response of the platform's. */
async function sent(response, output) {
  const contentType = response.headers.get("content-type") ?? "application/octet-stream";
  const rest = [...response.headers].filter(([name]) => name !== "content-type" && name !== "content-length");
  output.begin(response.status, contentType, rest);
  if (response.body !== null) {
    const reader = response.body.getReader();
    for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
      if (!output.write(piece.value)) {
        await reader.cancel();
        break;
      }
    }
  }
  output.finish();
}

/**
 * The exports of a module's default export, which the build takes from here: of an `App`, or of an object with `fetch` and, if it likes,
 * `init` and `websocket`. What the build has taken for one of them and is none does nothing.
 */
export function exportsOf(handler) {
  if (!(handler instanceof App) && typeof handler?.fetch !== "function") {
    throw new TypeError("the default export is an `App`, or an object with a function `fetch`");
  }
  const own = handler instanceof App ? handler.exports() : platforms(handler);
  const init = initExport(() => {});
  const websocket = websocketExport((socket, { context }) => {
    throw nothingThere(context);
  });
  return { init, websocket, respondAll: { paths: () => [], respondAll: () => [] }, ...own };
}

function platforms(handler) {
  const websocket = handler.websocket && ((socket, request) => handler.websocket(socket, request));
  const exported = serve((request, context) => handler.fetch(request, context), { websocket });
  if (handler.init) exported.init = initExport((metadata) => handler.init(metadata));
  return exported;
}

function exportOf(call) {
  return {
    async respond(sample, context, output) {
      const own = new Output(output);
      const request = Context.of(context);
      try {
        const response = await call(sample, request, own);
        return response === undefined ? undefined : responseToHost(response);
      } catch (error) {
        throw errorToHost(error, request);
      } finally {
        own.close();
        ended();
      }
    },
  };
}

function batchExport(paths, call) {
  return {
    paths: () => paths,
    async respondAll(members) {
      try {
        const request = ({ sample, context }) => new Request(sample.body, sample.contentType, Context.of(context));
        const results = await call(members.map(request));
        return results.map(resultToHost);
      } catch (error) {
        throw errorToHost(error);
      } finally {
        members.forEach(({ context }) => dispose(context));
        ended();
      }
    },
  };
}

function resultToHost(result) {
  try {
    if (result instanceof Error) throw result;
    return { tag: "ok", val: responseToHost(responseOf(result)) };
  } catch (error) {
    return { tag: "err", val: errorToHost(error) };
  }
}

/**
 * Calls a function of requests. One that says it is JSON and is not has an error of its own and is not among them. Where the
 * function fails at reading a body of another, that one has the error, and the function is called again with the rest.
 */
async function together(call, requests) {
  const refused = new Map();
  for (const request of requests.filter(isJson)) {
    try {
      request.json();
    } catch (error) {
      refused.set(request, error);
    }
  }
  for (;;) {
    const given = requests.filter((request) => !refused.has(request));
    try {
      const results = given.length > 0 ? await call([...given]) : [];
      return placed(requests, refused, results);
    } catch (error) {
      if (!(error instanceof InvalidInput && given.includes(error.sample))) throw error;
      refused.set(error.sample, error);
    }
  }
}

function isJson({ contentType }) {
  const kind = (contentType ?? "").split(";")[0].trim().toLowerCase();
  return kind === "application/json" || kind.endsWith("+json");
}

/** The results of a batch and the errors of those that were refused, in the order of its requests. */
function placed(requests, refused, results) {
  if (!Array.isArray(results)) {
    const wanted = `a function of a batch returns a list, with one result for each of its ${requests.length - refused.size} requests`;
    const error = `${wanted}; this one returned ${results === null ? "null" : typeof results}`;
    console.log(error);
    return requests.map(({ context }) => refusal(context, 500, "plugin_bad_output", error));
  }
  let next = 0;
  // Results that are too few or too many stay so: the host tells all requests of it.
  const made = requests.flatMap((request) => refused.get(request) ?? results.slice(next, ++next));
  return [...made, ...results.slice(next)];
}

/** The result of a batch of one. */
function only(results) {
  if (results.length !== 1) throw new Error(`${results.length} results for a batch of 1 request, expected one for each`);
  if (results[0] instanceof Error) throw results[0];
  return results[0];
}

/** The host's way to send a response. */
class Output {
  #host;

  constructor(host) {
    this.#host = host;
  }

  begin(status, contentType, headers) {
    this.#host.begin(status, contentType, headers);
  }

  /** False: the client is gone. */
  write(piece) {
    return this.#host.write(piece);
  }

  finish() {
    const host = this.#taken();
    host.constructor.finish(host);
  }

  send(response) {
    const host = this.#taken();
    host.constructor.send(host, responseToHost(response));
  }

  /** Gives up what was not used: an instance that keeps it serves no other request. */
  close() {
    dispose(this.#taken());
  }

  #taken() {
    const host = this.#host;
    this.#host = undefined;
    return host;
  }
}

/** The same in a test; keeps what was sent. */
class Collected {
  begin(status, contentType, headers) {
    this.send(new Response(new Uint8Array(), { status, contentType, headers }));
  }

  write(piece) {
    this.response.body = new Uint8Array([...this.response.body, ...piece]);
    return true;
  }

  finish() {}

  send(response) {
    this.response = response;
  }
}

/** Sends the pieces of a stream while they come. The first one says what it is, unless the response does. */
async function streamed({ stream, status, contentType, headers }, output) {
  let piece = await stream.next();
  output.begin(status, contentType ?? typeOf(piece), headerPairs(headers));
  while (!piece.done && output.write(bytes(piece.value))) piece = await stream.next();
  // The client may be gone: what the generator holds is let go.
  await stream.return?.();
  output.finish();
}

function typeOf({ done, value }) {
  if (typeof value === "string") return "text/plain; charset=utf-8";
  return done || isBytes(value) ? "application/octet-stream" : "text/event-stream";
}

function bytes(piece) {
  if (isBytes(piece)) return bytesOf(piece);
  const text = typeof piece === "string" ? piece : String(piece instanceof Event ? piece : new Event(piece));
  return new TextEncoder().encode(text);
}

/** The parameters of a path, decoded, if it fits the pattern; else undefined. */
export function parameters(pattern, path) {
  const own = pattern.slice(1).split("/");
  const asked = path.slice(1).split("/");
  const found = {};
  for (const [at, segment] of own.entries()) {
    const name = /^\{(.*)\}$/.exec(segment)?.[1];
    try {
      if (asked[at] === undefined) return undefined;
      if (name?.startsWith("*")) {
        found[name.slice(1)] = decoded(asked.slice(at).join("/"));
        return found;
      }
      if (name !== undefined && asked[at] === "") return undefined;
      if (name !== undefined) found[name] = decoded(asked[at]);
      else if (segment !== asked[at]) return undefined;
    } catch {
      // No UTF-8 behind the percent signs.
      return undefined;
    }
  }
  return own.length === asked.length ? found : undefined;
}

/** The text with its percent signs resolved; one without two digits stays. */
function decoded(text) {
  return decodeURIComponent(text.replace(/%(?![\da-f]{2})/gi, "%25"));
}
