// Applications without a host: routes, streams, background work, models, a function of the web platform.

import assert from "node:assert/strict";
import test from "node:test";

import { App, Event, InvalidInput, Response, Tensor, exportsOf, serve } from "modelhost-guest";
import * as models from "modelhost-guest/models";

const done = [];

const app = new App()
  .post("/echo", async (request) => ({ echo: request.json() }))
  .get("/items/{id}", (request) => [request.params.id, request.query.get("q"), request.header("x-user")])
  .get("/files/{*path}", (request) => request.params.path)
  .get("/events", function* () {
    yield { n: 1 };
    yield new Event("bye", { event: "end" });
  })
  .get("/text", async function* () {
    yield "a";
    yield "b";
  })
  .get("/bytes", function* () {
    yield new Uint8Array([97]).buffer;
    yield new Uint16Array([0x6362]);
  })
  .get("/nothing", function* () {
    yield undefined;
    yield null;
    yield 1;
  })
  .get("/teapot", () => {
    throw new Response("teapot", { status: 418 });
  })
  .batch("/sums", (requests) => (requests[0].json().all ? {} : requests.map((request) => [requests.length, ...request.json()])))
  .background("/later", (request) => done.push(request.json()))
  .post("/predict", (request) => models.infer({ input: [request.json()] }).named("sum"))
  .post("/resident", () => {
    const held = new models.Resident(new Tensor([[1], [2]]));
    const outputs = models.start({ input: held.rows(1, 1) }, { model: "adder", outputs: ["sum"] }).wait();
    return outputs.sum.read();
  });

const get = (path, rest) => app.answer({ method: "GET", path, ...rest });

test("requests go to their routes", async () => {
  const answer = await get("/items/a%20b", { query: "q=1", headers: { "X-User": "7" } });
  assert.deepEqual(answer.json(), ["a b", "1", "7"]);
  assert.deepEqual((await get("/items/100%")).json()[0], "100%");
  assert.deepEqual((await get("/items/%%41%zz%e4%bd%a0")).json()[0], "%A%zz\u4f60");
  assert.equal((await get("/files/a/b.txt")).text(), "a/b.txt");
  assert.equal((await get("/files/")).text(), "");
  assert.deepEqual((await app.answer({ path: "/echo", json: [1] })).json(), { echo: [1] });
  for (const [method, path, status] of [
    ["GET", "/", 404],
    ["GET", "/items/", 404],
    ["GET", "/items/%ff", 404],
    ["GET", "/files", 404],
    ["GET", "/echo", 405],
    ["HEAD", "/events", 200],
    ["GET", "/teapot", 418],
    ["POST", "/echo", 400],
  ]) {
    assert.equal((await app.answer({ method, path })).status, status, `${method} ${path}`);
  }
  const { headers, ...refused } = await app.answer({ path: "/events" });
  assert.deepEqual(headers, { allow: "GET, HEAD" });
  assert.deepEqual(new Response(refused.body).json(), {
    error: "the path is there for other methods", code: "method_not_allowed", stage: "pre_inference", request_id: "test",
  });
});

test("routes are told", () => {
  assert.deepEqual(app.operations()[1], { method: "GET", path: "/items/{id}", summary: "", consumes: "", produces: "" });
});

test("generators are streams", async () => {
  const events = await get("/events");
  assert.deepEqual([events.contentType, events.text()],
    ["text/event-stream", 'data: {"n":1}\n\nevent: end\ndata: bye\n\n']);
  assert.equal((await get("/nothing")).text(), "data: null\n\ndata: null\n\ndata: 1\n\n");
  const bytes = await get("/bytes");
  assert.deepEqual([bytes.contentType, bytes.text()], ["application/octet-stream", "abc"]);
  const text = await get("/text");
  assert.deepEqual([text.contentType, text.text()], ["text/plain; charset=utf-8", "ab"]);
});

test("background work follows the answer", async () => {
  assert.deepEqual((await app.answer({ path: "/later", json: 7 })).json(), { started: true });
  assert.deepEqual(done, [7]);
});

test("models are called", async () => {
  const add = (inputs) => ({ sum: [inputs[0].row(0).values.reduce((sum, value) => sum + value, 0)], rest: [0] });
  models.answerWith({ adder: add });
  assert.deepEqual((await app.answer({ path: "/predict", json: [1.5, 2] })).json(), [3.5]);
  assert.deepEqual((await app.answer({ path: "/resident" })).json(), [2]);
  assert.throws(() => models.infer([], "other"), { name: "ModelError", kind: "no-such-model" });
});

/** Keeps what an application sends in pieces. */
class Output {
  pieces = [];

  begin(...head) {
    this.head = head;
  }

  write(piece) {
    this.pieces.push(new TextDecoder().decode(piece));
    return true;
  }

  static finish(output) {
    output.finished = true;
  }
}

