// The body and the headers of a job, or of a request to others.

import { bytesOf } from "./bytes.js";

/** The body of `json` or of `body`, and the headers as pairs, names in lower case, the content type among them. */
export function contentOf({ json, body, contentType, headers = {} }) {
  const [content, own] = encoded(json, body);
  const pairs = Object.entries(headers).map(([name, value]) => {
    // `fetch` would send the text `undefined`.
    if (value === undefined || value === null) throw new TypeError(`header \`${name}\` is a text, and not ${value}`);
    return [name.toLowerCase(), String(value)];
  });
  const type = contentType ?? (pairs.some(([name]) => name === "content-type") ? undefined : own);
  if (type !== undefined) pairs.push(["content-type", type]);
  return { headers: pairs, body: content };
}

function encoded(json, body) {
  const bytes = (text) => new TextEncoder().encode(text);
  if (body === undefined) {
    if (json === undefined) return [bytes("")];
    const text = JSON.stringify(json);
    if (text === undefined) throw new TypeError(`a ${typeof json} is no JSON`);
    return [bytes(text), "application/json"];
  }
  if (typeof body === "string") return [bytes(body), "text/plain; charset=utf-8"];
  if (ArrayBuffer.isView(body)) return [bytesOf(body), "application/octet-stream"];
  throw new TypeError(`a body is bytes or a text, and not ${typeof body}; \`json\` takes others`);
}
