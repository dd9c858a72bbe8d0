// Handles of the host's that a request holds: they are given up at its end, since the collector of garbage comes late.

import { clearTimers } from "./timers.js";

const held = new Set();

export function hold(handle) {
  held.add(handle);
  return handle;
}

/** Whether it has not been given up. */
export function isHeld(handle) {
  return held.has(handle);
}

export function release(handle) {
  if (held.delete(handle)) dispose(handle);
}

/** The same of a handle that the host takes back itself. */
export function taken(handle) {
  held.delete(handle);
  return handle;
}

/** Gives all of them up. */
export function released() {
  for (const handle of held) release(handle);
}

/** The names of metrics whose help text the host has. */
export const described = new Set();

/** Buckets by name, opened once in the call of an export. */
const opened = new Map();

export function openedOnce(name, open) {
  if (!opened.has(name)) opened.set(name, open());
  return opened.get(name);
}

/** Closes them at its end, and clears its timers: memory that `init` leaves is copied only if no handle is in it. */
export function closed() {
  clearTimers();
  for (const handle of opened.values()) dispose(handle);
  opened.clear();
}

/** Both, at the end of a call that serves a whole request. */
export function ended() {
  released();
  closed();
}

/** Gives a handle up, if there is one. */
export function dispose(handle) {
  (handle?.[Symbol.dispose] ?? handle?.[Symbol.for("dispose")])?.call(handle);
}
