// The types of the SDK, for TypeScript and for editors. What each does is said beside its code, in the `.js` files.

/** Element types of the Open Inference Protocol. */
export type Datatype =
  | "BOOL" | "UINT8" | "UINT16" | "UINT32" | "UINT64" | "INT8" | "INT16" | "INT32" | "INT64"
  | "FP16" | "BF16" | "FP32" | "FP64" | "BYTES";

/** What can be written as JSON. */
export type Json = string | number | boolean | null | undefined | Json[] | { [name: string]: Json } | { toJSON(): unknown };

/** The numbers of a tensor, where they lie. */
export type TypedArray =
  | Uint8Array | Uint16Array | Uint32Array | BigUint64Array | Int8Array | Int16Array | Int32Array | BigInt64Array
  | Float32Array | Float64Array;

type Element = number | bigint | boolean | string | Uint8Array;
/** Elements in lists, nested as the shape is. */
export type Nested<T> = T | Nested<T>[] | TypedArray;

/** A dense tensor: what goes to a model and what comes from it. */
export class Tensor {
  /** Without a `datatype` numbers are FP32, bigints INT64, truth values BOOL, texts BYTES; a typed array has its own. */
  constructor(values: Nested<Element>, options?: { datatype?: Datatype; shape?: number[]; name?: string });
  /** Of bytes as the contract has them: row-major, little-endian; BYTES with their lengths in front. */
  static raw(data: Uint8Array, datatype: Datatype, shape: number[], name?: string): Tensor;
  readonly name: string;
  readonly datatype: Datatype;
  readonly shape: number[];
  readonly data: Uint8Array;
  /** All elements in a row: a typed array, of BYTES a list of bytes. */
  get values(): TypedArray | Uint8Array[];
  /** All elements of a BYTES tensor as text; an error if one is not UTF-8. */
  strings(): string[];
  /** Lists, nested as the shape is; of a scalar the value. */
  toList(): any;
  toJSON(): any;
  /** The same elements under another shape; one extent may be -1. */
  reshape(...shape: (number | number[])[]): Tensor;
  /** The extent of the first axis. */
  get length(): number;
  /** A row along the first axis; of numbers nothing is copied. */
  row(at: number): Tensor;
  /** `length` rows from `start`; of numbers nothing is copied. */
  rows(start?: number, length?: number): Tensor;
  [Symbol.iterator](): Iterator<Tensor>;
  /** Where the largest element is; NaN is never the largest. */
  argmax(): number;
  /** The largest elements, largest first. */
  topK(count: number): { index: number; value: number }[];
  /** Each row along the last axis as probabilities, FP32. */
  softmax(): Tensor;
}

/** Tensors in their order, and by their names. */
export class Tensors extends Array<Tensor> {
  /** The tensor of this name; an error names those that are there. */
  named(name: string): Tensor;
}

/** A tensor, several, or an object of them by the model's names. */
export type Inputs = Tensor | Tensor[] | { [name: string]: Tensor | Nested<Element> };

/** A request's body. */
export class Sample {
  /** In a test `new Sample({ a: 1 })` is JSON; text and bytes are what they are. */
  constructor(body?: Bytes | string | Json, contentType?: string);
  readonly body: Uint8Array;
  readonly contentType: string;
  /** As UTF-8. */
  text(): string;
  /** As JSON. */
  json(): any;
  /** The fields of `application/x-www-form-urlencoded`; another content type is answered with 415. */
  form(): URLSearchParams;
  /** The parts of `multipart/form-data`, in order: at most 1,000, with 8 KiB of headers each. */
  multipart(): Part[];
  /** Of a JSON object the values under these names; a missing one is the caller's fault. */
  fields(...names: string[]): any[];
  /** The same of numbers that are to be FP32; what is none, or too large, is the caller's fault too. */
  numbers(...names: string[]): number[];
}

