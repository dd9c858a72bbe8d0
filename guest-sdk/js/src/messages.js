// What comes with a request and what goes back: bodies, responses, server-sent events, errors.

import { bytesOf } from "./bytes.js";
import { InvalidInput, UnsupportedMediaType } from "./errors.js";
import { expect, partsOf } from "./multipart.js";
import { said } from "./traces.js";

/** Most fields of a form. */
const MOST_FIELDS = 1000;

/** What a body says about itself and what is in it. */
export class Sample {
  /** In a test `new Sample({ a: 1 })` is JSON; text and bytes are what they are. */
  constructor(body = new Uint8Array(), contentType = undefined) {
    const own = encodedBody(body);
    this.body = own.body;
    this.contentType = contentType ?? (isBytes(body) ? "" : own.contentType);
  }

  /** As UTF-8. */
  text() {
    try {
      return new TextDecoder("utf-8", { fatal: true }).decode(this.body);
    } catch {
      throw new InvalidInput("the body is not UTF-8", this);
    }
  }

  /** As JSON. */
  json() {
    const text = this.text();
    // The text is without it.
    const [first, second, third] = this.body;
    if (first === 0xef && second === 0xbb && third === 0xbf) {
      throw new InvalidInput("malformed json: the body begins with a byte order mark", this);
    }
    try {
      return JSON.parse(text);
    } catch (error) {
      const why = text.trim() === "" ? "the body is empty" : error.message;
      throw new InvalidInput(`malformed json: ${why}`, this);
    }
  }

  /** The fields of `application/x-www-form-urlencoded`, as `URLSearchParams`; another content type is answered with 415. */
  form() {
    expect("application/x-www-form-urlencoded", this.contentType, this);
    const fields = new URLSearchParams(new TextDecoder().decode(this.body));
    if ([...fields].length > MOST_FIELDS) throw new InvalidInput(`more than ${MOST_FIELDS} fields`, this);
    return fields;
  }

  /**
   * The parts of `multipart/form-data`, in order: `name`, `filename` of a file, `contentType`, `body`, and `text()`. At most 1,000,
   * with 8 KiB of headers each; another content type is answered with 415.
   */
  multipart() {
    return partsOf(this.body, this.contentType, this);
  }

  /** Of a JSON object the values under these names, in their order; a missing one is the caller's fault. */
  fields(...names) {
    return this.#values(names, (value) => value);
  }

  /** The same of numbers that are to be FP32; what is none, or too large, is the caller's fault too. */
  numbers(...names) {
    return this.#values(names, (value, name) => {
      if (typeof value !== "number") throw new InvalidInput(`\`${name}\`: invalid type: ${kind(value)}, expected f32`, this);
      if (!Number.isFinite(Math.fround(value))) throw new InvalidInput(`\`${name}\`: number out of range`, this);
      return value;
    });
  }

  /** The first name that is missing, or whose value `checked` refuses, is the one that is told. */
  #values(names, checked) {
    const object = this.json();
    if (kind(object) !== "map") throw new InvalidInput(`invalid type: ${kind(object)}, expected an object`, this);
    return names.map((name) => {
      if (!Object.hasOwn(object, name)) throw new InvalidInput(`missing field \`${name}\``, this);
      return checked(object[name], name);
    });
  }
}

/** What a value of a JSON document is, in the words of every language's SDK. */
function kind(value) {
  if (value === null) return "null";
  if (Array.isArray(value)) return "sequence";
  if (typeof value === "object") return "map";
  if (typeof value === "string") return `string ${JSON.stringify(value)}`;
  return `${typeof value} \`${value}\``;
}

/**
 * A response: `new Response({ a: 1 })` is JSON, text and bytes are what they are, and an iterator is a stream of pieces: text,
 * bytes, or events (`Event`, or objects, which are the JSON data of one). Thrown, it answers at once.
 */
export class Response {
  constructor(body = new Uint8Array(), { status = 200, headers = {}, contentType } = {}) {
    this.status = status;
    this.headers = {};
    const isList = typeof headers?.[Symbol.iterator] === "function";
    for (const [name, value] of isList ? headers : Object.entries(headers)) this.append(name, value);
    checkedHead(status, contentType);
    if (isStream(body)) {
      this.stream = body;
      this.body = new Uint8Array();
      this.contentType = contentType;
    } else {
      const own = encodedBody(body);
      this.body = own.body;
      this.contentType = contentType ?? own.contentType;
    }
  }

