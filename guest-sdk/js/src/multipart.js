// Bodies of several parts: `multipart/form-data`, as browsers and curl send forms with files (RFC 7578). The words and the limits are
// those of every language's SDK: tests/languages/multipart.json.

import { InvalidInput, UnsupportedMediaType } from "./errors.js";

/** Most parts of a body, most bytes of a part's headers, and of a boundary. */
const MOST_PARTS = 1000;
const LONGEST_HEADERS = 8 << 10;
const LONGEST_BOUNDARY = 70;
const FORM = "multipart/form-data";
const [TAB, LF, CR, SPACE, DASH] = [9, 10, 13, 32, 45];

/** One part of a body. A file has a `filename`: the caller's choice, so no path to be opened. */
export class Part {
  #sample;

  constructor(name, filename, contentType, body, sample) {
    Object.assign(this, { name, filename, contentType, body });
    this.#sample = sample;
  }

  /** Its contents as UTF-8. */
  text() {
    try {
      return new TextDecoder("utf-8", { fatal: true }).decode(this.body);
    } catch {
      throw new InvalidInput(`the part \`${this.name}\` is not UTF-8`, this.#sample);
    }
  }
}

/** What stands before the parameters of a header's value, in lower case. */
export function essence(value) {
  return value.split(";")[0].trim().toLowerCase();
}

/** Refuses another content type than this one. */
export function expect(wanted, contentType, sample) {
  if (essence(contentType) === wanted) return;
  const got = [...contentType.split(";")[0].trim()].slice(0, 40).join("");
  throw new UnsupportedMediaType(`expected \`${wanted}\`, got \`${got}\``, sample);
}

/** The parts of a body, in order; their bytes are not copied. `sample` is whose body it is, for errors. */
export function partsOf(body, contentType, sample) {
  expect(FORM, contentType, sample);
  const malformed = (text) => new InvalidInput(`malformed multipart: ${text}`, sample);
  const boundary = parameter(contentType, "boundary");
  if (boundary === undefined) throw malformed("the content type has no boundary");
  const delimiter = new TextEncoder().encode(`\r\n--${boundary}`);
  if (delimiter.length < 5 || delimiter.length > 4 + LONGEST_BOUNDARY) {
    throw malformed(`the boundary has not 1 to ${LONGEST_BOUNDARY} bytes`);
  }
  // The first delimiter may stand at the very beginning, without the line end before it.
  const first = startsWith(body, 0, delimiter.subarray(2)) ? lineEnd(body, delimiter.length - 2) : undefined;
  let next = first ?? delimited(body, 0, delimiter)?.next;
  if (next === undefined) throw malformed("no boundary is in the body");
  const parts = [];
  while (!next.isLast) {
    const found = delimited(body, next.at, delimiter);
    if (found === undefined) throw malformed("the last boundary is missing");
    if (parts.length === MOST_PARTS) throw new InvalidInput(`more than ${MOST_PARTS} parts`, sample);
    parts.push(partOf(body.subarray(next.at, found.end), malformed, sample));
    next = found.next;
  }
  return parts;
}

function startsWith(body, at, bytes) {
  return at + bytes.length <= body.length && bytes.every((byte, n) => body[at + n] === byte);
}

/** What comes after a boundary that ends here: the end of its line, or the end of the parts; undefined if it is none. */
function lineEnd(body, at) {
  if (body[at] === DASH && body[at + 1] === DASH) return { at, isLast: true };
  while (body[at] === SPACE || body[at] === TAB) at++;
  return body[at] === CR && body[at + 1] === LF ? { at, isLast: false } : undefined;
}

/** Where the contents before the next boundary end, and what comes after it. */
function delimited(body, from, delimiter) {
  for (let end = body.indexOf(CR, from); end >= 0; end = body.indexOf(CR, end + 1)) {
    const next = startsWith(body, end, delimiter) ? lineEnd(body, end + delimiter.length) : undefined;
    if (next !== undefined) return { end, next };
  }
  return undefined;
}

/** A part: line end, headers, empty line, contents. */
function partOf(bytes, malformed, sample) {
  const end = emptyLine(bytes.subarray(0, LONGEST_HEADERS + 4));
  if (end === undefined) throw malformed(`no end of a part's headers within ${LONGEST_HEADERS} bytes`);
  let disposition;
  let contentType = "text/plain";
  for (const line of decodedLines(bytes.subarray(0, end), malformed)) {
    const colon = line.indexOf(":");
    if (colon < 0) throw malformed("a header without a colon");
    const value = line.slice(colon + 1).trim();
    switch (line.slice(0, colon).toLowerCase()) {
      case "content-disposition":
        disposition = value;
        break;
      case "content-type":
        contentType = value;
        break;
      case "content-transfer-encoding":
        if (["binary", "8bit", "7bit"].includes(value.toLowerCase())) break;
        throw malformed("a part with a transfer encoding, which forms do not have");
    }
  }
  const isForm = disposition !== undefined && essence(disposition) === "form-data";
  const name = isForm ? parameter(disposition, "name") : undefined;
  if (name === undefined) throw malformed("a part without `content-disposition: form-data; name=…`");
  return new Part(unescaped(name), filenameOf(disposition, malformed), contentType, bytes.subarray(end + 4), sample);
}

/** Where the empty line is. */
function emptyLine(bytes) {
  for (let at = bytes.indexOf(CR); at >= 0; at = bytes.indexOf(CR, at + 1)) {
    if (bytes[at + 1] === LF && bytes[at + 2] === CR && bytes[at + 3] === LF) return at;
  }
  return undefined;
}

function decodedLines(bytes, malformed) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes).split("\r\n").filter((line) => line !== "");
  } catch {
    throw malformed("the headers of a part are not UTF-8");
  }
}

