// An error of each kind, by the request's `kind`. A comment at the end of a line is the name that the test has for it.

import { App, InvalidInput } from "modelhost-guest";
import { deep, get } from "./lib.js";

export default new App()
  .post("/kinds", (request) => KINDS[request.json().kind]()) // kinds
  .post("/async", async () => {
    await null;
    get({}); // async
  })
  .get("/stream", function* () {
    yield "begun";
    get({}); // stream
  })
  .background("/background", () => get({})) // background
  .batch("/batch", (requests) => requests.map(() => get({}))); // batch

const KINDS = {
  own() {
    throw new RangeError("of my own\nin two lines"); // own
  },
  helper() {
    return get({}); // helper
  },
  library() {
    return JSON.parse("{nope"); // library
  },
  recursion() {
    return deep(0); // recursion
  },
  cause() {
    try {
      get({}); // tried
    } catch (error) {
      throw new Error("while it was read", { cause: error }); // cause
    }
  },
  memory() {
    const all = [];
    for (;;) all.push(new Uint8Array(1 << 20)); // memory
  },
  caller() {
    throw new InvalidInput("not this");
  },
  loop() {
    for (;;);
  },
};
