// Timers that a call leaves.

import assert from "node:assert/strict";
import test from "node:test";

// A file of the package's that handlers do not import.
const { accountOf } = await import(new URL("timers.js", import.meta.resolve("modelhost-guest")));

test("timers that are left are cleared", () => {
  const set = new Map();
  let last = 0;
  const setting = (call, ms, ...values) => {
    set.set(++last, () => call(...values));
    return last;
  };
  const clearing = (timer) => set.delete(timer);
  const scope = { setTimeout: setting, setInterval: setting, clearTimeout: clearing, clearInterval: clearing };
  const clear = accountOf(scope);
  const ran = [];
  const timers = [scope.setTimeout((...values) => ran.push(values), 1, "a", "b"), scope.setInterval(() => ran.push("every"), 1)];
  timers.forEach((timer) => set.get(timer)());
  assert.deepEqual(ran, [["a", "b"], "every"]);
  scope.setTimeout(() => {}, 1);
  scope.clearInterval(scope.setInterval(() => {}, 1));
  assert.deepEqual([...set.keys()], [1, 2, 3]);
  clear();
  // The first one has run: its number may be another's by now.
  assert.deepEqual([...set.keys()], [1]);
});
