// The module that `modelhost dev` makes a component of, once: it runs a bundle that is written into the component later.
//
// In:  IMPORTS, by their names, what the bundle imports from the host; ROOM, how much room it has; HAS_INIT, whether the
//      project's world has `init`. They stand before this text.
// Out: the exports of the contract, each of which calls that of the project's handler. `init` runs the bundle first; the host
//      keeps the memory that it leaves, so that no request pays for it.
// The bundle is in `slot`, whose bytes lie in the component as one piece: a mark, their length, and a text.

// In two pieces, so that the whole mark is nowhere but there.
const slot = new Uint8Array(ROOM).fill(0xa5);
[..."modelhos"].forEach((c, at) => (slot[at] = c.charCodeAt()));
[..."t-slot-\x01"].forEach((c, at) => (slot[at + 8] = c.charCodeAt()));

/** The functions that the world has of each interface: the builder looks for those. */
const wanted = new Map();
let exported;

function run() {
  const length = Number(new DataView(slot.buffer).getBigUint64(16, true));
  const text = new TextDecoder().decode(slot.subarray(24, 24 + length));
  const module = { exports: {} };
  const required = (name) => {
    if (name in IMPORTS) return IMPORTS[name];
    throw new Error(`no module \`${name}\``);
  };
  // On one line with the first of the bundle's, so that lines have the bundle's numbers.
  (0, eval)(`(function (require, exports, module) { "use strict"; ${text}\n})\n//# sourceURL=handler.js`)(required, module.exports, module);
  for (const [name, functions] of wanted) {
    if (name === "init" && !HAS_INIT) continue;
    const found = module.exports[name];
    const missing = found ? functions.find((it) => typeof found[it] !== "function") : "";
    if (missing !== undefined) {
      const what = missing ? `a function "${missing}" in "${name}"` : `a "${name}" interface`;
      throw new Error(`"handler.js" does not export ${what} as expected by the world`);
    }
  }
  return module.exports;
}

function delegating(name) {
  const delegate = (method) => {
    if (typeof method !== "string") return undefined;
    if (!wanted.has(name)) wanted.set(name, []);
    wanted.get(name).push(method);
    return (...given) => exported[name][method](...given);
  };
  return new Proxy({}, { get: (_, method) => delegate(method) });
}

export const preInference = delegating("preInference");
export const postInference = delegating("postInference");
export const preInferenceTensors = delegating("preInferenceTensors");
export const postInferenceTensors = delegating("postInferenceTensors");
export const inputSchema = delegating("inputSchema");
export const operations = delegating("operations");
export const respond = delegating("respond");
export const websocket = delegating("websocket");
export const init = {
  init(metadata) {
    try {
      exported = run();
    } catch (error) {
      // Of the SDK, which knows the lines of the project's files.
      const told = globalThis["modelhost:told"];
      if (told) throw told(error);
      const stack = String(error?.stack ?? "");
      const line = stack.match(/handler\.js[^\n]*?:(\d+):\d+/);
      console.error(`${error}\n${stack}`);
      throw `${error}${line ? ` (.modelhost/handler.js:${line[1]})` : ""}`;
    }
    if (HAS_INIT) exported.init.init(metadata);
  },
};
