// What the log is told of an error: a line with the project's own place, then the frames of the project's files, and what caused it.
//
// The bundle has a table of lines (`modelhost build` makes it), since an engine knows only the bundle's. Without, as in a test, the
// place is the engine's. Nothing of it runs before something is thrown that is not the caller's mistake.

const LINES = Symbol.for("modelhost:lines");
/** Under this name the loader of a bundle finds `toldOf`. */
const TOLD = "modelhost:told";
/** A frame of the bundle's, as either engine writes it: `name@…:LINE:COLUMN`, `at name (…:LINE:COLUMN)`. */
const FRAME = /^(?:\s*at )?(?:(.*?)(?:@| \())?[^@()]*?handler\.js:(\d+):(\d+)\)?$/;
/** Most characters of a line, frames of an error, errors, and characters of all; the host keeps 4 KiB. */
const [LONGEST, FRAMES, ERRORS, MOST] = [1000, 20, 6, 2500];

/** An error for the log. */
export function said(error) {
  return [line(error), frames(error)].filter(Boolean).join("\n");
}

/** An error of `init`: its line. Its frames are printed: they are no part of why a handler is refused. */
export function saidOfInit(error) {
  const printed = frames(error);
  if (printed) console.error(printed);
  return line(error);
}

if (globalThis[LINES]) globalThis[TOLD] = saidOfInit;

/** An error on one line: what, and the line of the project's that is nearest to where it was thrown. */
function line(error) {
  const own = framesOf(error)?.[0]?.place ?? (globalThis[LINES] ? undefined : /([\w.-]+\.[jt]s:\d+)/.exec(stackOf(error))?.[1]);
  const text = cut(textOf(error).replace(/\s+/g, " "));
  return own === undefined ? text : `${text} (${own})`;
}

/** The frames of the project's files, the nearest first, then those of its causes; empty if there are none. */
function frames(error) {
  if (!globalThis[LINES]) return "";
  const told = [];
  const seen = new Set();
  const add = (one) => {
    if (one === undefined || one === null || seen.has(one) || seen.size === ERRORS) return;
    if (seen.size > 0) told.push(`Caused by: ${cut(textOf(one).replace(/\s+/g, " "))}`);
    seen.add(one);
    told.push(...folded(framesOf(one) ?? []));
    for (const cause of [one.cause, ...(one instanceof AggregateError ? one.errors : [])]) add(cause);
  };
  add(error);
  const text = told.join("\n");
  return text.length > MOST ? `${text.slice(0, MOST)}…` : text;
}

/** Frames as lines, those that repeat as a number. */
function folded(found) {
  const lines = [];
  for (const { name, place } of found) {
    const text = `    at ${name ? `${name} (${place})` : place}`;
    if (lines.at(-1)?.text === text) lines.at(-1).times += 1;
    else lines.push({ text, times: 1 });
  }
  const shown = lines.slice(0, FRAMES).flatMap((it) => (it.times > 3 ? [it.text, `    … ${it.times - 1} times more`] : Array(it.times).fill(it.text)));
  const left = lines.length - FRAMES;
  return left > 0 ? [...shown, `    … ${left} more`] : shown;
}

/** The frames of an error that are in the project's files: `name` and `place`. Undefined without a table. */
function framesOf(error) {
  const table = globalThis[LINES];
  if (!table) return undefined;
  const byLine = (table.byLine ??= read(table));
  return stackOf(error).split("\n").flatMap((text) => {
    const [, name = "", line, column] = FRAME.exec(text) ?? [];
    const rows = byLine.get(Number(line));
    if (!rows) return [];
    const row = rows.findLast((it) => it.column < Number(column)) ?? rows[0];
    return [{ name: name.replace(/^async\*|^<anonymous>$|[/<]+$/g, ""), place: `${table.files[row.file]}:${row.line}` }];
  });
}

/** The rows of each line of the bundle that has some. */
function read({ rows }) {
  const byLine = new Map();
  let [at, column, file, line] = [0, 0, 0, 0];
  for (const row of rows ? rows.split(";") : []) {
    const [lines, columns, files, linesOn] = row.split(",").map(Number);
    at += lines;
    column = lines === 0 ? column + columns : columns;
    file += files;
    line += linesOn;
    if (!byLine.has(at)) byLine.set(at, []);
    byLine.get(at).push({ column, file, line });
  }
  return byLine;
}

function stackOf(error) {
  return error instanceof Error && typeof error.stack === "string" ? error.stack : "";
}

function textOf(error) {
  // QuickJS has no memory left for an error then.
  if (error === null) return "null, which is also thrown when there is no memory for an error";
  return error instanceof Error ? `${error.name}: ${error.message}` : String(error);
}

function cut(text) {
  return text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
}
