// Jobs, of the host's store or of a test's: what both have in common.

import { bytesOf } from "./bytes.js";
import { contentOf } from "./content.js";

const TEXTS = {
  conflict: () => "the idempotency key was used for another job",
  unavailable: (text) => `the store of the jobs cannot be used: ${text}`,
};
const LONGEST = 2 ** 63;

/** Why something was not done with a job. `kind` is one of invalid, conflict, limit, unavailable. */
export class JobError extends Error {
  name = "JobError";

  constructor(kind, value) {
    super(TEXTS[kind]?.(value) ?? value);
    this.kind = kind;
  }
}

/** The answer to a job: `status`, `headers` with names in lower case, `body`. */
export class Answer {
  constructor(status, headers, body) {
    this.status = status;
    this.headers = Object.fromEntries(headers);
    this.body = bytesOf(body);
  }

  text() {
    return new TextDecoder().decode(this.body);
  }

  json() {
    try {
      return JSON.parse(this.text());
    } catch (error) {
      throw new JobError("invalid", `the answer: ${error.message}`);
    }
  }
}

/** The functions of the module, by those of the contract. */
export function jobsOf(host) {
  return {
    submit: (path = "/", options = {}) => job(asked(() => host.submit(submission(path, options)))),
    get: (id) => job(asked(() => host.get(id))),
    getAnswer: (id) => {
      const answer = asked(() => host.getAnswer(id));
      return answer === undefined ? undefined : new Answer(answer.status, answer.headers, answer.body);
    },
    cancel: (id) => job(asked(() => host.cancel(id))),
  };
}

function submission(path, { delay, wait, ...rest }) {
  return {
    path,
    ...contentOf(rest),
    priority: whole("priority", rest.priority, 255),
    delayMs: milliseconds(delay),
    waitMs: milliseconds(wait),
    attempts: whole("attempts", rest.attempts, 2 ** 32 - 1),
    webhook: rest.webhook,
    idempotencyKey: rest.idempotencyKey,
  };
}

function whole(name, number, most) {
  if (number === undefined || number === null) return undefined;
  if (Number.isInteger(number) && number >= 0 && number <= most) return number;
  throw new JobError("invalid", `\`${name}\` is no number that it can be`);
}

function milliseconds(seconds) {
  if (seconds === undefined || seconds === null) return undefined;
  const milliseconds = Math.ceil(seconds * 1000);
  if (!(milliseconds >= 0 && milliseconds < LONGEST)) throw new JobError("invalid", `a time of ${seconds} seconds`);
  return BigInt(milliseconds);
}

function job(job) {
  if (job === undefined) return undefined;
  const { submittedMs, changedMs, ...rest } = job;
  return { ...rest, submitted: new Date(Number(submittedMs)), changed: new Date(Number(changedMs)) };
}

function asked(call) {
  try {
    return call();
  } catch (error) {
    const { tag, val } = error?.payload ?? error;
    throw tag === undefined ? error : new JobError(tag, val);
  }
}
