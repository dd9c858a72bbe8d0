// Requests to other servers where there is no library: a test says what these answer.

import { OutboundError, outboundOf } from "./outbound-messages.js";

let answer;

/**
 * A function from a request (`method`, `url`, `headers`, `body`, `timeout` in milliseconds) to a response; it may throw an
 * `OutboundError`.
 */
export function answerWith(given) {
  answer = given;
}

export const { request, get, post, sendWebhook } = outboundOf(send, ({ url, json, timeout }) => {
  const headers = [["content-type", "application/json"]];
  const response = send({ method: "POST", url, headers, body: json, timeout });
  if (response.status < 200 || response.status > 299) throw new OutboundError("status", response.status);
  return response;
});

function send({ headers, ...request }) {
  if (answer === undefined) throw new Error("the test does not say what others answer: `answerWith`");
  return answer({ ...request, headers: Object.fromEntries(headers) });
}

export { OutboundError, Response } from "./outbound-messages.js";
