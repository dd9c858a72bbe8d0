// Jobs of the handler's own endpoint, which has to have some, `jobs = "on"`: requests that are stored, and run later as a `POST`.

import * as host from "modelhost:handler/jobs@0.1.0";

import { jobsOf } from "./job.js";

/**
 * `submit(path, { json, body, contentType, headers, priority, delay, wait, attempts, webhook, idempotencyKey })` stores a job, and
 * gives it when it is stored. `get(id)`, `getAnswer(id)` and `cancel(id)` give undefined for what is not there.
 */
export const { submit, get, getAnswer, cancel } = jobsOf(host);

function onlyInTests() {
  throw new Error("only a test does this: the host runs the jobs");
}

export { onlyInTests as finish, onlyInTests as forget, onlyInTests as submitted };
export { Answer, JobError } from "./job.js";
