// The types of `modelhost-guest/blobs`, for TypeScript and for editors.

/** A container: `default`, or `shared/images` for one that several endpoints are granted. */
export function open(name?: string): Container;
/** For tests: forgets all objects. */
export function forget(): void;

/** Objects by name; a name is any text of 1 to 512 bytes. */
export class Container {
  private constructor();
  readonly name: string;
  /** An object as a whole. */
  get(name: string): Uint8Array | undefined;
  getText(name: string): string | undefined;
  /** Its bytes from `start` up to `end`, as far as there are some. */
  getRange(name: string, start: number, end: number): Uint8Array | undefined;
  /** The object to be read piece by piece. */
  reader(name: string): Reader | undefined;
  /** Writes an object as a whole, in place of an earlier one. */
  set(name: string, content: Uint8Array | string): void;
  /** An object to be written piece by piece: it is there when `finish` has returned. */
  writer(name: string): Writer;
  /** Its bytes, and when it was written, in seconds since 1970. */
  info(name: string): { size: number; created: number } | undefined;
  /** Removes an object, whether it is there or not. */
  delete(name: string): void;
  /** Removes all objects. */
  clear(): void;
  /** The names of all objects, or of so many, in any order. */
  names(most?: number): string[];
}

/** An object that is read; it closes itself at its end. */
export class Reader {
  private constructor();
  readonly size: number;
  /** At most so many of the next bytes, none at the end. */
  read(size?: number): Uint8Array;
  /** All bytes that are left. */
  rest(): Uint8Array;
  /** Reads no more. */
  close(): void;
  [Symbol.iterator](): Iterator<Uint8Array>;
}

/** An object that is written. */
export class Writer {
  private constructor();
  write(content: Uint8Array | string): void;
  /** Ends the object: it is stored when this returns. */
  finish(): void;
  /** Gives the object up: nothing is left of it. */
  abort(): void;
}

/** Why a container has not done what it should, in the host's words. */
export class BlobError extends Error {}
