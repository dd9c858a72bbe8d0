// Handles of the host's that a request holds: they are given up at its end, since the collector of garbage comes late.

const held = new Set();

export function hold(handle) {
  held.add(handle);
  return handle;
}

export function release(handle) {
  if (held.delete(handle)) dispose(handle);
}

export function released() {
  for (const handle of held) release(handle);
}

/** Gives a handle up, if there is one. */
export function dispose(handle) {
  (handle?.[Symbol.dispose] ?? handle?.[Symbol.for("dispose")])?.call(handle);
}
