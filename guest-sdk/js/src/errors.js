// Errors that are the caller's to mend.

/** The caller sent something unusable: 400 with this text, which the caller reads. */
export class InvalidInput extends Error {
  name = "InvalidInput";
}
