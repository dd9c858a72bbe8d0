// What a save in a project means for the component that `modelhost dev` keeps: `node FOLDER/sources.mjs HAS_INIT` in the
// project's folder.
//
// In:  FOLDER, which is `dev`'s own, below the project's `.modelhost` with the configuration of the bundler and beside `runner.js`;
//      whether the project's world has `init`.
// Out: FOLDER/sources, the handler and what it imports as one text; FOLDER/made.js, what the component is made of.
//      On stdout `kept` if the component does for it, `new` if it has to be made, `none` if it is too long for one.

import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { rolldown } from "rolldown";
import config from "../rolldown.config.mjs";

/** Room for sources: the least and the most. */
const [LEAST, MOST] = [1 << 20, 16 << 20];
const HEADER = 24;
const at = (name) => new URL(name, import.meta.url);

async function looked() {
  let output;
  try {
    output = await bundled("cjs");
  } catch (error) {
    // As a module it may be right: one that awaits.
    await bundled("esm").catch(() => {
      throw error;
    });
    return "none";
  }
  const size = Buffer.byteLength(output[0].code) + HEADER;
  if (output.length > 1 || size > MOST) return "none";
  writeFileSync(at("sources"), output[0].code);

  const imports = output[0].imports;
  const [made, component] = [at("made.js"), at("runner.wasm")];
  if (existsSync(made)) {
    const [, kept] = readFileSync(made, "utf8").match(/^\/\/ (.*)/);
    const { room, imports: had } = JSON.parse(kept);
    if (size <= room && imports.every((it) => had.includes(it))) return existsSync(component) ? "kept" : "new";
  }
  let room = LEAST;
  while (room < 2 * size) room *= 2;
  rmSync(component, { force: true });
  const text = [
    `// ${JSON.stringify({ room, imports })}`,
    ...imports.map((name, n) => `import * as import${n} from ${JSON.stringify(name)};`),
    `const IMPORTS = { ${imports.map((name, n) => `${JSON.stringify(name)}: import${n}`).join(", ")} };`,
    `const ROOM = ${room}, HAS_INIT = ${process.argv[2]};`,
    readFileSync(at("runner.js"), "utf8"),
  ];
  writeFileSync(made, text.join("\n"));
  return "new";
}

async function bundled(format) {
  const bundle = await rolldown(config);
  try {
    return (await bundle.generate({ ...config.output, format })).output;
  } finally {
    await bundle.close();
  }
}

/** What the bundler says, its cause and the place on the first line. */
function told(error) {
  const text = error.message.replace(/^Build failed.*\n+/, "").replace(/^ +at .*\n?/gm, "");
  const first = text.split("\n")[0].replace(/^Error: /, "").replace("[PARSE_ERROR]", "SyntaxError:");
  const place = text.match(/─\[ (.*?) \]/)?.[1];
  return `${first}${place ? ` (${place})` : ""}\n\n${text}`;
}

try {
  console.log(await looked());
} catch (error) {
  console.error(told(error));
  process.exitCode = 1;
}
