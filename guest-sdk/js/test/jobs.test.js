// Jobs without a host.

import assert from "node:assert/strict";
import test, { beforeEach } from "node:test";

import { App } from "modelhost-guest";
import * as jobs from "modelhost-guest/jobs";

const app = new App()
  .post("/train", (request) => {
    const [dataset] = request.fields("dataset");
    return { job: jobs.submit("/work?fast=1", { json: { dataset }, idempotencyKey: dataset, delay: 1.5 }).id };
  })
  .post("/state", (request) => {
    const [id] = request.fields("id");
    return [jobs.get(id).state, jobs.getAnswer(id)?.json() ?? null];
  });

const answered = async (path, json) => (await app.answer({ path, json })).json();
const fails = (kind, message, call) => assert.throws(call, { name: "JobError", kind, message });

beforeEach(() => jobs.forget());

test("an application submits and looks", async () => {
  const ids = [];
  for (const dataset of "aba") ids.push((await answered("/train", { dataset })).job);
  assert.deepEqual([ids[0], new Set(ids).size], [ids[2], 2]);
  const [first] = jobs.submitted();
  assert.deepEqual([first.path, new TextDecoder().decode(first.body)], ["/work?fast=1", '{"dataset":"a"}']);
  assert.deepEqual([first.delayMs, first.headers], [1500n, { "content-type": "application/json" }]);
  assert.deepEqual(await answered("/state", { id: ids[0] }), ["queued", null]);
  jobs.finish(ids[0], { json: { loss: 0.5 } });
  assert.deepEqual(await answered("/state", { id: ids[0] }), ["completed", { loss: 0.5 }]);
  jobs.finish(ids[1], { status: 400 });
  assert.deepEqual([jobs.get(ids[1]).state, jobs.get(ids[1]).status], ["failed", 400]);
});

test("jobs are cancelled", () => {
  const { id } = jobs.submit("/", { body: "grüß", headers: { "X-Mine": 1 } });
  assert.deepEqual(jobs.submitted()[0].headers, { "x-mine": "1", "content-type": "text/plain; charset=utf-8" });
  assert.deepEqual([jobs.cancel(id).state, jobs.get(id).state], ["cancelled", "cancelled"]);
  assert.deepEqual([jobs.get("none"), jobs.getAnswer("none"), jobs.cancel("none")], [undefined, undefined, undefined]);
  jobs.submit("/", { body: Uint8Array.of(255), headers: { "Content-Type": "x/y" } });
  assert.deepEqual(jobs.submitted()[1].headers, { "content-type": "x/y" });
  assert.throws(() => jobs.submit("/", { headers: { "X-Mine": undefined } }), TypeError);
  assert.throws(() => jobs.submit("/", { json: () => 1 }), TypeError);
  assert.ok(Math.abs(jobs.get(id).submitted - Date.now()) < 60_000);
});

test("what cannot be used is said", () => {
  jobs.submit("/", { json: 1, idempotencyKey: "k" });
  fails("conflict", /was used for another job/, () => jobs.submit("/", { json: 2, idempotencyKey: "k" }));
  fails("invalid", /the path is none/, () => jobs.submit("work"));
  fails("invalid", /`priority` is no number/, () => jobs.submit("/", { priority: -1 }));
  fails("invalid", /`attempts` is no number/, () => jobs.submit("/", { attempts: 1.5 }));
  for (const delay of [-1, NaN, Infinity]) fails("invalid", /a time of/, () => jobs.submit("/", { delay }));
  assert.throws(() => jobs.submit("/", { body: 1 }), /`json` takes others/);
  const { id } = jobs.submit();
  jobs.finish(id);
  assert.equal(jobs.getAnswer(id).json(), null);
});
