// Values that outlive a request: in the buckets that the endpoint grants, `kv = ["default"]`.

import * as host from "modelhost:handler/kv@0.1.0";

import { Bucket } from "./bucket.js";

/**
 * A bucket: `default`, or `shared/sessions` for one that several endpoints are granted. The host is asked at its first use in
 * each request, so that a bucket may be a constant of the module.
 */
export function open(name = "default") {
  return new Bucket(name, host.open);
}

/** For tests, which have no host. */
export function forget() {
  throw new Error("only a test forgets all values");
}

export { KvError } from "./bucket.js";
