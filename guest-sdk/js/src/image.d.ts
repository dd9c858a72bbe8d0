// The types of `modelhost-guest/image`, for TypeScript and for editors.

import type { InvalidInput, Tensor } from "./index.js";

/** How a picture becomes a tensor. */
export interface Preparation {
  /** Columns and rows, or a number for both; without, the picture's own. */
  size?: number | [number, number];
  fit?: "stretch" | "cover" | "contain";
  filter?: "nearest" | "box" | "bilinear" | "bicubic" | "lanczos";
  colours?: "rgb" | "bgr" | "grey";
  /** `[1, values, rows, columns]`, or `[1, rows, columns, values]`. */
  layout?: "planes" | "pixels";
  datatype?: "UINT8" | "FP16" | "FP32";
  /** A value is `(byte * scale - mean) / deviation`; 1/255, if not said otherwise. */
  scale?: number;
  /** One for each value of a pixel. */
  mean?: Iterable<number>;
  deviation?: Iterable<number>;
  /** The byte around a picture that does not fill its size. */
  padding?: number;
  /** Whether it is turned as the file says: it is, if not said otherwise. */
  upright?: boolean;
  /** Most pixels of a file's picture: 4096 by 4096, if not said otherwise. */
  mostPixels?: number;
  /** The tensor's. */
  name?: string;
}

/** A picture as a tensor; a point of the file's is in it at `x * scale[0] + offset[0]`, `y * scale[1] + offset[1]`. */
export interface Picture {
  tensor: Tensor;
  width: number;
  height: number;
  offset: [number, number];
  scale: [number, number];
}

/** Decodes a JPEG, PNG or WebP file, and prepares its picture. */
export function prepare(file: Uint8Array, preparation?: Preparation): Picture;
/** What a file says of its picture, without decoding it. */
export function inspect(file: Uint8Array): { format: "jpeg" | "png" | "webp"; width: number; height: number };
/** For tests: what comes of a file. */
export function answerWith(answer: (file: Uint8Array) => Picture): void;

/** Why a file is no picture. */
export class ImageError extends InvalidInput {
  readonly kind: "unsupported" | "invalid" | "too-large";
}