/** One part of a form with files. */
export interface Part {
  readonly name: string;
  /** Of a file; the caller's choice, so no path to be opened. */
  readonly filename: string | undefined;
  readonly contentType: string;
  readonly body: Uint8Array;
  /** As UTF-8. */
  text(): string;
}

/** The values of headers; a list has several of one name, such as cookies. */
export type HeaderValues = { [name: string]: string | number | (string | number)[] };

export type Bytes = ArrayBufferView | ArrayBuffer;
/** A piece of a stream: text, bytes, an event, or what is the JSON data of one. */
export type Piece = string | Bytes | Event | Json;
export type Pieces = Iterator<Piece>;
/** What is a response in one piece. */
export type Whole = Response | Bytes | string | Json;

/** A response. Thrown, it answers at once. */
export class Response {
  constructor(
    body?: Bytes | string | Json | Pieces,
    options?: { status?: number; headers?: HeaderValues | Iterable<[string, string]>; contentType?: string },
  );
  status: number;
  headers: { [name: string]: string | string[] };
  contentType: string | undefined;
  body: Uint8Array;
  stream?: Pieces;
  /** Adds a header, or another value of one: two cookies are two of `set-cookie`. */
  append(name: string, value: string | number | (string | number)[]): this;
  /** The body as text, for tests. */
  text(): string;
  /** The body as JSON, for tests. */
  json(): any;
}

/** A server-sent event. */
export class Event {
  constructor(data: string | Json, fields?: { event?: string; id?: string });
  toString(): string;
}

/** The caller sent something unusable: 400 with this text. */
export class InvalidInput extends Error {}

/** The body is of another type than is asked for: 415 with this text. */
export class UnsupportedMediaType extends InvalidInput {}

/** What a model expects or returns under one name; -1 is any extent. */
export interface TensorSpec {
  name: string;
  datatype: Datatype;
  shape: number[];
}

export interface Signature {
  inputs: TensorSpec[];
  outputs: TensorSpec[];
}

/** The request being served. A test makes one: `new Context({ metadata: { labels: ["cat"] } })`. */
export class Context {
  constructor(given?: {
    sample?: Sample; method?: string; path?: string; query?: string | URLSearchParams; headers?: { [name: string]: string };
    metadata?: Json; parameters?: { [name: string]: Json }; signature?: Signature; requestId?: string;
  });
  get requestId(): string;
  get method(): string;
  get path(): string;
  get query(): URLSearchParams;
  /** The query as the client sent it, with its question mark; empty without one. */
  get search(): string;
  /** The header's first value. Names match in any case. */
  header(name: string): string | undefined;
  /** The request's body again, for post-inference. */
  get sample(): Sample;
  /** The endpoint's `metadata`; null if the configuration has none. */
  get metadata(): any;
  /** The request's `parameters` of the Open Inference Protocol. */
  get parameters(): any;
  get signature(): Signature;
}

/** An input that the handler takes. */
export interface Input {
  name: string;
  datatype: Datatype;
  /** `[1]` is a scalar, in JSON the bare value; -1 is any extent. */
  shape: number[];
  required?: boolean;
  /** A value, needed if the input is required: documentation, and tried out when the handler is loaded. */
  example?: Json;
  description?: string;
}

/** The functions around a model. */
export interface Functions {
  /** Runs once, when the handler is loaded; what it throws refuses the handler. */
  init?(metadata: any): void | Promise<void>;
  preInference?(sample: Sample, context: Context): Inputs | Promise<Inputs>;
  postInference?(outputs: Tensors, context: Context): Whole | Promise<Whole>;
  preInferenceTensors?(inputs: Tensors, context: Context): Inputs | Promise<Inputs>;
  postInferenceTensors?(outputs: Tensors, context: Context): Inputs | Promise<Inputs>;
  /** Serves WebSockets. */
  websocket?: Talk;
  /** What the handler takes. */
  inputs?: Input[];
}

/** What the component exports, by the names that its bindings look for. */
export interface Exports {
  init: object;
  preInference: object;
  postInference: object;
  preInferenceTensors: object;
  postInferenceTensors: object;
  websocket: object;
  inputSchema: object;
}

