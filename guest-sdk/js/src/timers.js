// Timers of a call, which end with it: one that is left would run in another client's request.

/** Keeps account of the timers that are set by the functions of `scope` from now on. What is returned clears those that are left. */
export function accountOf(scope) {
  const left = new Set();
  const wrap = (name, wrapped) => (scope[name] = wrapped(scope[name]));
  const setting = (ends) => (set) => (call, ...rest) => {
    const timer = set((...values) => {
      if (ends) left.delete(timer);
      call(...values);
    }, ...rest);
    left.add(timer);
    return timer;
  };
  const clearing = (clear) => (timer) => {
    left.delete(timer);
    clear(timer);
  };
  wrap("setTimeout", setting(true));
  wrap("setInterval", setting(false));
  wrap("clearTimeout", clearing);
  wrap("clearInterval", clearing);
  return () => left.forEach(scope.clearTimeout);
}

/** Clears the timers that a call has left; those of a test outside a component are the test's. */
export const clearTimers = globalThis.process?.versions?.node === undefined ? accountOf(globalThis) : () => {};
