// Bytes as this realm has them: those of the host are no `Uint8Array` to `instanceof`.

/** Of a view or a buffer. */
export function bytesOf(given) {
  if (given instanceof Uint8Array) return given;
  return ArrayBuffer.isView(given) ? new Uint8Array(given.buffer, given.byteOffset, given.byteLength) : new Uint8Array(given);
}

/** The text of UTF-8, a byte order mark included; other bytes throw. */
export function textOf(bytes) {
  return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
}
