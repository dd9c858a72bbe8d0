// Forms and headers without a host: the bodies of browsers and of curl, what is refused, what the platform's requests have.

import assert from "node:assert/strict";
import test from "node:test";

import { App, Part, Response, Sample, UnsupportedMediaType, serve } from "modelhost-guest";
import { body as mended } from "../node_modules/modelhost-guest/src/platform.js";

const TYPE = "multipart/form-data; boundary=XX";
const HEAD = 'Content-Disposition: form-data; name="a"';
const lines = (text) => text.replaceAll("\n", "\r\n");
const parts = (text, type = TYPE) => new Sample(new TextEncoder().encode(lines(text)), type).multipart();
const shown = (text, type) => parts(text, type).map((part) => [part.name, part.filename, part.contentType, part.text()]);

test("parts are found", () => {
  const two =
    'preamble\n--XX\nContent-Disposition: form-data; name="title"\n\nhello\n--XX  \ncontent-type: image/png\n' +
    'Content-Disposition: form-data; name=file; filename="a \\"b\\".png"\n\n--X\n\n--XXY\n--XX--\nepilogue';
  assert.deepEqual(shown(two), [
    ["title", undefined, "text/plain", "hello"],
    ["file", 'a "b".png', "image/png", "--X\r\n\r\n--XXY"],
  ]);
  assert.deepEqual(shown("--a b--", 'Multipart/Form-Data; boundary="a b"'), []);
  const named = (more) => parts(`--XX\n${HEAD}${more}\n\n1\n--XX--`)[0].filename;
  assert.equal(named('; filename="a%22%0D%0A%20.txt"'), 'a"\r\n%20.txt');
  assert.equal(named("; filename=x; filename*=utf-8'de'%C3%BC%2F.txt"), "ü/.txt");
  assert.equal(named("; filename*=ISO-8859-1''%FC"), "ü");
  const part = parts(`--XX\n${HEAD}; filename=""\n\n\n--XX--`)[0];
  assert.ok(part instanceof Part && part.filename === "" && part.body.length === 0);
  assert.throws(() => new Part("a", undefined, "", new Uint8Array([255])).text(), /the part `a` is not UTF-8/);
});

test("what is no form is refused", async () => {
  for (const [text, expected] of [
    ["", "no boundary is in the body"],
    ["--XXY\n", "no boundary is in the body"],
    ["--XX\n", "the last boundary is missing"],
    [`--XX\n${HEAD}\n\nhello\n--XX`, "the last boundary is missing"],
    [`--XX\n${HEAD}\n--XX--`, "no end of a part's headers within 8192 bytes"],
    [`--XX\n${HEAD}\nx: ${"y".repeat(9000)}\n\nbody\n--XX--`, "no end of a part's headers within 8192 bytes"],
    ["--XX\n\nhello\n--XX--", "a part without `content-disposition: form-data; name=…`"],
    ["--XX\nnonsense\n\n\n--XX--", "a header without a colon"],
    [`--XX\n${HEAD}; filename*=UTF-8''%FF\n\n\n--XX--`, "a `filename*` that is not `UTF-8''` and a name with percent signs"],
  ]) {
    assert.throws(() => parts(text), { name: "InvalidInput", message: `malformed multipart: ${expected}` }, text);
  }
  const many = (count) => `--XX\n${HEAD}\n\n1\n`.repeat(count) + "--XX--";
  assert.equal(parts(many(1000)).length, 1000);
  assert.throws(() => parts(many(1001)), { message: "more than 1000 parts" });
  assert.throws(() => parts("", "text/plain"), UnsupportedMediaType);
  const app = new App()
    .post("/files", (request) => request.multipart().map(({ name }) => name))
    .post("/form", (request) => [...request.form()])
    .batch("/batch", (requests) => requests.map((request) => request.multipart().length));
  const answer = await app.answer({ path: "/files", body: "", contentType: "text/plain" });
  const wrong = "expected `multipart/form-data`, got `text/plain`";
  const refused = { error: wrong, code: "unsupported_media_type", stage: "pre_inference", request_id: "test" };
  assert.deepEqual([answer.status, answer.json()], [415, refused]);
  assert.equal((await app.answer({ path: "/batch", body: "", contentType: "text/plain" })).status, 415);
  const form = await app.answer({ path: "/form", body: "a=b+c&a=%C3%BC", contentType: "application/x-www-form-urlencoded" });
  assert.deepEqual(form.json(), [["a", "b c"], ["a", "ü"]]);
});

test("a header may have several values, and no other than texts", async () => {
  const app = new App()
    .get("/", () => new Response("", { headers: { "set-cookie": ["a=1", "b=2"], "x-n": 3 } }).append("set-cookie", "c=3"))
    .get("/pairs", () => new Response("", { headers: [["set-cookie", "a=1"], ["set-cookie", "b=2"]] }));
  assert.deepEqual((await app.answer({ method: "GET" })).headers, { "set-cookie": ["a=1", "b=2", "c=3"], "x-n": "3" });
  assert.deepEqual((await app.answer({ method: "GET", path: "/pairs" })).headers, { "set-cookie": ["a=1", "b=2"] });
  for (const [options, expected] of [
    [{ headers: { "x-a": { b: 1 } } }, /the header `x-a` is map, expected text or a list of texts/],
    [{ headers: { "x-a": undefined } }, /the header `x-a` is undefined/],
    [{ status: "200" }, /the status is string "200", expected a number/],
    [{ contentType: ["text/plain"] }, /the content type is sequence, expected text/],
  ]) {
    assert.throws(() => new Response("", options), expected);
  }
});

test("the platform's requests have forms with files", async () => {
  const form = new FormData();
  form.append("title", "hé");
  form.append("file", new File([new Uint8Array([97, 255, 0])], 'a"ü.bin', { type: "image/png" }));
  const given = new globalThis.Request("http://a/", { method: "POST", body: form });
  const read = (name) => mended[name].call(given.clone());
  const found = await read("formData");
  assert.equal(found.get("title"), "hé");
  const file = found.get("file");
  assert.deepEqual([file.name, file.type, file.size], ['a"ü.bin', "image/png", 3]);
  assert.deepEqual([...new Uint8Array(await file.arrayBuffer())], [97, 255, 0]);
  const fields = new globalThis.Request("http://a/", { method: "POST", body: new URLSearchParams({ a: "b c" }) });
  assert.equal((await mended.formData.call(fields)).get("a"), "b c");
  const plain = new globalThis.Response(new Uint8Array([97, 0xff]), { headers: { "content-type": "text/plain" } });
  assert.equal(await mended.text.call(plain.clone()), "a\ufffd");
  assert.equal((await mended.blob.call(plain.clone())).type, "text/plain");
  await assert.rejects(mended.formData.call(plain), { name: "UnsupportedMediaType" });
  assert.deepEqual(await mended.json.call(new globalThis.Response("\ufeff[1]")), [1]);
  assert.equal(typeof serve(() => undefined).respond, "object");
});
