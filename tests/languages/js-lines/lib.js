// What the application calls. A comment at the end of a line is the name that the test has for it.

export function get(given) {
  return given.missing.more; // get
}

export function deep(number) {
  return 1 + deep(number + 1); // deep
}
