// An application that sends what the body of a `POST /` says, and answers with what came of it, as in every language: see
// tests/it/libraries/outbound.rs.

import { App } from "modelhost-guest";
import { OutboundError, get, post, sendWebhook } from "modelhost-guest/outbound";

export const app = new App().post("/", async (request) => {
  try {
    const order = request.json();
    return order.do === "fetch" ? await fetched(order) : done(order);
  } catch (error) {
    if (!(error instanceof OutboundError)) throw error;
    return { error: error.kind, status: error.status };
  }
});

export const { operations, respond } = app.exports();

/** By the web platform's function. */
async function fetched({ url, headers, json }) {
  const response = await fetch(new Request(url, { method: "POST", headers, body: JSON.stringify(json) }));
  return { status: response.status, headers: Object.fromEntries(response.headers), text: await response.text() };
}

function done({ do: order, url, headers, json, secret, attempts, pause_ms: pause, timeout_ms: timeout }) {
  const seconds = (milliseconds) => (milliseconds === undefined ? undefined : milliseconds / 1000);
  const options = { headers, json, timeout: seconds(timeout) };
  const response =
    order === "webhook" ? sendWebhook(url, json, { secret, attempts, pause: seconds(pause), timeout: seconds(timeout) })
    : order === "post" ? post(url, options)
    : get(url, { ...options, json: undefined });
  const { status } = response;
  switch (order) {
    case "pieces": {
      const sizes = Array.from(response, (piece) => piece.length);
      return { status, pieces: sizes.length, bytes: sizes.reduce((sum, size) => sum + size, 0) };
    }
    case "whole":
      return { status, bytes: response.bytes().length };
    case "left":
      response.read();
      return { status };
    default:
      return { status, headers: Object.fromEntries(response.headers), text: response.text() };
  }
}
