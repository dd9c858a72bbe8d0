// Requests to other servers without a library.

import assert from "node:assert/strict";
import test, { beforeEach } from "node:test";

import { App } from "modelhost-guest";
import { OutboundError, Response, answerWith, get, post, request, sendWebhook } from "modelhost-guest/outbound";

const app = new App()
  .post("/labels", () => {
    const found = get("https://labels.example.com/v1", { headers: { "X-Key": "k" } });
    return { status: found.status, kind: found.header("X-KIND"), labels: found.json() };
  })
  .post("/copy", function* () {
    yield* post("https://a.example", { json: 1 });
  });

/** Has others answer with these, one after another; the requests that they get. */
function others(...answers) {
  const seen = [];
  answerWith((asked) => {
    const answer = answers[seen.length];
    seen.push(asked);
    if (answer instanceof Error) throw answer;
    return answer;
  });
  return seen;
}

const text = (bytes) => new TextDecoder().decode(bytes);
const fails = (kind, message, call) => assert.throws(call, { name: "OutboundError", kind, message });

beforeEach(() => answerWith(undefined));

test("a test says what others answer", async () => {
  assert.throws(() => get("https://a.example"), /answerWith/);
  const seen = others(new Response(["cat"], { headers: { "X-Kind": "b" } }));
  const answer = (await app.answer({ path: "/labels" })).json();
  assert.deepEqual(answer, { status: 200, kind: "b", labels: ["cat"] });
  const [{ method, url, headers, body, timeout }] = seen;
  assert.deepEqual([method, url, headers], ["GET", "https://labels.example.com/v1", { "x-key": "k" }]);
  assert.deepEqual([body.length, timeout], [0, 30_000]);
  others(new OutboundError("denied"));
  fails("denied", /`allow_outbound` does not list/, () => request(new URL("https://a.example")));
});

test("bodies are sent with their types", () => {
  for (const [given, body, type] of [
    [{ json: { a: [1] } }, '{"a":[1]}', "application/json"],
    [{ body: "text" }, "text", "text/plain; charset=utf-8"],
    [{ body: new Uint8Array(1) }, "\0", "application/octet-stream"],
    [{ body: "x", contentType: "a/b" }, "x", "a/b"],
    [{ body: "x", headers: { "Content-Type": "a/b" } }, "x", "a/b"],
    [{}, "", undefined],
  ]) {
    const [seen] = [others(new Response("", { status: 204 })), post("https://a.example", given)];
    assert.deepEqual([seen[0].method, text(seen[0].body), seen[0].headers["content-type"]], ["POST", body, type]);
  }
  others(new Response());
  assert.throws(() => post("https://a.example", { body: 1 }), TypeError);
  for (const timeout of [-1, 2 ** 32, NaN]) assert.throws(() => get("https://a.example", { timeout }), /a time of/);
  for (const timeout of [0, undefined, null]) {
    const [seen] = [others(new Response()), get("https://a.example", { timeout })];
    assert.equal(seen[0].timeout, 30_000);
  }
});

test("what the library would refuse is refused in a test too", () => {
  const [seen, url] = [others(), "https://a.example"];
  for (const call of [
    () => get("ftp://a.example"),
    () => get("a.example"),
    () => request(url, { method: "A B" }),
    () => get(url, { headers: { "x y": "1" } }),
    () => get(url, { headers: { "": "1" } }),
    () => get(url, { headers: { "a\n": "1" } }),
    () => get(url, { headers: { a: "1\r\nb: 2" } }),
    () => get(url, { headers: { a: "\0" } }),
    () => post(url, { body: "a", contentType: "a\n" }),
    () => sendWebhook("ftp://a.example", 1),
    () => sendWebhook(url, 1, { secret: "" }),
    () => sendWebhook(url, 1, { secret: "whsec_" }),
  ]) {
    assert.throws(call, { name: "OutboundError", kind: "invalid" }, String(call));
  }
  for (const call of [
    () => post(url, { json: () => 1 }),
    () => post(url, { json: Symbol() }),
    () => sendWebhook(url, () => 1),
    () => sendWebhook(url, 1, { secret: null }),
    () => get(url, { headers: { a: undefined } }),
    () => get(url, { headers: { a: null } }),
  ]) {
    assert.throws(call, TypeError, String(call));
  }
  assert.deepEqual(seen, []);
});

test("bodies are read whole or in pieces", async () => {
  others(new Response(["one", "", new Uint8Array([33])].values()), new Response(["a", "b", "c"].values()));
  assert.equal((await app.answer({ path: "/copy" })).text(), "one!");
  const response = get("https://a.example");
  const [first, ...rest] = response;
  assert.deepEqual([text(first), rest.length, response.text()], ["a", 2, ""]);
  function* broken() {
    yield "{";
    throw new OutboundError("failed", "the response broke off");
  }
  function* long() {
    for (let at = 0; at < 17; at++) yield new Uint8Array(1 << 20);
  }
  others(...[broken(), new Uint8Array([0xff]), "{", long(), "a"].map((body) => new Response(body)));
  fails("failed", "the request failed: the response broke off", () => get("https://a.example").json());
  assert.equal(get("https://a.example").text(), "\ufffd");
  fails("failed", /its json/, () => get("https://a.example").json());
  fails("too-long", /longer than 16777216 bytes/, () => get("https://a.example").bytes());
  const closed = get("https://a.example");
  closed.close();
  assert.equal(closed.read(), undefined);
});

test("a response of a test has the headers of one", () => {
  assert.equal(new Response({ a: 1 }).header("content-type"), "application/json");
  assert.equal(new Response({ a: 1 }, { headers: { "Content-Type": "a/b" } }).header("content-type"), "a/b");
  assert.deepEqual(new Response(new Uint8Array(1)).headers, []);
});

test("a webhook is a post of json", () => {
  const seen = others(new Response("", { status: 202 }), new Response("", { status: 410 }));
  assert.equal(sendWebhook("https://a.example", [1], { secret: "s", attempts: 5 }).status, 202);
  assert.deepEqual([seen[0].method, text(seen[0].body), seen[0].headers["content-type"]], ["POST", "[1]", "application/json"]);
  assert.throws(() => sendWebhook("https://a.example", 1), { kind: "status", status: 410, message: /answered with status 410/ });
  for (const wrong of [{ attempts: -1 }, { attempts: 0.5 }, { pause: -1 }]) {
    assert.throws(() => sendWebhook("https://a.example", 1, wrong), RangeError);
  }
});