test("a function of the web platform is an application", async () => {
  const { respond } = serve(async (request) => {
    const body = new ReadableStream({
      async start(controller) {
        const url = new URL(request.url);
        for (const piece of [request.method, url.pathname, url.search, await request.text()]) {
          controller.enqueue(new TextEncoder().encode(piece));
        }
        controller.close();
      },
    });
    return new globalThis.Response(body, { status: 201, headers: { "content-type": "text/plain", "x-a": "1" } });
  });
  const host = { method: () => "POST", path: () => "/a", query: () => "q=%7e*&a", header: () => undefined };
  const output = new Output();
  const body = new TextEncoder().encode("hello");
  assert.equal(await respond.respond({ body, contentType: "text/plain" }, host, output), undefined);
  assert.deepEqual(output.head, [201, "text/plain", [["x-a", "1"]]]);
  assert.deepEqual([output.pieces.join(" "), output.finished], ["POST /a ?q=%7e*&a hello", true]);
  const failing = serve(() => {
    throw new Error("as asked");
  });
  await assert.rejects(failing.respond.respond({ body, contentType: "" }, host, output), { tag: "internal" });
});

test("the default export is an application or an object with `fetch`", async () => {
  const host = { method: () => "GET", path: () => "/a", query: () => "", header: () => undefined };
  const answered = async ({ respond }) => {
    const output = new Output();
    const told = await respond.respond({ body: new Uint8Array(), contentType: "" }, host, output);
    return told ? [told.status, new TextDecoder().decode(told.body)] : [output.head[0], output.pieces.join("")];
  };
  let metadata;
  const { init, ...own } = exportsOf({
    init(given) {
      metadata = given;
    },
    status: 201,
    fetch(request) {
      return new globalThis.Response(new URL(request.url).pathname, { status: this.status });
    },
  });
  await init.init('{"a": 1}');
  assert.deepEqual([await answered(own), metadata], [[201, "/a"], { a: 1 }]);
  const app = exportsOf(new App().get("/a", () => new globalThis.Response("platform's", { status: 202 })));
  assert.deepEqual(await answered(app), [202, "platform's"]);
  await app.init.init("null");
  assert.deepEqual(app.respondAll.paths(), []);
  for (const wrong of [undefined, {}, () => {}]) assert.throws(() => exportsOf(wrong), /the default export is an `App`/);
});

/** A request of a batch, and what is told of its result. */
const member = (body, contentType = "application/json", path = "/sums") => ({
  sample: { body: new TextEncoder().encode(body), contentType },
  context: { method: () => "POST", path: () => path, query: () => "", header: () => undefined, requestId: () => body },
});
const told = ({ tag, val }) => (tag === "ok" ? new TextDecoder().decode(val.body) : val.tag);

test("requests are served together", async () => {
  const { respondAll } = app.exports();
  assert.deepEqual(respondAll.paths(), ["/sums"]);
  const results = await respondAll.respondAll([member("[1]"), member("{"), member("[2]")]);
  assert.deepEqual(results.map(told), ["[2,1]", "invalid-input", "[2,2]"]);
  const wrong = await respondAll.respondAll([member('{"all": 1}'), member("[2]")]);
  assert.deepEqual(wrong.map(({ val }) => val.status), [500, 500]);
  assert.match(told(wrong[1]), /"plugin_bad_output","stage":"pre_inference","request_id":"\[2\]"/);
  assert.deepEqual((await app.answer({ path: "/sums", json: [7] })).json(), [1, 7]);
});

test("one that cannot be read has its own error in a batch", async () => {
  const calls = [];
  const batch = (call) => new App().batch("/sums", (requests) => {
    calls.push(requests.length);
    return call(requests);
  }).exports().respondAll;
  const form = "application/x-www-form-urlencoded";
  const bodies = [member("[1]", form), member("{", form), member("[2]", undefined), member("", ""), member("{", "a/b+json")];

  const reading = batch((requests) => requests.map((request) => request.json()));
  assert.deepEqual((await reading.respondAll(bodies)).map(told), ["[1]", "invalid-input", "[2]", "invalid-input", "invalid-input"]);
  assert.deepEqual(calls.splice(0), [4, 3, 2], "once more for each that says nothing, and not with one that says it is JSON");

  const waiting = batch((requests) => Promise.all(requests.splice(0).map(async (request) => request.numbers("a"))));
  const fields = [member('{"a": 1}'), member('{"a": "x"}'), member("{}")];
  assert.deepEqual((await waiting.respondAll(fields)).map(told), ["[1]", "invalid-input", "invalid-input"]);
  assert.deepEqual(calls.splice(0), [3, 2, 1]);

  const text = batch((requests) => requests.map((request) => request.text()));
  assert.deepEqual((await text.respondAll([member("{", form), member("x", "")])).map(told), ["{", "x"]);
  const none = batch((requests) => requests.map((request) => request.json()));
  assert.deepEqual((await none.respondAll([member("{", form)])).map(told), ["invalid-input"]);
  const own = batch(() => {
    throw new InvalidInput("as asked");
  });
  await assert.rejects(own.respondAll([member("1"), member("2")]), { tag: "invalid-input", val: "as asked" });
});
