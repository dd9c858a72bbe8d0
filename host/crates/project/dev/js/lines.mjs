// Which line of the project's own files a line of the bundle is: a table, at the beginning of the bundle.
//
// In:  the bundle's source map. Out: one statement, for the first line of the bundle, so that its lines keep their numbers:
//      `files`, and `rows` of four numbers (line of the bundle, its column, number of the file, its line), each as the
//      difference from the row before; where the line is another, the column counts from 0.
// `modelhost-guest` reads it when an error is told (src/traces.js). Lines of packages and of the SDK have no row.

const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/** The statement, of a source map; `named` gives the name of a source, or undefined if it is none of the project's. */
export function lineTable({ mappings, sources }, named) {
  const files = [];
  const numbers = sources.map((source) => {
    const name = named(source);
    return name === undefined ? -1 : files.push(name) - 1;
  });
  const rows = [];
  let last = [0, 0, 0, 0];
  let [source, original] = [0, 0];
  mappings.split(";").forEach((segments, line) => {
    let column = 0;
    let before = "";
    for (const segment of segments ? segments.split(",") : []) {
      const [columns, sourcesOn, linesOn] = numbersOf(segment);
      column += columns;
      if (sourcesOn === undefined) continue;
      source += sourcesOn;
      original += linesOn;
      const file = numbers[source];
      if (file < 0 || before === `${file}:${original}`) continue;
      before = `${file}:${original}`;
      const row = [line + 1, column, file, original + 1];
      rows.push(row.map((it, at) => (at === 1 && row[0] !== last[0] ? it : it - last[at])).join());
      last = row;
    }
  });
  const table = { files, rows: rows.join(";") };
  return `globalThis[Symbol.for("modelhost:lines")]=${JSON.stringify(table)};`;
}

/** The numbers of a segment, each of digits of six bits, the lowest first, of which the highest bit says that one follows. */
function numbersOf(segment) {
  const numbers = [];
  let [number, shift] = [0, 0];
  for (const letter of segment) {
    const digit = DIGITS.indexOf(letter);
    number |= (digit & 31) << shift;
    shift += 5;
    if (digit & 32) continue;
    numbers.push(number & 1 ? -(number >>> 1) : number >>> 1);
    [number, shift] = [0, 0];
  }
  return numbers;
}
