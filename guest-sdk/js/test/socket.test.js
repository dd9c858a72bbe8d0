// WebSockets without a host.

import assert from "node:assert/strict";
import test from "node:test";

import { App, InvalidInput, Response, converse, handler, serve } from "modelhost-guest";

function loud(socket, request) {
  if (!socket.protocols.includes("loud")) throw new Response("too quiet", { status: 403 });
  socket.accept("loud");
  for (const message of socket) {
    if (message === "stop") socket.close(4000, "stopped");
    else assert.ok(socket.send(typeof message === "string" ? `${request.path} ${message.toUpperCase()}` : message));
  }
  if (socket.closed.code === 4000) assert.equal(socket.send("late"), false);
}

const app = new App().websocket("/rooms/{room}", async (socket, { params: { room } }) => {
  if (room === "none") throw new InvalidInput("no such room");
  for (let value = socket.receiveJson(); value !== undefined; value = socket.receiveJson({ timeout: 1 })) {
    socket.sendJson({ [room]: await value });
  }
});

test("what is said is kept", async () => {
  const headers = { "sec-websocket-protocol": "soft, loud" };
  const said = await converse(loud, ["a", new Uint8Array([1])], { path: "/x", headers });
  assert.deepEqual(said, { sent: ["/x A", new Uint8Array([1])], protocol: "loud" });
  const stopped = await converse(loud, ["a", "stop", "b"], { headers });
  assert.deepEqual([stopped.sent, stopped.close], [["/ A"], { code: 4000, reason: "stopped" }]);
  const refused = await converse(loud, ["a"]);
  assert.deepEqual([refused.refusal.status, refused.sent], [403, []]);
  assert.deepEqual(await converse(() => {}), { sent: [], protocol: undefined });
});

test("an application has paths", async () => {
  assert.deepEqual((await converse(app, ["1", '{"a":null}'], { path: "/rooms/b" })).sent, ['{"b":1}', '{"b":{"a":null}}']);
  const { refusal } = await converse(app, [], { path: "/rooms/none" });
  assert.deepEqual([refusal.status, refusal.json()],
    [400, { error: "no such room", code: "invalid_input", stage: "pre_inference", request_id: "test" }]);
  assert.equal((await converse(app, [], { path: "/other" })).refusal.status, 404);
});

test("what is wrong is thrown", async () => {
  for (const [talk, name, message] of [
    [(socket) => socket.send(1), "TypeError", /a text or bytes, and not number/],
    [(socket) => socket.close(1005), "RangeError", /code 1005 is not one that is sent/],
    [(socket) => socket.accept("x"), "RangeError", /no subprotocol `x`/],
    [(socket) => [socket.accept(), socket.accept()], "Error", /open already/],
    [(socket) => { socket.accept(); throw new InvalidInput("too late"); }, "InvalidInput", /too late/],
  ]) {
    await assert.rejects(converse(talk), { name, message });
  }
});

test("a handler has the export if it has the function", () => {
  for (const exported of [handler({ websocket: loud }), serve(() => {}, { websocket: loud }), app.exports()]) {
    assert.equal(typeof exported.websocket.websocket, "function");
  }
  for (const exported of [handler({}), serve(() => {}), new App().exports()]) assert.equal("websocket" in exported, false);
});
