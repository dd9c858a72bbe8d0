// The types of `modelhost-guest/outbound`, for TypeScript and for editors.

import type { Json } from "./index.js";

export interface Options {
  /** `GET`, if not said otherwise. */
  method?: string;
  headers?: Record<string, string>;
  json?: Json;
  /** In place of `json`. */
  body?: Uint8Array | string;
  contentType?: string;
  /**
   * Most seconds to the head of the response, and between two pieces of its body: 30, if it is 0 or not said, and 60 at most; a
   * connection has 10.
   */
  timeout?: number;
}

/** How a webhook is sent. */
export interface WebhookOptions {
  /**
   * It is signed with this, as Standard Webhooks says: `whsec_` and base64, or any other text. An empty one is an error of the
   * kind `invalid`.
   */
  secret?: string;
  /** The next one follows if there was no response, or 408, 429 or a 5xx. */
  attempts?: number;
  /**
   * Seconds between the first two attempts: 1, if it is 0 or not said. Each pause is twice the one before; seconds that the
   * receiver says in `retry-after` win. None is longer than a minute.
   */
  pause?: number;
  /** Of an attempt, as of a request. */
  timeout?: number;
}

/** A server's answer, whose body is read once: whole, or piece by piece as it comes. */
export class Response {
  /** For tests: text and bytes are what they are, an iterator has pieces, anything else is JSON. */
  constructor(
    body?: Uint8Array | string | Iterator<Uint8Array | string> | Json,
    options?: { status?: number; headers?: Record<string, string> },
  );
  readonly status: number;
  /** Names in lower case. */
  readonly headers: [string, string][];
  /** The first header of this name. */
  header(name: string): string | undefined;
  /** The next piece of the body. */
  read(): Uint8Array | undefined;
  [Symbol.iterator](): Iterator<Uint8Array>;
  /** The rest of the body, 16 MiB at most. */
  bytes(): Uint8Array;
  text(): string;
  json(): any;
  /** Gives it up before the request ends. */
  close(): void;
}

/** Sends a request and waits for the head of the response, of any status. No redirect is followed. */
export function request(url: string | URL, options?: Options): Response;
export function get(url: string | URL, options?: Omit<Options, "method">): Response;
export function post(url: string | URL, options?: Omit<Options, "method">): Response;
/** Sends JSON by `POST`; the response is a 2xx. In a test it is one request, without a signature. */
export function sendWebhook(url: string | URL, value: Json, options?: WebhookOptions): Response;

/** A request as a test's function gets it; its time is in milliseconds. */
export interface Asked {
  method: string;
  url: string;
  headers: Record<string, string>;
  body: Uint8Array;
  timeout: number;
}

/** For tests: what others answer. */
export function answerWith(answer: (request: Asked) => Response): void;

/** Why there is no response, or no more of it. */
export class OutboundError extends Error {
  constructor(kind: OutboundError["kind"], detail?: string | number);
  readonly kind: "denied" | "prohibited" | "invalid" | "timed-out" | "failed" | "too-long" | "status";
  /** The receiver's, of a webhook. */
  readonly status?: number;
}
