// What the engines of components lack or have wrong of the web's platform, mended when the SDK is loaded: forms with files, text that
// is not UTF-8, the type of a blob, and `fetch`, which on SpiderMonkey ends the instance.

import { essence, partsOf } from "./multipart.js";

const NO_OUTBOUND =
  "fetch() needs the library `outbound`: `with = [\"outbound\"]` under [build] in modelhost.toml, `include " +
  "modelhost:outbound/imports@0.1.0;` in wit/world.wit, and an import of `modelhost-guest/outbound`";

/** Sends a request of the platform's: given by `modelhost-guest/outbound` where a handler imports it. */
let send;

/** Has `fetch` send by this function. */
export function fetchBy(sender) {
  send = sender;
}

/** The methods of a request's and of a response's body. */
export const body = {
  async bytes() {
    return new Uint8Array(await this.arrayBuffer());
  },
  async text() {
    return new TextDecoder().decode(await this.bytes());
  },
  async json() {
    return JSON.parse(await this.text());
  },
  async blob() {
    return new Blob([await this.bytes()], { type: this.headers.get("content-type") ?? "" });
  },
  async formData() {
    const type = this.headers.get("content-type") ?? "";
    const bytes = await this.bytes();
    const form = new FormData();
    if (essence(type) === "application/x-www-form-urlencoded") {
      for (const [name, value] of new URLSearchParams(new TextDecoder().decode(bytes))) form.append(name, value);
    } else {
      for (const part of partsOf(bytes, type)) form.append(part.name, entryOf(part));
    }
    return form;
  },
};

function entryOf({ filename, contentType, body }) {
  return filename === undefined ? new TextDecoder().decode(body) : new File([body], filename, { type: contentType });
}

async function fetch(input, init) {
  if (send === undefined) throw new TypeError(NO_OUTBOUND);
  return send(new Request(input, init));
}

/** Puts all of it in its place. */
export function mend(realm) {
  const define = (object, name, value) => Object.defineProperty(object, name, { value, writable: true, configurable: true });
  for (const { prototype } of [realm.Request, realm.Response]) {
    for (const [name, method] of Object.entries(body)) {
      if (name !== "bytes" || prototype.bytes === undefined) define(prototype, name, method);
    }
  }
  define(realm, "fetch", fetch);
}

mend(globalThis);
