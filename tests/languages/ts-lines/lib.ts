// What the application calls. A comment at the end of a line is the name that the test has for it.

export interface Given {
  kind: string;
}

export function get(given: Record<string, string>): string {
  return given["missing"]!.trim(); // get
}
