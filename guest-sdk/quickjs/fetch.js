// The web platform's URLs, headers, requests, responses and streams, as far as a `fetch` handler needs them. Nothing here
// reaches a network. `bytesOf` makes bytes of any view or buffer, `joined` one array of many, `encoded` bytes of blobs and
// forms.
(function (define, bytesOf, joined, encoded) {
  "use strict";

  const PORTS = { "http:": "80", "https:": "443", "ws:": "80", "wss:": "443", "ftp:": "21" };
  // What no host of a special scheme has, and none of any other.
  const NO_DOMAIN = /[\0-\x20#%/:<>?@[\\\]^|\x7f]/;
  const NO_HOST = /[\0\t\n\r #/:<>?@[\\\]^|]/;
  // A special scheme's path; in those `\` is `/`.
  const slashed = (protocol, path) => (PORTS[protocol] || protocol === "file:" ? path.replaceAll("\\", "/") : path);
  const escaped = (text, kept) => text.replace(kept, (c) => encodeURIComponent(c).replace(/'/g, "%27"));

  class URL {
    #parts; #params;
    constructor(given, base) {
      const text = String(given).toWellFormed().replace(/^[\0-\x20]+|[\0-\x20]+$|[\t\n\r]/g, "");
      const found = /^([a-z][a-z0-9+.-]*:)(.*)$/is.exec(text);
      if (found) this.#parts = URL.#absolute(found[1].toLowerCase(), found[2]);
      else if (base !== undefined) this.#parts = URL.#relative(text, new URL(base));
      if (!this.#parts) throw new TypeError(`Invalid URL: ${text}`);
      this.#params = new URLSearchParams(this.#parts.search, () => {
        const query = this.#params.toString();
        this.#parts.search = query && `?${query}`;
      });
    }
    static canParse(given, base) {
      try {
        return Boolean(new URL(given, base));
      } catch {
        return false;
      }
    }
    static #absolute(protocol, rest) {
      const [, before, search = "", hash = ""] = /^([^?#]*)(\?[^#]*)?(#.*)?$/s.exec(rest);
      const path = slashed(protocol, before);
      const own = { protocol, username: "", password: "", hostname: "", port: "", pathname: path, search, hash };
      if (path.startsWith("//")) {
        const [, authority, pathname] = /^\/\/([^/]*)(.*)$/s.exec(path);
        const end = authority.lastIndexOf("@");
        const [username, ...password] = authority.slice(0, Math.max(end, 0)).split(":");
        const found = /^(\[[0-9a-f:.]+\]|[^[\]:]*)(?::(\d*))?$/i.exec(authority.slice(end + 1));
        const hostname = found?.[1].normalize("NFKC").toLowerCase();
        if (!found || found[2] > 65535) return undefined;
        if ((PORTS[protocol] ? NO_DOMAIN : NO_HOST).test(hostname.replace(/^\[.*\]$/, ""))) return undefined;
        const port = found[2] ? String(Number(found[2])) : "";
        Object.assign(own, { username, password: password.join(":"), hostname, port: port === PORTS[protocol] ? "" : port });
        own.pathname = PORTS[protocol] ? URL.#flat(pathname) : pathname;
        if (PORTS[protocol] && hostname === "") return undefined;
      } else if (PORTS[protocol]) {
        return undefined;
      }
      return URL.#plain(own);
    }
    static #relative(text, base) {
      const { protocol, username, password, hostname, port, pathname, search } = base;
      const [, given, query, hash = ""] = /^([^?#]*)(\?[^#]*)?(#.*)?$/s.exec(text);
      const path = slashed(protocol, given);
      if (path.startsWith("//")) return URL.#absolute(protocol, text);
      const below = path.startsWith("/") ? path : pathname.replace(/[^/]*$/, "") + path;
      return URL.#plain({ protocol, username, password, hostname, port, hash,
        pathname: path === "" ? pathname : URL.#flat(below), search: query ?? (path === "" ? search : "") });
    }
    static #flat(path) {
      const kept = [];
      const segments = path.replaceAll("\\", "/").split("/").slice(1);
      for (const [at, segment] of segments.entries()) {
        const isLast = at === segments.length - 1;
        if (segment === "..") kept.pop();
        else if (segment !== ".") kept.push(segment);
        if (isLast && (segment === "." || segment === "..")) kept.push("");
      }
      return `/${kept.join("/")}`;
    }
    static #plain(parts) {
      for (const name of ["username", "password"]) parts[name] = escaped(parts[name], /[^!$-.0-9A-Z_a-z~]/gu);
      parts.pathname = escaped(parts.pathname, /[^\x21\x24-\x3b\x3d\x40-\x5f\x61-\x7a\x7c\x7e]/gu);
      parts.search = parts.search === "?" ? "" : escaped(parts.search, /[^\x21\x23-\x26\x28-\x3b\x3d\x3f-\x7e]/gu);
      parts.hash = parts.hash === "#" ? "" : escaped(parts.hash, /[^\x21\x23-\x3b\x3d\x3f-\x5f\x61-\x7e]/gu);
      return parts;
    }
    get protocol() { return this.#parts.protocol; }
    get username() { return this.#parts.username; }
    get password() { return this.#parts.password; }
    get hostname() { return this.#parts.hostname; }
    get port() { return this.#parts.port; }
    get host() { return this.port === "" ? this.hostname : `${this.hostname}:${this.port}`; }
    get origin() { return PORTS[this.protocol] ? `${this.protocol}//${this.host}` : "null"; }
    get pathname() { return this.#parts.pathname; }
    set pathname(path) { this.#parts.pathname = URL.#flat(`/${String(path).replace(/^\//, "")}`); URL.#plain(this.#parts); }
    get search() { return this.#parts.search; }
    set search(query) {
      const text = String(query).replace(/^\?/, "");
      for (const name of [...this.#params.keys()]) this.#params.delete(name);
      for (const [name, value] of new URLSearchParams(text)) this.#params.append(name, value);
      this.#parts.search = text && `?${text}`;
      URL.#plain(this.#parts);
    }
    get searchParams() { return this.#params; }
    get hash() { return this.#parts.hash; }
    set hash(text) { this.#parts.hash = text === "" ? "" : `#${String(text).replace(/^#/, "")}`; URL.#plain(this.#parts); }
    get href() {
      const { username, password, pathname, search, hash } = this.#parts;
      const user = (username || password) && `${username}${password && `:${password}`}@`;
      const hasHost = this.hostname || PORTS[this.protocol] || this.protocol === "file:";
      return `${this.protocol}${hasHost ? `//${user}${this.host}` : ""}${pathname}${search}${hash}`;
    }
    toString() { return this.href; }
    toJSON() { return this.href; }
  }

  class Headers {
    #values = new Map();
    constructor(given = {}) {
      const pairs = typeof given[Symbol.iterator] === "function" ? given : Object.entries(given);
      for (const [name, value] of pairs) this.append(name, value);
    }
    static #name(name) {
      const own = String(name).toLowerCase();
      if (!/^[!#$%&'*+\-.^_`|~0-9a-z]+$/.test(own)) throw new TypeError(`\`${name}\` is no name of a header`);
      return own;
    }
    static #value(value) {
      const own = String(value).trim();
      if (/[\0\r\n]/.test(own)) throw new TypeError("a header's value has one line");
      return own;
    }
    append(name, value) {
      const own = Headers.#name(name);
      this.#values.set(own, [...(this.#values.get(own) ?? []), Headers.#value(value)]);
    }
    set(name, value) { this.#values.set(Headers.#name(name), [Headers.#value(value)]); }
    get(name) { return this.#values.get(Headers.#name(name))?.join(", ") ?? null; }
    getSetCookie() { return [...(this.#values.get("set-cookie") ?? [])]; }
    has(name) { return this.#values.has(Headers.#name(name)); }
    delete(name) { this.#values.delete(Headers.#name(name)); }
    forEach(call, self) { for (const [name, value] of this) call.call(self, value, name, this); }
    *entries() {
      for (const name of [...this.#values.keys()].sort()) {
        if (name === "set-cookie") for (const value of this.#values.get(name)) yield [name, value];
        else yield [name, this.get(name)];
      }
    }
    *keys() { for (const [name] of this) yield name; }
    *values() { for (const [, value] of this) yield value; }
    [Symbol.iterator]() { return this.entries(); }
  }

  class ReadableStream {
    #source; #queue = []; #waiting = []; #isClosed = false; #error; #isPulling = false; #pullAgain = false; #started; #isLocked = false;
    constructor(source = {}) {
      this.#source = source;
      const stream = this;
      const controller = {
        desiredSize: 1,
        enqueue(value) {
          const next = stream.#waiting.shift();
          if (next) next.resolve({ done: false, value });
          else stream.#queue.push(value);
          stream.#pull();
        },
        close() {
          stream.#isClosed = true;
          for (const { resolve } of stream.#waiting.splice(0)) resolve({ done: true, value: undefined });
        },
        error(error) {
          stream.#error = { error };
          for (const { reject } of stream.#waiting.splice(0)) reject(error);
        },
      };
      this.controller = controller;
      this.#started = Promise.resolve(source.start?.(controller)).catch((error) => controller.error(error));
    }
    static from(given) {
      const items = given[Symbol.asyncIterator]?.() ?? given[Symbol.iterator]();
      return new ReadableStream({
        async pull(controller) {
          const { done, value } = await items.next();
          if (done) controller.close();
          else controller.enqueue(value);
        },
        cancel: () => items.return?.(),
      });
    }
    get locked() { return this.#isLocked; }
    getReader() {
      if (this.#isLocked) throw new TypeError("the stream has a reader");
      this.#isLocked = true;
      return {
        read: () => this.#read(),
        cancel: (reason) => this.#cancel(reason),
        releaseLock: () => void (this.#isLocked = false),
      };
    }
    cancel(reason) { return this.#cancel(reason); }
    tee() {
      const reader = this.getReader();
      const open = new Set();
      const pull = async () => {
        try {
          const { done, value } = await reader.read();
          for (const controller of open) done ? controller.close() : controller.enqueue(value);
        } catch (error) {
          for (const controller of open) controller.error(error);
        }
      };
      const branch = () => {
        let own;
        const start = (controller) => void open.add((own = controller));
        const cancel = (reason) => open.delete(own) && open.size === 0 ? reader.cancel(reason) : undefined;
        return new ReadableStream({ start, pull, cancel });
      };
      return [branch(), branch()];
    }
    async *[Symbol.asyncIterator]() {
      const reader = this.getReader();
      try {
        for (let piece = await reader.read(); !piece.done; piece = await reader.read()) yield piece.value;
      } finally {
        reader.releaseLock();
        if (!this.#isClosed) await this.#cancel();
      }
    }
    async #read() {
      if (this.#queue.length > 0) return { done: false, value: this.#queue.shift() };
      if (this.#error) throw this.#error.error;
      if (this.#isClosed) return { done: true, value: undefined };
      const next = new Promise((resolve, reject) => this.#waiting.push({ resolve, reject }));
      this.#pull();
      return next;
    }
    get #isWanted() { return this.#waiting.length > 0 && !this.#isClosed && !this.#error; }
    // One at a time: a piece that is wanted meanwhile is pulled when the running one ends.
    async #pull() {
      if (!this.#source.pull || !this.#isWanted) return;
      this.#pullAgain = true;
      if (this.#isPulling) return;
      this.#isPulling = true;
      try {
        await this.#started;
        while (this.#pullAgain && this.#isWanted) {
          this.#pullAgain = false;
          await this.#source.pull(this.controller);
        }
      } catch (error) {
        this.controller.error(error);
      } finally {
        this.#isPulling = false;
      }
    }
    async #cancel(reason) {
      this.#queue = [];
      this.controller.close();
      await this.#source.cancel?.(reason);
    }
  }

  const isView = (it) => ArrayBuffer.isView(it) || it instanceof ArrayBuffer;

  class Body {
    #bytes; #stream; #isUsed = false;
    constructor(body, headers) {
      if (body === undefined || body === null) return;
      let type;
      const own = encoded(body);
      if (own) ({ bytes: this.#bytes, type } = own);
      else if (body instanceof ReadableStream) this.#stream = body;
      else if (isView(body)) this.#bytes = bytesOf(body).slice();
      else if (typeof body[Symbol.asyncIterator] === "function") this.#stream = ReadableStream.from(body);
      else {
        this.#bytes = new TextEncoder().encode(String(body));
        type = body instanceof URLSearchParams ? "application/x-www-form-urlencoded;charset=UTF-8" : "text/plain;charset=UTF-8";
      }
      if (type && !headers.has("content-type")) headers.set("content-type", type);
    }
    get bodyUsed() { return this.#isUsed; }
    get body() {
      if (this.#bytes && !this.#stream) {
        const bytes = this.#bytes;
        this.#stream = new ReadableStream({
          start(controller) {
            if (bytes.length > 0) controller.enqueue(bytes);
            controller.close();
          },
        });
      }
      return this.#stream ?? null;
    }
    clone() {
      if (this.#isUsed || this.#stream?.locked) throw new TypeError("the body has been read");
      const { url, method, headers } = this;
      const copy = this instanceof Request ? new Request(url, { method, headers }) : new Response(null, this);
      copy.#bytes = this.#bytes?.slice();
      if (this.#stream) [this.#stream, copy.#stream] = this.#stream.tee();
      return copy;
    }
    async bytes() {
      if (this.#isUsed) throw new TypeError("the body has been read");
      this.#isUsed = true;
      if (!this.#stream) return this.#bytes ?? new Uint8Array();
      const pieces = [];
      for await (const piece of this.#stream) pieces.push(typeof piece === "string" ? new TextEncoder().encode(piece) : bytesOf(piece));
      return joined(pieces);
    }
    async arrayBuffer() {
      const bytes = await this.bytes();
      return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
    }
    async blob() { return new Blob([await this.bytes()], { type: this.headers.get("content-type") ?? "" }); }
    async text() { return new TextDecoder().decode(await this.bytes()); }
    async json() { return JSON.parse(await this.text()); }
  }

  class Request extends Body {
    constructor(given, { method, headers, body } = {}) {
      const from = given instanceof Request ? given : undefined;
      const own = new Headers(headers ?? from?.headers ?? {});
      super(body ?? from?.body, own);
      this.url = from ? from.url : new URL(given).href;
      this.method = (method ?? from?.method ?? "GET").toUpperCase();
      this.headers = own;
    }
  }

  class Response extends Body {
    constructor(body, { status = 200, statusText = "", headers = {} } = {}) {
      const own = new Headers(headers);
      if (!(status >= 200 && status <= 599)) throw new RangeError(`${status} is no status of a response`);
      super(body, own);
      Object.assign(this, { status, statusText, headers: own, type: "default", url: "", redirected: false });
    }
    static json(value, { headers = {}, ...rest } = {}) {
      const own = new Headers(headers);
      if (!own.has("content-type")) own.set("content-type", "application/json");
      return new Response(JSON.stringify(value), { headers: own, ...rest });
    }
    static redirect(url, status = 302) { return new Response(null, { status, headers: { location: String(url) } }); }
    static error() { throw new TypeError("there is no network error to answer with"); }
    get ok() { return this.status >= 200 && this.status < 300; }
  }

  define({ URL, Headers, ReadableStream, Request, Response });
});
