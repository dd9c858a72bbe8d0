// The types of `modelhost-guest/models`, for TypeScript and for editors.

import type { Datatype, Inputs, Signature, Tensor, Tensors } from "./index.js";

/** Names, in the configuration's order. */
export function names(): string[];
/** The model's inputs and outputs. */
export function describe(model?: string): Signature;
/** Runs the model by value. */
export function infer(inputs: Inputs, model?: string): Tensors;
/** Runs the model with tensors that the host holds. `outputs` names those that are wanted; none means all. */
export function run(inputs: Residents, options?: { model?: string; outputs?: string[] }): Residents;
/** The same without waiting: `wait()` of the result gives the outputs. */
export function start(inputs: Residents, options?: { model?: string; outputs?: string[] }): { wait(): Residents };
/** For tests: what the models answer. */
export function answerWith(models: { [name: string]: (inputs: Tensors) => Inputs }): void;

export interface Residents {
  [name: string]: Resident;
}

/** A tensor that the host holds. What is not read is not copied. */
export class Resident {
  constructor(tensor: Tensor);
  get datatype(): Datatype;
  get shape(): number[];
  /** A copy of all of it. */
  read(name?: string): Tensor;
  /** The same elements under another shape, without a copy. */
  reshape(...shape: number[]): Resident;
  /** `count` rows from `start` along the first axis, without a copy. */
  rows(start: number, count: number): Resident;
  /** Gives it up before the request ends. */
  close(): void;
}

/** Why a model did not answer. */
export class ModelError extends Error {
  readonly kind: string;
}
