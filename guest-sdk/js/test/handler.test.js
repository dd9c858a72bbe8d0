// The package without a host: tensors, bodies, responses, functions around a model.

import assert from "node:assert/strict";
import test from "node:test";

import { Context, Event, InvalidInput, Response, Sample, Tensor, Tensors, handler } from "modelhost-guest";

// What makes a tensor; then its datatype, its shape, and what it reads as.
const TENSORS = [
  [[[1, 2.5], [3, 4]], undefined, "FP32", [2, 2], [[1, 2.5], [3, 4]]],
  [[1, 2, 3], "INT64", "INT64", [3], [1, 2, 3]],
  [[1n, 2n ** 60n], undefined, "INT64", [2], [1, String(2n ** 60n)]],
  [[[true], [false]], undefined, "BOOL", [2, 1], [[true], [false]]],
  [7, "UINT8", "UINT8", [], 7],
  [[[[]]], "FP32", "FP32", [1, 1, 0], [[[]]]],
  [["a", "grüß"], undefined, "BYTES", [2], ["a", "grüß"]],
  [[1.5, -2, 65504, 6e-8, 0.0999755859375], "FP16", "FP16", [5], [1.5, -2, 65504, 2 ** -24, 0.0999755859375]],
  [[1.5, -2, 1.0078125], "BF16", "BF16", [3], [1.5, -2, 1.0078125]],
  [new Float64Array([1.5]), undefined, "FP64", [1], [1.5]],
  [new Uint8Array([1, 2]), "FP32", "FP32", [2], [1, 2]],
];

test("values become tensors and come back", () => {
  for (const [values, datatype, expected, shape, list] of TENSORS) {
    const tensor = new Tensor(values, { datatype });
    assert.deepEqual([tensor.datatype, tensor.shape, tensor.toList()], [expected, shape, list]);
    assert.deepEqual(Tensor.raw(tensor.data, expected, shape), tensor);
  }
});

test("values that make none are the caller's", () => {
  for (const [values, datatype, message] of [
    [[[1, 2], [3]], undefined, /rows are not of one length/],
    [["a", 1], "FP32", /`a` is no number/],
    [[undefined], undefined, /`undefined` is no number/],
    [[1.5], "INT64", /`1.5` is no whole number/],
    [[1], "BYTES", /`1` is no text/],
    [[null], "FP16", /`null` is no number/],
    [[300], "UINT8", /`300` is no UINT8/],
    [[1.5], "INT32", /`1.5` is no INT32/],
    [[1e20], "INT64", /`100000000000000000000` is no INT64/],
    [[-1n], "UINT64", /`-1` is no UINT64/],
    [[2], "BOOL", /`2` is no BOOL/],
    [[NaN], "INT8", /`NaN` is no INT8/],
  ]) {
    assert.throws(() => new Tensor(values, { datatype }), { name: "InvalidInput", message });
  }
});

test("a shape has as many elements", () => {
  const tensor = new Tensor([1, 2, 3, 4, 5, 6]);
  assert.deepEqual(tensor.reshape(2, -1).toList(), [[1, 2, 3], [4, 5, 6]]);
  assert.deepEqual(new Tensor(new Float32Array(6), { shape: [3, 2] }).shape, [3, 2]);
  for (const shape of [[4], [4, -1], [-1, -1]]) {
    assert.throws(() => tensor.reshape(shape), /6 elements do not fit/);
  }
  assert.throws(() => Tensor.raw(new Uint8Array(3), "FP32", [1]), /3 bytes are no FP32/);
});

test("rows are read where they lie", () => {
  const tensor = new Tensor([[1, 2], [3, 4], [5, 6]]);
  assert.deepEqual([tensor.row(1).toList(), tensor.rows(1).toList()], [[3, 4], [[3, 4], [5, 6]]]);
  assert.deepEqual([...tensor].map((row) => row.values[0]), [1, 3, 5]);
  assert.equal(tensor.row(1).data.buffer, tensor.data.buffer);
  // Bytes that begin between two elements are copied.
  const odd = Tensor.raw(new Uint8Array([0, ...tensor.data]).subarray(1), "FP32", [3, 2]);
  assert.deepEqual(odd.toList(), tensor.toList());
  assert.deepEqual(new Tensor([["a"], ["b"]]).row(1).strings(), ["b"]);
  assert.throws(() => tensor.row(3), RangeError);
});

test("strings are UTF-8", () => {
  assert.deepEqual(new Tensor(["\ufeffa"]).strings(), ["\ufeffa"]);
  assert.throws(() => new Tensor([new Uint8Array([0xff])]).strings(), TypeError);
});

