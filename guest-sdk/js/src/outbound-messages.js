// Requests to others and their responses: the same in a component and in a test.

import { contentOf } from "./content.js";
import { encodedBody, isBytes, isStream } from "./messages.js";

/** Most bytes of a body that is read whole. */
const LONGEST = 16 << 20;
/** Times where none is said, in seconds. */
const TIMEOUT = 30;
const PAUSE = 1;
/** The beginning of a secret in base64; with nothing behind it, it is empty. */
const ENCODED = "whsec_";
const NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const NO_VALUE = /[\x00-\x08\x0a-\x1f\x7f]/;
const TEXTS = {
  denied: () => "`allow_outbound` does not list where the request goes",
  prohibited: () => "the name leads to an address that is not of the internet, and not listed itself",
  "timed-out": () => "there was no answer in time",
  failed: (text) => `the request failed: ${text}`,
  "too-long": () => `the body is longer than ${LONGEST} bytes`,
  status: (status) => `the receiver answered with status ${status}`,
};

/**
 * Why there is no response, or no more of it: the handler's failure, a 500, unless it is caught. `kind` is one of denied,
 * prohibited, invalid, timed-out, failed, too-long, and of a webhook status, whose number is `status`.
 */
export class OutboundError extends Error {
  name = "OutboundError";

  constructor(kind, detail = "") {
    super(TEXTS[kind]?.(detail) ?? detail);
    this.kind = kind;
    this.status = kind === "status" ? detail : undefined;
  }
}

/**
 * A server's answer, of any status. Its body is read once, as it comes: whole, or `for (const piece of response)`. It is given
 * up at the request's end, or by `close()`. A test makes one as a handler makes its own: `new Response({ a: 1 })` is JSON, text
 * and bytes are what they are, and an iterator has pieces.
 */
export class Response {
  #body;

  constructor(body = new Uint8Array(), { status = 200, headers = {} } = {}) {
    const { body: content, contentType } = isStream(body) || isBytes(body) ? { body } : encodedBody(body);
    const given = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), String(value)]);
    this.status = status;
    this.headers = given;
    if (contentType !== undefined && this.header("content-type") === undefined) given.push(["content-type", contentType]);
    this.#body = inTests(isStream(content) ? content : [content].values());
  }

  /** Of pairs, and of what reads the pieces. */
  static of(status, headers, body) {
    const response = new Response(undefined, { status });
    response.headers = headers;
    response.#body = body;
    return response;
  }

  /** The first header of this name, or `undefined`. */
  header(name) {
    return this.headers.find(([own]) => own === name.toLowerCase())?.[1];
  }

  /** The next piece of the body, or `undefined` at its end. */
  read() {
    let piece;
    try {
      piece = this.#body?.read();
    } catch (error) {
      this.close();
      throw error;
    }
    if (piece === undefined) this.close();
    return piece;
  }

  *[Symbol.iterator]() {
    for (let piece = this.read(); piece !== undefined; piece = this.read()) yield piece;
  }

  /** The rest of the body, 16 MiB at most. */
  bytes() {
    const pieces = [];
    let length = 0;
    for (const piece of this) {
      length += piece.length;
      if (length > LONGEST) {
        this.close();
        throw new OutboundError("too-long");
      }
      pieces.push(piece);
    }
    const whole = new Uint8Array(length);
    let at = 0;
    for (const piece of pieces) {
      whole.set(piece, at);
      at += piece.length;
    }
    return whole;
  }

  /** The rest of the body as text; what is no UTF-8 in it is replaced by U+FFFD. */
  text() {
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(this.bytes());
  }

  /** The rest of the body as JSON. */
  json() {
    const text = this.text();
    try {
      return JSON.parse(text);
    } catch (error) {
      throw new OutboundError("failed", `its json: ${error.message}`);
    }
  }

  /** Reads no more. */
  close() {
    this.#body?.close();
    this.#body = undefined;
  }
}

/** The functions of the module, by two that send what the interface has. */
export function outboundOf(send, sendWebhook) {
  const request = (url, { method = "GET", timeout, ...content } = {}) =>
    send(
      checked({
        method: method.toUpperCase(),
        url: String(url),
        ...contentOf(content),
        timeout: milliseconds(timeout, TIMEOUT),
      }),
    );
  return {
    request,
    get: (url, options) => request(url, { ...options, method: "GET" }),
    post: (url, options) => request(url, { ...options, method: "POST" }),
    sendWebhook(url, value, { secret, attempts = 1, pause, timeout } = {}) {
      if (!(Number.isInteger(attempts) && attempts >= 0 && attempts < 2 ** 32)) {
        throw new RangeError(`${attempts} attempts, expected at least 1`);
      }
      if (secret !== undefined && typeof secret !== "string") throw new TypeError("a secret is a text");
      if (secret === "" || secret === ENCODED) throw new OutboundError("invalid", "the secret is empty");
      const { url: to, body: json } = checked({ method: "POST", url: String(url), ...contentOf({ json: value ?? null }) });
      return sendWebhook({
        url: to,
        json,
        secret,
        attempts,
        pause: milliseconds(pause, PAUSE),
        timeout: milliseconds(timeout, TIMEOUT),
      });
    },
  };
}

/** What `fetch` of the web platform sends by: a request of the platform's to a response of its. No redirect is followed. */
export function fetchedBy(send) {
  return async (request) => {
    const { url, method } = request;
    const body = new Uint8Array(await request.arrayBuffer());
    const headers = Object.fromEntries(request.headers);
    // Without a body there is nothing that has a type.
    const contentType = headers["content-type"] ?? "application/octet-stream";
    delete headers["content-type"];
    const response = send(url, { method, headers, ...(body.length > 0 ? { body, contentType } : {}) });
    const stream = new ReadableStream({
      pull(controller) {
        const piece = response.read();
        if (piece === undefined) controller.close();
        else controller.enqueue(piece);
      },
      cancel: () => response.close(),
    });
    const hasBody = ![204, 205, 304].includes(response.status);
    return new globalThis.Response(hasBody ? stream : null, { status: response.status, headers: response.headers });
  };
}

/** Refuses what the library would, so that a test sees it too. */
function checked(request) {
  const { method, url, headers } = request;
  if (!NAME.test(method)) throw new OutboundError("invalid", "the method is none");
  if (!/^https?:\/\//.test(url)) {
    throw new OutboundError("invalid", "the URL does not begin with `http://` or `https://`");
  }
  if (headers.some(([name, value]) => !NAME.test(name) || NO_VALUE.test(value))) {
    throw new OutboundError("invalid", "a header cannot be sent");
  }
  return request;
}

/** Of a time, or of the usual one if none is said. */
function milliseconds(seconds, usual) {
  const given = seconds === undefined || seconds === null || seconds === 0 ? usual : seconds;
  const milliseconds = Math.ceil(given * 1000);
  if (!(milliseconds >= 1 && milliseconds < 2 ** 32)) throw new RangeError(`a time of ${seconds} seconds`);
  return milliseconds;
}

/** The pieces of a response that a test makes. */
function inTests(pieces) {
  return {
    read() {
      for (let next = pieces.next(); !next.done; next = pieces.next()) {
        const { body } = encodedBody(next.value);
        if (body.length > 0) return body;
      }
      return undefined;
    },
    close() {},
  };
}