/** The exports of a handler: `export const { preInference, postInference } = handler({ … })`. */
export function handler(functions: Functions): Exports;

/** One request of an application: its body and its head. */
export class Request extends Sample {
  readonly context: Context;
  /** What the route's parameters stand for. */
  readonly params: { [name: string]: string };
  get method(): string;
  get path(): string;
  get query(): URLSearchParams;
  header(name: string): string | undefined;
}

/** What a route's function returns. */
export type Answer = Whole | globalThis.Response | Pieces | AsyncIterator<Piece>;
type Call = (request: Request) => Answer | Promise<Answer>;

/** An application: routes to functions. */
export class App {
  init(call: (metadata: any) => void | Promise<void>): this;
  on(method: string, route: string, call: Call): this;
  /** Serves `GET` and `HEAD`. */
  get(route: string, call: Call): this;
  post(route: string, call: Call): this;
  /** Answers at once, and works then. */
  background(route: string, call: (request: Request) => void | Promise<void>): this;
  /** Serves WebSockets at a path. */
  websocket(route: string, call: Talk): this;
  /** Serves `POST`s together: as many results as requests. */
  batch(route: string, call: (requests: Request[]) => unknown[] | Promise<unknown[]>): this;
  /** The exports of the component. */
  exports(): { init: object; operations: object; respond: object; respondAll: object; websocket: object };
  /** Runs what `init` was given: for tests. */
  start(metadata?: Json): Promise<void>;
  /** What a request gets, without a host: for tests. */
  answer(request?: {
    method?: string; path?: string; json?: Json; body?: Uint8Array | string; contentType?: string;
    headers?: { [name: string]: string }; query?: string; metadata?: Json;
  }): Promise<Response>;
}

/** The exports of an application that is one function of the web platform, and of one that serves WebSockets beside it. */
export function serve(
  fetch: (request: globalThis.Request, context: Context) => globalThis.Response | Promise<globalThis.Response>,
  options?: { websocket?: Talk },
): { operations: object; respond: object; websocket: object };

/** A client's socket. It opens at its first use, and is closed with 1000 when the function returns. */
export class Socket {
  private constructor();
  readonly isOpen: boolean;
  /** How it was closed, once a call has found that out. */
  readonly closed: Close | undefined;
  /** The subprotocols that the client offers, in its order of preference. */
  readonly protocols: string[];
  /** Opens the socket, with one of the client's subprotocols or none. */
  accept(protocol?: string): void;
  /** Waits for the next message, `timeout` seconds at most. Undefined: the socket is closed. */
  receive(options?: { timeout?: number }): string | Uint8Array | undefined;
  /** The next message as JSON. */
  receiveJson(options?: { timeout?: number }): any;
  /** Waits while the client does not read. False: the socket is closed. */
  send(message: string | Uint8Array): boolean;
  sendJson(value: Json): boolean;
  /** Closes the socket after what was sent, with 1000 to 1003, 1007 to 1011, or 3000 to 4999. The first close counts. */
  close(code?: number, reason?: string): void;
  [Symbol.iterator](): Iterator<string | Uint8Array>;
}

/** 1005: without a code; 1006: the client went without a close. */
export interface Close {
  code: number;
  reason: string;
}

/** Talks with a client for as long as both like; until the socket is open, a thrown `Response` answers the handshake. */
export type Talk = (socket: Socket, request: Request) => void | Promise<void>;

/** No message came in the time that `receive` was given. */
export class TimeoutError extends Error {}

/** For tests: has a function, or an application, serve a client that says these messages and then closes with 1000. */
export function converse(
  talk: Talk | App,
  says?: (string | Uint8Array)[],
  head?: { path?: string; query?: string; headers?: { [name: string]: string }; metadata?: Json },
): Promise<{ sent: (string | Uint8Array)[]; protocol?: string; close?: Close; refusal?: Response }>;
