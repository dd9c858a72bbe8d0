// What the host says when a model does not answer.

const TEXTS = {
  "no-such-model": (name) => `the endpoint has no model \`${name}\``,
  overloaded: () => "the model has no place for another run",
  "timed-out": () => "the model has not answered in time",
  failed: (text) => `the model failed: ${text}`,
};

/** `kind` is one of no-such-model, invalid-input, overloaded, timed-out, failed, limit. */
export class ModelError extends Error {
  name = "ModelError";

  constructor(kind, value) {
    super(TEXTS[kind]?.(value) ?? value);
    this.kind = kind;
  }
}

/** What a function of the host gives, or its error as one of ours. */
export function asked(call) {
  try {
    return call();
  } catch (error) {
    const { tag, val } = error?.payload ?? error;
    throw tag === undefined ? error : new ModelError(tag, val);
  }
}
