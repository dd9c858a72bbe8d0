// Errors that are the caller's to mend.

/** The caller sent something unusable: 400 with this text, which the caller reads. */
export class InvalidInput extends Error {
  name = "InvalidInput";
  #sample;

  constructor(message, sample) {
    super(message);
    this.#sample = sample;
  }

  /** Whose body could not be read, if that is what went wrong. */
  get sample() {
    return this.#sample;
  }
}

/** The body is of another type than is asked for: 415 with this text. */
export class UnsupportedMediaType extends InvalidInput {
  name = "UnsupportedMediaType";
}
