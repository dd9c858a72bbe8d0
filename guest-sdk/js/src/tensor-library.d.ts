// The types of `modelhost-guest/tensor`, for TypeScript and for editors.

import type { Tensor } from "./index.js";

/** The place of the largest value along an axis, the first of several: INT64, without this axis. */
export function argmax(tensor: Tensor, axis?: number): Tensor;
/** The largest values along an axis, the largest first, and their places as INT64. */
export function topK(tensor: Tensor, count: number, axis?: number): [Tensor, Tensor];
/** Values to shares of 1 along an axis. */
export function softmax(tensor: Tensor, axis?: number): Tensor;
/** Values divided by their length (L2) along an axis. */
export function normalise(tensor: Tensor, axis?: number): Tensor;
/** `[texts, length, values]` to `[texts, values]`: the mean of those for which `mask`, `[texts, length]`, is not 0. */
export function meanPool(tensor: Tensor, mask: Tensor): Tensor;
/** Tensors of one datatype, one after the other along an axis. */
export function concat(tensors: Iterable<Tensor>, axis?: number): Tensor;
/** The entries of an axis at places, counted back from -1 where they are negative. */
export function gather(tensor: Tensor, places: Tensor | Iterable<number>, axis?: number): Tensor;
/** Non-maximum suppression: the places of the boxes (`[boxes, 4]`: left, top, right, bottom) that stay, the best first. */
export function suppress(
  boxes: Tensor,
  scores: Tensor,
  limits?: { classes?: Tensor; mostOverlap?: number; leastScore?: number; most?: number },
): Tensor;
/** For tests: what comes of an operation, given its name and what it was called with. */
export function answerWith(answer: (operation: string, ...given: unknown[]) => Tensor | [Tensor, Tensor]): void;