test("scores", () => {
  const scores = new Tensor([[NaN, 1, 3, 2]]);
  assert.equal(scores.argmax(), 2);
  assert.deepEqual(scores.topK(2), [{ index: 2, value: 3 }, { index: 3, value: 2 }]);
  for (const count of [0, -1, NaN]) assert.deepEqual(scores.topK(count), []);
  assert.deepEqual(new Tensor([[0, 0], [1000, 0]]).softmax().toList(), [[0.5, 0.5], [1, 0]]);
});

test("bodies are read as they say, or are the caller's to mend", () => {
  assert.deepEqual(new Sample({ a: [1] }).json(), { a: [1] });
  assert.deepEqual([new Sample(new ArrayBuffer(1)).body, new Sample(new ArrayBuffer(1)).contentType], [new Uint8Array(1), ""]);
  assert.deepEqual(new Sample({ a: 1, b: 2 }).fields("b", "a"), [2, 1]);
  assert.deepEqual(new Sample({ a: 1.5, b: -2 }).numbers("b", "a"), [-2, 1.5]);
  for (const [sample, read, message] of [
    [new Sample("{"), (it) => it.json(), /malformed json/],
    [new Sample("\n"), (it) => it.json(), /malformed json: the body is empty/],
    [new Sample("\ufeff{}"), (it) => it.json(), /malformed json: the body begins with a byte order mark/],
    [new Sample(new Uint8Array([255])), (it) => it.text(), /not UTF-8/],
    [new Sample({ a: 1 }), (it) => it.fields("b"), /missing field `b`/],
    [new Sample([1]), (it) => it.fields("b"), /^invalid type: sequence, expected an object$/],
    [new Sample(null), (it) => it.fields("b"), /^invalid type: null, expected an object$/],
    [new Sample({ a: "x" }), (it) => it.numbers("a"), /^`a`: invalid type: string "x", expected f32$/],
    [new Sample({ a: true }), (it) => it.numbers("a"), /^`a`: invalid type: boolean `true`, expected f32$/],
    [new Sample({ a: [1] }), (it) => it.numbers("a"), /^`a`: invalid type: sequence, expected f32$/],
    [new Sample('{"a": 1e39}', "application/json"), (it) => it.numbers("a"), /^`a`: number out of range$/],
    [new Sample({ a: "x" }), (it) => it.numbers("a", "b"), /^`a`: /],
    [new Sample({ a: 1 }), (it) => it.numbers("b"), /missing field `b`/],
  ]) {
    assert.throws(() => read(sample), { name: "InvalidInput", message });
  }
});

test("responses and events are what they are made of", () => {
  const tensor = new Tensor([[1.5, NaN]]);
  for (const [response, status, contentType, text] of [
    [new Response({ tensor }), 200, "application/json", '{"tensor":[[1.5,null]]}'],
    [new Response("grüß", { status: 404 }), 404, "text/plain; charset=utf-8", "grüß"],
    [new Response(new Uint8Array([120]), { contentType: "image/png" }), 200, "image/png", "x"],
    [new Response(new Uint8Array([120]).buffer), 200, "application/octet-stream", "x"],
    [new Response(new Uint16Array([0x7978])), 200, "application/octet-stream", "xy"],
  ]) {
    assert.deepEqual([response.status, response.contentType, response.text()], [status, contentType, text]);
  }
  assert.equal(String(new Event("a\r\nb")), "data: a\ndata: b\n\n");
  assert.equal(String(new Event(undefined)), "data: null\n\n");
  assert.equal(String(new Event({ n: 1 }, { event: "x\ny", id: 7 })), 'event: xy\nid: 7\ndata: {"n":1}\n\n');
});

