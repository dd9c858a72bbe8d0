// The web platform's blobs, files and forms. `define` makes globals, `bytesOf` bytes of any view or buffer, `joined` one
// array of many.
(function (define, bytesOf, joined) {
  "use strict";

  const encode = (text) => new TextEncoder().encode(text);

  class Blob {
    #bytes; #type;
    constructor(parts = [], { type = "" } = {}) {
      if (typeof parts?.[Symbol.iterator] !== "function" || typeof parts === "string") {
        throw new TypeError("a blob is made of a list of its parts");
      }
      this.#bytes = joined(Array.from(parts, (part) => {
        if (part instanceof Blob) return part.#bytes;
        return ArrayBuffer.isView(part) || part instanceof ArrayBuffer ? bytesOf(part) : encode(String(part).toWellFormed());
      }));
      this.#type = /^[\x20-\x7e]*$/.test(type) ? String(type).toLowerCase() : "";
    }
    get size() { return this.#bytes.length; }
    get type() { return this.#type; }
    slice(start = 0, end = this.size, type = "") { return new Blob([this.#bytes.slice(start, end)], { type }); }
    async bytes() { return this.#bytes.slice(); }
    async arrayBuffer() { return this.#bytes.slice().buffer; }
    async text() { return new TextDecoder().decode(this.#bytes); }
    stream() {
      const bytes = this.#bytes;
      return new ReadableStream({
        start(controller) {
          if (bytes.length > 0) controller.enqueue(bytes.slice());
          controller.close();
        },
      });
    }
    static bytesOf(blob) { return blob.#bytes; }
  }
  const { bytesOf: bytesOfBlob } = Blob;
  delete Blob.bytesOf;

  class File extends Blob {
    #name; #lastModified;
    constructor(parts, name, { lastModified = Date.now(), ...options } = {}) {
      super(parts, options);
      this.#name = String(name);
      this.#lastModified = Number(lastModified);
    }
    get name() { return this.#name; }
    get lastModified() { return this.#lastModified; }
  }

  class FormData {
    #entries = [];
    static #entry(name, value, filename) {
      const own = String(name).toWellFormed();
      if (!(value instanceof Blob)) return [own, String(value).toWellFormed()];
      if (value instanceof File && filename === undefined) return [own, value];
      return [own, new File([value], filename ?? value.name ?? "blob", { type: value.type })];
    }
    append(name, value, filename) { this.#entries.push(FormData.#entry(name, value, filename)); }
    set(name, value, filename) {
      const entry = FormData.#entry(name, value, filename);
      const at = this.#entries.findIndex(([own]) => own === entry[0]);
      if (at < 0) this.#entries.push(entry);
      else this.#entries = this.#entries.filter(([own], n) => own !== entry[0] || n === at).map((it, n) => (n === at ? entry : it));
    }
    get(name) { return this.#entries.find(([own]) => own === String(name))?.[1] ?? null; }
    getAll(name) { return this.#entries.filter(([own]) => own === String(name)).map(([, value]) => value); }
    has(name) { return this.#entries.some(([own]) => own === String(name)); }
    delete(name) { this.#entries = this.#entries.filter(([own]) => own !== String(name)); }
    forEach(call, self) { for (const [name, value] of this) call.call(self, value, name, this); }
    *entries() { yield* this.#entries.map((entry) => [...entry]); }
    *keys() { for (const [name] of this) yield name; }
    *values() { for (const [, value] of this) yield value; }
    [Symbol.iterator]() { return this.entries(); }
  }

  const lines = (text) => text.replace(/\r\n?|\n/g, "\r\n");
  const escaped = (name) => name.replace(/\n/g, "%0A").replace(/\r/g, "%0D").replace(/"/g, "%22");

  /** The bytes of a body that is a blob or a form, and their type; undefined of any other. */
  const encoded = (body) => {
    if (body instanceof Blob) return { bytes: bytesOfBlob(body), type: body.type };
    if (!(body instanceof FormData)) return undefined;
    const boundary = `----form-${crypto.randomUUID().replaceAll("-", "")}`;
    const pieces = [];
    for (const [name, value] of body) {
      const head = `--${boundary}\r\nContent-Disposition: form-data; name="${escaped(lines(name))}"`;
      if (typeof value === "string") {
        pieces.push(encode(`${head}\r\n\r\n${lines(value)}\r\n`));
      } else {
        const type = value.type || "application/octet-stream";
        pieces.push(encode(`${head}; filename="${escaped(value.name)}"\r\nContent-Type: ${type}\r\n\r\n`), bytesOfBlob(value), encode("\r\n"));
      }
    }
    pieces.push(encode(`--${boundary}--\r\n`));
    return { bytes: joined(pieces), type: `multipart/form-data; boundary=${boundary}` };
  };

  define({ Blob, File, FormData });
  return encoded;
});
