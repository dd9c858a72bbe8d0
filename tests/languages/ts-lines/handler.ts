// An error of each kind, by the request's `kind`. A comment at the end of a line is the name that the test has for it.

import { App, type Request } from "modelhost-guest";
import { get, type Given } from "./lib.js";

enum Kind {
  Own = "own",
  Helper = "helper",
}

function kinds(request: Request): string {
  const { kind } = request.json() as Given;
  if (kind === Kind.Own) {
    throw new RangeError("of my own\nin two lines"); // own
  }
  return get({}); // helper
}

export default new App().post("/kinds", kinds);