test("the exports speak the contract", () => {
  const exported = handler({
    init(metadata) {
      if (metadata === null) throw new Error("no metadata");
    },
    preInference: (sample, context) => new Tensor([sample.fields("a")], { name: context.header("x-name") }),
    postInference: (outputs) => ({ best: outputs.named("p").argmax() }),
    preInferenceTensors: (tensors) => {
      if (tensors.length === 0) throw new Response("early", { status: 409 });
      throw new Error("as asked");
    },
    inputs: [{ name: "a", shape: [1], example: 1 }],
  });
  const context = new Context({ headers: { "X-Name": "input" } });
  assert.throws(() => exported.init.init("null"), (error) => error.startsWith("Error: no metadata (handler.test.js:"));
  const body = new TextEncoder().encode('{"a": 1}');
  const [input] = exported.preInference.preInference({ body, contentType: "" }, context);
  assert.deepEqual([input.name, input.datatype, input.shape], ["input", "fp32", [1n, 1n]]);
  assert.throws(() => exported.preInference.preInference({ body: body.slice(1), contentType: "" }, context),
    (error) => error.tag === "invalid-input" && error.val.startsWith("malformed json"));
  const response = exported.postInference.postInference([{ ...input, name: "p" }], context);
  assert.deepEqual([response.status, response.contentType], [200, "application/json"]);
  assert.throws(() => exported.preInferenceTensors.preInferenceTensors([], context),
    (error) => error.tag === "respond" && error.val.status === 409);
  assert.throws(() => exported.preInferenceTensors.preInferenceTensors([input], context),
    (error) => error.tag === "internal" && error.val.startsWith("Error: as asked ("));
  const [declared] = exported.inputSchema.inputSchema();
  assert.deepEqual([declared.datatype, declared.shape, declared.example], ["fp32", [1n], "1"]);
  assert.throws(() => handler({ inputs: [{ name: "a" }] }), /`a` is required/);
  assert.ok(new InvalidInput("x") instanceof Error && new Tensors() instanceof Array);
});

test("asynchronous functions are waited for", async () => {
  const exported = handler({
    async init(metadata) {
      if (metadata === null) throw new Error("no metadata");
    },
    preInference: async (sample) => new Tensor([sample.json()]),
    postInference: async (outputs) => ({ outputs: outputs.length }),
    preInferenceTensors: async (tensors) => tensors,
    postInferenceTensors: async () => Promise.reject(new InvalidInput("as asked")),
  });
  assert.equal(await exported.init.init("{}"), undefined);
  await assert.rejects(exported.init.init("null"), (error) => error.startsWith("Error: no metadata ("));
  const sample = { body: new TextEncoder().encode("[1]"), contentType: "" };
  const given = await exported.preInference.preInference(sample, {});
  assert.deepEqual(given.map(({ shape }) => shape), [[1n, 1n]]);
  const response = await exported.postInference.postInference(given, {});
  assert.equal(new TextDecoder().decode(response.body), '{"outputs":1}');
  assert.deepEqual([...(await exported.preInferenceTensors.preInferenceTensors(given, {}))], [...given]);
  await assert.rejects(exported.postInferenceTensors.postInferenceTensors(given, {}), { tag: "invalid-input", val: "as asked" });
});

test("what a request held is given up at its end", async () => {
  const { hold } = await import(new URL("released.js", import.meta.resolve("modelhost-guest")));
  const given = [];
  const holding = (name, result) => () => {
    hold({ [Symbol.for("dispose")]: () => given.push(name) });
    if (result instanceof Error) throw result;
    return result;
  };
  const told = (call) => {
    try {
      call();
    } catch {
      // An error is an end, too.
    }
    return given.splice(0);
  };
  const sample = { body: new Uint8Array(), contentType: "" };
  const tensor = new Tensor([1]);
  const [raw] = handler({ preInference: () => tensor }).preInference.preInference(sample, {});

  const alone = handler({ init: holding("init"), preInference: holding("before", tensor) });
  assert.deepEqual(told(() => alone.init.init("null")), ["init"]);
  assert.deepEqual(told(() => alone.preInference.preInference(sample, {})), ["before"]);

  const failing = handler({ preInference: holding("before", new Error()), postInference: holding("behind", new Error()) });
  assert.deepEqual(told(() => failing.preInference.preInference(sample, {})), ["before"]);
  assert.deepEqual(told(() => failing.postInference.postInference([], {})), ["behind"]);

  for (const around of ["", "Tensors"]) {
    const functions = { [`preInference${around}`]: holding("before", tensor), [`postInference${around}`]: holding("behind", tensor) };
    const both = handler(functions);
    const call = (name, ...given) => told(() => both[name + around][name + around](...given));
    const body = around === "" ? sample : [raw];
    // A function behind the model may use what the one before it left, and a request need not come to it.
    assert.deepEqual(call("preInference", body, {}), []);
    assert.deepEqual(call("postInference", [raw], {}), ["before", "behind"]);
    assert.deepEqual(call("preInference", body, {}), []);
    assert.deepEqual(call("preInference", body, {}), ["before"]);
    assert.deepEqual(call("postInference", [raw], {}), ["before", "behind"]);
  }

  const later = handler({ preInference: async () => holding("later", tensor)() });
  const waited = later.preInference.preInference(sample, {});
  await waited;
  assert.deepEqual(given, ["later"]);
});
