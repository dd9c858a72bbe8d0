// Jobs where there is no host: in memory, and none is run.

import { JobError, jobsOf } from "./job.js";

let stored = [];

const found = (id) => stored.find((it) => it.job.id === id);

export const { submit, get, getAnswer, cancel } = jobsOf({
  submit(wanted) {
    if (!wanted.path.startsWith("/")) throw new JobError("invalid", "the path is none: it begins with `/`");
    const key = wanted.idempotencyKey;
    const known = key === undefined ? undefined : stored.find((it) => it.submission.idempotencyKey === key);
    if (known === undefined) return added(wanted);
    const { path, body } = known.submission;
    if (path !== wanted.path || String(body) !== String(wanted.body)) throw new JobError("conflict");
    return known.job;
  },
  get: (id) => found(id)?.job,
  getAnswer: (id) => found(id)?.answer,
  cancel(id) {
    const job = found(id)?.job;
    if (job?.state === "queued") Object.assign(job, { state: "cancelled", changedMs: now() });
    return job;
  },
});

function added(submission) {
  const id = `00000000-0000-7000-8000-${String(stored.length + 1).padStart(12, "0")}`;
  const times = { submittedMs: now(), changedMs: now() };
  const job = { id, state: "queued", attempt: 0, attempts: submission.attempts ?? 3, ...times };
  stored.push({ job, submission, answer: undefined });
  return job;
}

function now() {
  return BigInt(Date.now());
}

/** What was submitted, each with the `id` of its job; times are in milliseconds. */
export function submitted() {
  return stored.map(({ job, submission }) => ({ id: job.id, ...submission, headers: Object.fromEntries(submission.headers) }));
}

/** A job ends with this answer, which fails if it is an error. */
export function finish(id, { status = 200, json = null, headers = {} } = {}) {
  const it = found(id);
  if (it === undefined) throw new Error(`no job \`${id}\` was submitted`);
  it.answer = { status, headers: Object.entries(headers), body: new TextEncoder().encode(JSON.stringify(json)) };
  Object.assign(it.job, { state: status < 400 ? "completed" : "failed", attempt: 1, status, changedMs: now() });
}

/** Forgets all jobs. */
export function forget() {
  stored = [];
}

export { Answer, JobError } from "./job.js";
