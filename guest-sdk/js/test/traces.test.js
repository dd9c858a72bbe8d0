// What the log is told of an error in a bundle: places of the project's files, whichever engine wrote the stack.

import assert from "node:assert/strict";
import test from "node:test";

// A file of the package's that handlers do not import.
const { said, saidOfInit } = await import(new URL("traces.js", import.meta.resolve("modelhost-guest")));

const LINES = Symbol.for("modelhost:lines");

/** With the table of a bundle: lines 10 to 12 are lib.js's from 4, line 20 has two of handler.ts. */
function inBundle(call) {
  globalThis[LINES] = { files: ["lib.js", "handler.ts"], rows: "10,0,0,4;1,1,0,1;1,0,0,1;8,1,1,2;0,8,0,-3" };
  try {
    return call();
  } finally {
    delete globalThis[LINES];
  }
}

function thrown(stack, more = {}) {
  return Object.assign(new TypeError("it is\nundefined"), { stack, ...more });
}

const STACKS = {
  SpiderMonkey: "get@handler.js:11:5\ncall</<@handler.js:20:3\nasync*@handler.js:20:12\nserve@handler.js:500:1\n",
  QuickJS: "    at get (handler.js:11:5)\n    at call (handler.js:20:3)\n    at <anonymous> (handler.js:20:12)\n    at serve (handler.js:500:1)\n    at map (native)\n",
};

for (const [engine, stack] of Object.entries(STACKS)) {
  test(`an error of ${engine} names lines of the project`, () => {
    const frames = ["    at get (lib.js:5)", "    at call (handler.ts:8)", "    at handler.ts:5"];
    assert.deepEqual(inBundle(() => said(thrown(stack))).split("\n"), ["TypeError: it is undefined (lib.js:5)", ...frames]);
    const error = thrown("outer@handler.js:12:1\n", { cause: thrown(stack) });
    const told = ["TypeError: it is undefined (lib.js:6)", "    at outer (lib.js:6)", "Caused by: TypeError: it is undefined", ...frames];
    assert.deepEqual(inBundle(() => said(error)).split("\n"), told);
  });
}

test("what is told is bounded", () => {
  const repeated = thrown("get@handler.js:11:5\n".repeat(100));
  assert.deepEqual(inBundle(() => said(repeated)).split("\n").slice(1), ["    at get (lib.js:5)", "    … 99 times more"]);
  const many = thrown("get@handler.js:11:5\nset@handler.js:12:5\n".repeat(100));
  assert.match(inBundle(() => said(many)), /\n    … 180 more$/);
  const long = thrown(STACKS.QuickJS);
  long.message = "x".repeat(9000);
  long.cause = Object.assign(thrown(STACKS.QuickJS), { cause: long, message: "y".repeat(9000) });
  assert.ok(inBundle(() => said(long)).length < 4096);
});

test("without frames of the project there is no place", () => {
  for (const [error, expected] of [
    [thrown("serve@handler.js:500:1\n"), "TypeError: it is undefined"],
    [thrown(undefined), "TypeError: it is undefined"],
    ["a text", "a text"],
    [{ a: 1 }, "[object Object]"],
  ]) {
    assert.equal(inBundle(() => said(error)), expected);
  }
});

test("in a test the place is the engine's", () => {
  assert.match(said(new RangeError("of my own")), /^RangeError: of my own \(traces\.test\.js:\d+\)$/);
});

test("init says the line, and prints the frames", (context) => {
  const printed = context.mock.method(console, "error", () => {});
  assert.equal(inBundle(() => saidOfInit(thrown(STACKS.QuickJS))), "TypeError: it is undefined (lib.js:5)");
  assert.match(printed.mock.calls[0].arguments[0], /^    at get \(lib\.js:5\)\n/);
});
