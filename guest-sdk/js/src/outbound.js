// Requests to other servers, by the library `outbound`, which `modelhost build` puts into the handler.
//
// modelhost.toml names it, `[build]` with `with = ["outbound"]`, and lists at the endpoint where requests may go,
// `allow_outbound`.

import * as requests from "modelhost:outbound/requests@0.1.0";

import { bytesOf } from "./bytes.js";
import { OutboundError, Response, fetchedBy, outboundOf } from "./outbound-messages.js";
import { fetchBy } from "#platform";
import { hold, isHeld, release } from "./released.js";

/**
 * `request(url, { method, headers, json, body, contentType, timeout })` sends a request and waits for the head of the response,
 * of any status; `get` and `post` say the method. `sendWebhook(url, value, { secret, attempts, pause, timeout })` sends JSON by
 * `POST`, signed if there is a secret, which may not be empty, and again while that may help; its response is a 2xx. Times are in
 * seconds; 0 is the usual one, and the host waits 60 at most. Each may throw an `OutboundError`.
 */
export const { request, get, post, sendWebhook } = outboundOf(
  (given) => answered(() => requests.send(given)),
  (given) => answered(() => requests.sendWebhook(given)),
);

fetchBy(fetchedBy(request));

/** For tests, which have no library. */
export function answerWith() {
  throw new Error("only a test says what others answer");
}

function answered(call) {
  const { status, headers, body } = asked(call);
  hold(body);
  return Response.of(status, headers, {
    read() {
      // A response that is kept beyond its request.
      if (!isHeld(body)) throw new OutboundError("failed", "the response is closed");
      const piece = asked(() => body.read());
      return piece === undefined ? undefined : bytesOf(piece);
    },
    close: () => release(body),
  });
}

function asked(call) {
  try {
    return call();
  } catch (error) {
    const { tag, val } = error?.payload ?? error;
    throw tag === undefined ? error : new OutboundError(tag, val);
  }
}

export { OutboundError, Response } from "./outbound-messages.js";
