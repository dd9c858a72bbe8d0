// The types of `modelhost-guest/jobs`, for TypeScript and for editors.

import type { Json } from "./index.js";

/** A request that is to be a job. */
export interface Options {
  json?: Json;
  /** In place of `json`. */
  body?: Uint8Array | string;
  contentType?: string;
  headers?: Record<string, string>;
  /** 0 comes first, 2 last. */
  priority?: number;
  /** Seconds that it is not run yet. */
  delay?: number;
  /** Seconds after which it fails if it has not begun. */
  wait?: number;
  attempts?: number;
  /** A URL that gets the result, at a place that `allow_outbound` lists. */
  webhook?: string;
  /** A second submission with the same key is the same job. */
  idempotencyKey?: string;
}

export interface Job {
  id: string;
  state: "queued" | "running" | "completed" | "failed" | "cancelled";
  /** Attempts that have begun. */
  attempt: number;
  attempts: number;
  submitted: Date;
  /** When its state changed last. */
  changed: Date;
  /** Why the last attempt has failed. */
  error?: string;
  /** That of its answer. */
  status?: number;
}

/** The answer to a job. */
export class Answer {
  private constructor();
  readonly status: number;
  /** Names in lower case. */
  readonly headers: Record<string, string>;
  readonly body: Uint8Array;
  text(): string;
  json(): any;
}

/** Stores a job for the path below the endpoint's own, and gives it when it is stored. */
export function submit(path?: string, options?: Options): Job;
export function get(id: string): Job | undefined;
/** The answer to a job, once it is finished with one. */
export function getAnswer(id: string): Answer | undefined;
/** Cancels a job, whose run is stopped; one that is finished stays as it is. */
export function cancel(id: string): Job | undefined;

/** For tests: what was submitted; times are in milliseconds. */
export function submitted(): {
  id: string;
  path: string;
  headers: Record<string, string>;
  body: Uint8Array;
  priority?: number;
  delayMs?: bigint;
  waitMs?: bigint;
  attempts?: number;
  webhook?: string;
  idempotencyKey?: string;
}[];
/** For tests: a job ends with this answer. */
export function finish(id: string, answer?: { status?: number; json?: Json; headers?: Record<string, string> }): void;
/** For tests: forgets all jobs. */
export function forget(): void;

/** Why something was not done with a job. */
export class JobError extends Error {
  readonly kind: "invalid" | "conflict" | "limit" | "unavailable";
}
