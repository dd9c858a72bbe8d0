// The request that a function serves, and what it is part of.

import { Sample } from "./messages.js";

/**
 * The request being served. What is not asked for is not fetched.
 *
 * A test makes one: `new Context({ metadata: { labels: ["cat"] }, headers: { "x-user": "7" } })`.
 */
export class Context {
  #host;

  constructor(given = {}) {
    this.#host = made(given);
  }

  static of(host) {
    const context = new Context();
    context.#host = host;
    return context;
  }

  /** From the header `x-request-id`, or made by the host. */
  get requestId() {
    return this.#host.requestId();
  }

  /** Upper case. */
  get method() {
    return this.#host.method();
  }

  /** Without the query. */
  get path() {
    return this.#host.path();
  }

  /** The query's parameters. */
  get query() {
    return new URLSearchParams(this.#host.query());
  }

  /** The query as the client sent it, with its question mark; empty without one. */
  get search() {
    const query = this.#host.query();
    return query && `?${query}`;
  }

  /** The header's first value, or undefined. Names match in any case. */
  header(name) {
    return this.#host.header(name) ?? undefined;
  }

  /** The request's body again, for post-inference. */
  get sample() {
    const { body, contentType } = this.#host.sample();
    return new Sample(body, contentType);
  }

  /** The endpoint's `metadata`; null if the configuration has none. */
  get metadata() {
    return JSON.parse(this.#host.metadata());
  }

  /** The request's `parameters` of the Open Inference Protocol. */
  get parameters() {
    return JSON.parse(this.#host.parameters());
  }

  /** The model's inputs and outputs: `{ name, datatype, shape }`, -1 for any extent. */
  get signature() {
    return signatureOf(this.#host.signature());
  }
}

/** Of what the host said. */
export function signatureOf({ inputs, outputs }) {
  const specs = (specs) =>
    specs.map(({ name, datatype, shape }) => ({ name, datatype: datatype.toUpperCase(), shape: Array.from(shape, Number) }));
  return { inputs: specs(inputs), outputs: specs(outputs) };
}

/** A context of a test: the same functions as the host's. */
function made({ sample = new Sample(), method = "POST", path = "/", query = "", headers = {}, metadata = null, parameters = {},
  signature = { inputs: [], outputs: [] }, requestId = "test" }) {
  const plain = (name) => name.toLowerCase().replaceAll("_", "-");
  const known = new Map(Object.entries(headers).map(([name, value]) => [plain(name), value]));
  return {
    requestId: () => requestId,
    method: () => method,
    path: () => path,
    query: () => String(query),
    header: (name) => known.get(plain(name)),
    sample: () => sample,
    metadata: () => JSON.stringify(metadata),
    parameters: () => JSON.stringify(parameters),
    signature: () => signature,
  };
}
