// An application on QuickJS: URLs as the web's platform has them, and handles that end before what their methods made.

import { App } from "modelhost-guest";
import { getStdout } from "wasi:cli/stdout@0.2.12";

function parsed([given, base]) {
  try {
    return new URL(given, base).href;
  } catch (error) {
    return error.name;
  }
}

/** Local values end in their order, so the stream does before the pollable that it made. */
function inOrder() {
  const stream = getStdout();
  const ready = stream.subscribe();
  ready.block();
}

/** What is in a circle is left to the collector. */
function inCircle() {
  const stream = getStdout();
  const circle = { stream, ready: stream.subscribe(), rest: new Array(100).fill("") };
  stream.circle = circle;
}

/** What has been given up is not given up again. */
function byHand() {
  const stream = getStdout();
  const ready = stream.subscribe();
  ready[Symbol.dispose]();
  stream[Symbol.dispose]();
  ready[Symbol.dispose]();
}

/** What is left when its maker's name is gone. */
function alone() {
  return getStdout().subscribe();
}

function waited(rounds) {
  for (let round = 0; round < rounds; round++) {
    inOrder();
    inCircle();
    byHand();
    alone().block();
  }
  return { rounds };
}

export const { operations, respond } = new App()
  .post("/urls", (request) => ({ urls: request.fields("urls")[0].map(parsed) }))
  .post("/waited", (request) => waited(request.fields("rounds")[0]))
  .exports();