  /** Adds a header, or another value of one: two cookies are two of `set-cookie`. A list has several values. */
  append(name, value) {
    const values = headerValues(name, value);
    if (!Object.hasOwn(this.headers, name)) this.headers[name] = values.length === 1 ? values[0] : values;
    else this.headers[name] = [this.headers[name], values].flat();
    return this;
  }

  /** The body as text, for tests. */
  text() {
    return new TextDecoder().decode(this.body);
  }

  /** The body as JSON, for tests. */
  json() {
    return JSON.parse(this.text());
  }
}

/** The values of a header: text, a number, or a list of them; what the host would not take is an error here. */
function headerValues(name, value) {
  return [value].flat().map((it) => {
    if (typeof it === "string" || typeof it === "number") return String(it);
    throw new TypeError(`the header \`${name}\` is ${kind(it)}, expected text or a list of texts`);
  });
}

/** The headers of a response as pairs. */
export function headerPairs(headers) {
  return Object.entries(headers).flatMap(([name, value]) => headerValues(name, value).map((it) => [name, it]));
}

function checkedHead(status, contentType) {
  if (!(Number.isInteger(status) && status >= 0 && status < 1000)) {
    throw new TypeError(`the status is ${kind(status)}, expected a number from 200 to 599`);
  }
  if (contentType !== undefined && typeof contentType !== "string") {
    throw new TypeError(`the content type is ${kind(contentType)}, expected text`);
  }
}

/** A server-sent event. Data that is no text is sent as JSON. */
export class Event {
  constructor(data, { event, id } = {}) {
    Object.assign(this, { data, event, id });
  }

  toString() {
    const data = typeof this.data === "string" ? this.data : JSON.stringify(this.data ?? null);
    // A line's end would begin another field.
    const field = (name, value) => (value === undefined ? "" : `${name}: ${String(value).replace(/[\r\n\0]/g, "")}\n`);
    const lines = data.split(/\r\n|\r|\n/).map((line) => `data: ${line}\n`);
    return `${field("event", this.event)}${field("id", this.id)}${lines.join("")}\n`;
  }
}

/** An error in the form of the host's own. */
export function refusal({ requestId }, status, code, error, headers) {
  return new Response({ error, code, stage: "pre_inference", request_id: requestId }, { status, headers });
}

/** The answer to a body of another type than is asked for. */
export function unsupported({ message }, context) {
  return refusal(context, 415, "unsupported_media_type", message);
}

/** What a function returned as a response. */
export function responseOf(value) {
  return value instanceof Response ? value : new Response(value);
}

export function isStream(value) {
  return typeof value?.next === "function";
}

export function isBytes(value) {
  return ArrayBuffer.isView(value) || value instanceof ArrayBuffer;
}

/** To the host. */
export function responseToHost(response) {
  if (response.stream !== undefined) throw new TypeError("only an application answers with a stream");
  const { status, contentType, body } = response;
  checkedHead(status, contentType);
  return { status, contentType, headers: headerPairs(response.headers), body };
}

/** What the host is told when a function threw that served the request of a context; of a batch the error knows whose it is. */
export function errorToHost(error, context = error?.sample?.context ?? {}) {
  if (error instanceof UnsupportedMediaType) return errorToHost(unsupported(error, context));
  if (error instanceof InvalidInput) return { tag: "invalid-input", val: error.message };
  if (error instanceof Response) return { tag: "respond", val: responseToHost(error) };
  if (error?.kind === "overloaded") return errorToHost(new Response("overloaded", { status: 503 }));
  return { tag: "internal", val: said(error) };
}

/** A body as bytes, and its type. */
export function encodedBody(body) {
  if (isBytes(body)) return { body: bytesOf(body), contentType: "application/octet-stream" };
  const encode = (text) => new TextEncoder().encode(text);
  if (typeof body === "string") return { body: encode(body), contentType: "text/plain; charset=utf-8" };
  return { body: encode(JSON.stringify(body ?? null)), contentType: "application/json" };
}