function filenameOf(disposition, malformed) {
  const extended = parameter(disposition, "filename*");
  if (extended === undefined) {
    const plain = parameter(disposition, "filename");
    return plain === undefined ? undefined : unescaped(plain);
  }
  const [, charset, encoded] = /^(.*?)'[^']*'(.*)$/s.exec(extended) ?? [];
  try {
    // A percent sign without two digits stays.
    const whole = encoded?.replace(/%(?![\da-f]{2})/gi, "%25");
    if (charset?.toLowerCase() === "utf-8") return decodeURIComponent(whole);
    if (charset?.toLowerCase() === "iso-8859-1") {
      return whole.replace(/%([\da-f]{2})/gi, (_, digits) => String.fromCharCode(parseInt(digits, 16)));
    }
  } catch {
    // No UTF-8 behind the percent signs.
  }
  throw malformed("a `filename*` that is not `UTF-8''` and a name with percent signs");
}

/** What browsers and curl write in names in place of `"`, CR and LF. */
function unescaped(name) {
  return name.replaceAll("%22", '"').replaceAll("%0D", "\r").replaceAll("%0A", "\n");
}

/** The first parameter of this name in a header's value (RFC 9110, section 5.6.6). A backslash protects a quote or another one alone. */
function parameter(value, wanted) {
  const semicolon = value.indexOf(";");
  let rest = semicolon < 0 ? "" : value.slice(semicolon);
  for (;;) {
    rest = rest.replace(/^[ \t;]+/, "");
    const equals = rest.indexOf("=");
    if (equals < 0) return undefined;
    const name = rest.slice(0, equals).toLowerCase();
    const after = rest.slice(equals + 1);
    const quoted = after.startsWith('"');
    const found = (quoted ? /^"((?:[^"\\]|\\[^])*)"/ : /^([^;]*)/).exec(after);
    if (found === null) return undefined;
    if (name === wanted) return quoted ? found[1].replace(/\\(["\\])/g, "$1") : found[1].trimEnd();
    rest = after.slice(found[0].length);
  }
}
