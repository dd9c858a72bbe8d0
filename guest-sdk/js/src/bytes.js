// Bytes as this realm has them: those of the host are no `Uint8Array` to `instanceof`.

export function bytesOf(view) {
  return view instanceof Uint8Array ? view : new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
}
