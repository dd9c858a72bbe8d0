//! JavaScript and TypeScript, by rolldown, which makes one file of the handler and what it imports, and jco,
//! both in the project's `node_modules`; or, on QuickJS, by rolldown and `quickjs.rs`.

mod lines;

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, ensure};
use serde_json::Value;

use super::quickjs::camel;
use super::runner::{self, Runner};
use super::tool::Interrupted;
use super::world::{self, World};
use super::{JsEngine, Project, announce, cause_first, quickjs};
use crate::text::similar;
use crate::values::list;
use crate::{CONFIG, file};

const MANIFEST: &str = "package.json";
const SOURCE: &str = "handler.js";
const TYPED_SOURCE: &str = "handler.ts";
/// The file that rolldown makes of them.
const BUNDLED: &str = "handler.js";
/// The names that it imports and exports, as the bundler says.
const SURFACE: &str = "bundle.json";
/// The bundler's configuration. Imports from the host and from libraries stay, `NAMESPACE:PACKAGE/INTERFACE`;
/// `modelhost` chooses the side of a package that is for the component.
const BUNDLE: &str = r#"import { readFileSync, writeFileSync } from "node:fs";
import { dirname, relative, resolve } from "node:path";
import { lineTable } from "./lines.mjs";

// The SDK exports an application that is the default export, as far as the text has the names.
let input = "SOURCE";
const text = readFileSync(input, "utf8");
const isNamed = /\b(respond|preInference|postInference|preInferenceTensors)\b/.test(text);
if (/^export\s+default\b/m.test(text) && !isNamed) {
  const names = ["operations", "respond"];
  if (/\binit\b/.test(text)) names.push("init");
  if (/\bwebsocket\b/.test(text)) names.push("websocket");
  if (/\.batch\b/.test(text)) names.push("respondAll");
  input = "./.modelhost/entry.js";
  const lines = [
    'import handler from "../SOURCE";',
    'import { exportsOf } from "modelhost-guest";',
    `export const { ${names.join(", ")} } = exportsOf(handler);`,
  ];
  writeFileSync(input, `${lines.join("\n")}\n`);
}

export default {
  input,
  external: /^(?!node:|data:|file:|https?:)[a-z][a-z0-9-]*:[a-z][a-z0-9-]*\/[a-z]/,
  platform: "neutral",
  resolve: {
    conditionNames: ["modelhost", "import", "default"],
    extensionAlias: { ".js": [".ts", ".js"] },
    mainFields: ["module", "main"],
  },
  output: { file: ".modelhost/handler.js", format: "esm", sourcemap: "hidden" },
  plugins: [
    {
      name: "modelhost",
      generateBundle(options, bundle) {
        const { imports, exports, modules } = Object.values(bundle).find((it) => it.isEntry);
        const own = Object.entries(modules).filter(([id]) => !/modelhost-guest|node_modules/.test(id));
        const text = own.map(([, module]) => module.code).join("\n");
        const calls = ["init", "websocket", "batch"].filter((name) => text.includes(`.${name}(`));
        writeFileSync(".modelhost/bundle.json", JSON.stringify({ imports, exports, calls }));
        // What an error's line is in the project's files. The map itself is not kept.
        const named = (source) => {
          const name = relative(".", resolve(dirname(options.file), source));
          return /modelhost-guest|node_modules|\.modelhost/.test(name) ? undefined : name;
        };
        for (const [name, it] of Object.entries(bundle)) {
          if (it.type === "chunk" && it.map) it.code = lineTable(it.map, named) + it.code;
          else if (name.endsWith(".map")) delete bundle[name];
        }
      },
    },
  ],
  // It would stay an import of the component.
  onLog(_level, log) {
    if (log.code === "UNRESOLVED_IMPORT") throw new Error(log.message);
  },
};
"#;
/// The parts of the SDK, as its package names them.
const SUBPATHS: [&str; 9] =
    ["blobs", "image", "jobs", "kv", "metrics", "models", "outbound", "tensor", "tokenizer"];
/// Methods of an application, and the exports that serve them.
const OF_AN_APPLICATION: [(&str, &str); 3] =
    [("init", "init"), ("websocket", "websocket"), ("batch", "respondAll")];
/// The first of Node's versions that jco runs on.
const LEAST_NODE: u32 = 20;
const NO_NODE: &str = "https://nodejs.org installs Node and npm; Debian: apt install nodejs npm";
const NO_BUNDLER: &str = "package.json has to name `rolldown`, as `\"1.3.2\"` under `devDependencies`";
const NO_FUNCTION: &str = "`export const { preInference, postInference } = handler({ … })`, or of an application `export default app`, or `export const \
     { operations, respond } = app.exports()`";
const NO_TYPES: &str = "package.json has to name `typescript`, as `\"5.9.3\"` under `devDependencies`";
const NO_BUILDER: &str =
    "package.json has to name `@bytecodealliance/jco`, as `\"1.34.0\"` under `devDependencies`";

/// The table of lines, which the configuration imports.
const LINES: (&str, &str) = ("lines.mjs", include_str!("../../dev/js/lines.mjs"));
/// The module of the component that `dev` keeps, and what makes the bundle that is written into it.
const RUNNER: &str = include_str!("../../dev/js/runner.js");
const SOURCES: &str = include_str!("../../dev/js/sources.mjs");

/// See [`super::Builder`].
pub(super) fn build(project: &Project) -> anyhow::Result<PathBuf> {
    let version = project.finish(project.command("node").arg("--version"), NO_NODE, str::to_owned)?;
    let version = String::from_utf8_lossy(&version.stdout).trim().to_owned();
    let major = version.trim_start_matches('v').split('.').next().and_then(|major| major.parse().ok());
    ensure!(
        major.unwrap_or(0) >= LEAST_NODE,
        "Node is {version}, older than {LEAST_NODE}\n  hint: {NO_NODE}"
    );
    let engine = engine(project)?;
    let modules = installed(project)?;
    announce(match engine {
        JsEngine::SpiderMonkey => "building with jco",
        JsEngine::QuickJs => "building for QuickJS",
    });
    if is_typed(project) {
        check_types(project, &modules)?;
    } else {
        // The builder only says that there is an error in it.
        project.finish(project.command("node").args(["--check", SOURCE]), NO_NODE, cause)?;
    }
    let bundle = bundle(project, &modules)?;
    let wit = world(project)?;
    if !wit.is_own() {
        warn(project)?;
    }
    let wit = wit.folder;
    match engine {
        JsEngine::SpiderMonkey => {
            componentize(project, &modules, &bundle, &wit, world::WORLD, &project.output())?;
        }
        JsEngine::QuickJs => quickjs::write(&bundle, &wit, world::WORLD, &project.output())?,
    }
    Ok(project.output())
}

/// See [`super::QuickBuilder`].
pub(super) fn build_quickly(project: &Project) -> anyhow::Result<Option<PathBuf>> {
    // On QuickJS a build of the whole takes no longer.
    if engine(project)? == JsEngine::QuickJs {
        return Ok(None);
    }
    let modules = installed(project)?;
    if !modules.join("rolldown").is_dir() {
        return Ok(None);
    }
    if is_typed(project) {
        check_types(project, &modules)?;
    }
    bundler_config(project)?;
    // The world is made of the bundle, which is made in the runner's folder: one of the world before it.
    let kept = self::world(project);
    let mut world = kept.or_else(|_| bundle(project, &modules).and_then(|_| self::world(project)))?;
    let (runner, found) = loop {
        let scripts = [("runner.js", RUNNER), ("sources.mjs", SOURCES)];
        let runner = Runner::of(project, &world, MANIFEST, &scripts)?;
        let mut sources = project.command("node");
        sources.arg(runner.folder.join("sources.mjs")).arg(runner.has_init.to_string());
        let found = project.finish(&mut sources, NO_NODE, str::to_owned)?;
        let now = self::world(project)?;
        if now == world {
            break (runner, found);
        }
        world = now;
    };
    runner.filled(project, &found, |made| {
        announce("building what later saves are written into, with jco");
        let module = runner.folder.join("made.js");
        componentize(project, &modules, &module, &runner.wit, runner::WORLD, made)
    })
}

/// The engine that the project's file says.
fn engine(project: &Project) -> anyhow::Result<JsEngine> {
    (project.settings.js_engine)(&project.folder.join(CONFIG))
}

/// The folder with what the manifest names.
fn installed(project: &Project) -> anyhow::Result<PathBuf> {
    let modules = project.folder.join("node_modules");
    project.installed(MANIFEST, &modules, || {
        let mut npm = project.command("npm");
        npm.args(["install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]);
        project.finish(&mut npm, NO_NODE, npm_error)?;
        Ok(())
    })?;
    Ok(modules)
}

fn is_typed(project: &Project) -> bool {
    project.folder.join(TYPED_SOURCE).is_file()
}

/// The bundler leaves types out without a look at them.
fn check_types(project: &Project, modules: &Path) -> anyhow::Result<()> {
    let mut tsc = project.command(modules.join(".bin/tsc"));
    project.finish(tsc.args(["--noEmit", "--pretty", "false"]), NO_TYPES, type_error)?;
    Ok(())
}

/// Makes one file of the handler and what it imports.
fn bundle(project: &Project, modules: &Path) -> anyhow::Result<PathBuf> {
    let mut rolldown = project.command(modules.join(".bin/rolldown"));
    project.finish(rolldown.arg("--config").arg(bundler_config(project)?), NO_BUNDLER, cause)?;
    Ok(project.private().join(BUNDLED))
}

/// The world of a project whose handler has been bundled.
fn world(project: &Project) -> anyhow::Result<World> {
    if let Some(own) = World::own(project)? {
        return Ok(own);
    }
    let surface = surface(project)?;
    let names = |key: &str| names(&surface, key);
    let source = if is_typed(project) { TYPED_SOURCE } else { SOURCE };
    let (defined, imports) = (names("exports"), names("imports"));
    let exports = world::exports(|name| defined.contains(&camel(name, false).as_str()));
    world::check_exports(source, &exports, NO_FUNCTION)?;
    world::check_imports(source, &imports)?;
    World::of_sources(project, &exports, imports)
}

/// The names that the bundle imports and exports.
fn surface(project: &Project) -> anyhow::Result<Value> {
    let text = file::text(&project.private().join(SURFACE)).context("cannot read the bundle's names")?;
    serde_json::from_str(&text).context("cannot read the bundle's names")
}

fn names<'a>(surface: &'a Value, key: &str) -> Vec<&'a str> {
    surface.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Says what an application has and the module does not export.
fn warn(project: &Project) -> anyhow::Result<()> {
    let surface = surface(project)?;
    // A build does not fail because stderr is closed.
    drop(io::stderr().write_all(warnings(&names(&surface, "calls"), &names(&surface, "exports")).as_bytes()));
    Ok(())
}

fn warnings(calls: &[&str], exports: &[&str]) -> String {
    let said = OF_AN_APPLICATION.iter().filter(|(call, export)| {
        exports.contains(&"respond") && calls.contains(call) && !exports.contains(export)
    });
    let line = |(call, export): &(&str, &str)| {
        format!(
            "warning: the handler calls `.{call}(…)` and does not export `{export}`, so the host does not call it
  hint: if it is the application's, `export const {{ {export}, operations, respond }} = app.exports()`\n"
        )
    };
    said.map(line).collect()
}

/// Writes the bundler's configuration.
fn bundler_config(project: &Project) -> anyhow::Result<PathBuf> {
    let text = BUNDLE.replace("SOURCE", if is_typed(project) { TYPED_SOURCE } else { SOURCE });
    let write = |name: &str, text: &str| {
        let file = project.private().join(name);
        fs::write(&file, text).with_context(|| format!("cannot write `{}`", file.display()))?;
        Ok(file)
    };
    let (name, table) = LINES;
    write(name, table)?;
    write("rolldown.config.mjs", &text)
}

fn componentize(
    project: &Project,
    modules: &Path,
    module: &Path,
    wit: &Path,
    world: &str,
    output: &Path,
) -> anyhow::Result<()> {
    let program = modules.join(".bin/jco");
    ensure!(program.is_file(), "`jco` is not installed\n  hint: {NO_BUILDER}");
    let mut jco = project.command("node");
    // Several threads of Node's collector wait for each other here: half of the build's processor time.
    jco.arg("--single-threaded-gc").arg(program);
    jco.arg("componentize").arg(module).arg("--wit").arg(wit).args(["--world-name", world]);
    // Without these the component imports no network.
    jco.args(["--disable", "http", "fetch-event", "--out"]).arg(output);
    project.finish(&mut jco, NO_NODE, cause).map(drop).map_err(|error| match file::text(module) {
        // The bundle ran, and its lines are nothing that its author knows.
        Ok(bundle) if !error.is::<Interrupted>() => anyhow!(lines::placed(&error.to_string(), &bundle)),
        _ => error,
    })
}

/// The first line that says more than a code, then all.
fn npm_error(printed: &str) -> String {
    let says_why = |line: &&str| line.starts_with("npm error ") && !line.starts_with("npm error code ");
    cause_first(printed.lines().find(says_why), printed)
}

/// The first error of the types, then all.
fn type_error(printed: &str) -> String {
    cause_first(printed.lines().find(|line| line.contains("error TS")), printed)
}

/// Without the frames of the builder's stack, the lowest error first.
fn cause(printed: &str) -> String {
    let lines: Vec<&str> = printed.lines().filter(|line| !line.starts_with("    at ")).collect();
    // Of the bundler's own errors the line has a code, `[MISSING_EXPORT] …`, and perhaps `Error:` before it.
    let is_coded = |line: &str| {
        let code =
            line.trim_start_matches("Error: ").strip_prefix('[').and_then(|rest| rest.split_once("] "));
        code.is_some_and(|(code, _)| code.chars().all(|c| c.is_ascii_uppercase() || c == '_'))
    };
    let is_error = |line: &&&str| line.contains("Error: ") && !line.starts_with("(jco") || is_coded(line);
    let cause = lines.iter().rfind(is_error).map(|line| line.trim_start_matches("Error: "));
    let hinted = cause.and_then(|cause| Some(format!("{cause}\n  hint: {}", hint(cause)?)));
    cause_first(hinted.as_deref().or(cause), lines.join("\n").trim())
}

/// The part of the SDK that is meant, where a cause names one that is not there.
fn hint(cause: &str) -> Option<String> {
    let (_, name) = cause.split_once("Could not resolve 'modelhost-guest/")?;
    let name = name.split('\'').next().unwrap_or_default();
    Some(match similar(name, SUBPATHS) {
        Some(meant) => format!("did you mean `modelhost-guest/{meant}`?"),
        None => format!("`modelhost-guest` has {}", list(SUBPATHS, "and")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_application_does_not_export_is_told() {
        let told = |calls: &[&str], exports: &[&str]| warnings(calls, exports).matches("warning: ").count();
        assert_eq!(told(&["init", "websocket", "batch"], &["respond", "operations", "init"]), 2);
        assert_eq!(told(&["init", "batch"], &["respond", "respondAll", "init"]), 0);
        assert_eq!(told(&["init"], &["preInference"]), 0);
        assert!(warnings(&["batch"], &["respond"]).contains("does not export `respondAll`"));
    }

    #[test]
    fn a_part_that_the_sdk_does_not_have_has_a_hint() {
        let package: Value =
            serde_json::from_str(include_str!("../../../../../guest-sdk/js/package.json")).unwrap();
        let parts = package["exports"].as_object().unwrap().keys();
        assert_eq!(parts.filter_map(|key| key.strip_prefix("./")).collect::<Vec<_>>(), SUBPATHS);
        let told =
            |name: &str| cause(&format!("Error: [RESOLVE_ERROR] Could not resolve '{name}' in handler.js"));
        assert!(
            told("modelhost-guest/kvv").contains("in handler.js\n  hint: did you mean `modelhost-guest/kv`?")
        );
        assert!(told("modelhost-guest/colours").contains("\n  hint: `modelhost-guest` has `blobs`, `image`"));
        assert!(!told("other").contains("hint"));
    }

    #[test]
    fn the_cause_of_npm_is_no_code() {
        let printed = "npm warn old\nnpm error code E404\nnpm error 404 Not Found\nnpm error 404";
        assert!(npm_error(printed).starts_with("npm error 404 Not Found\n\nnpm warn old\n"));
    }

    #[test]
    fn the_cause_comes_before_what_the_builder_says() {
        let missing = "\"handler.js\" does not export a \"init\" interface as expected by the world.";
        let printed = format!(
            "(jco componentize) Error: Unable to extract\nError: {missing}\n    at handle (a.js:1:1)"
        );
        let without_frames = format!("(jco componentize) Error: Unable to extract\nError: {missing}");
        assert_eq!(cause(&printed), format!("{missing}\n\n{without_frames}"));
        let unresolved = "[UNRESOLVED_IMPORT] Could not resolve 'nope' in handler.js";
        let printed =
            format!("ERROR  Build failed with 1 error:\n\nError: {unresolved}\n    at onLog (a.mjs:8:49)");
        assert!(cause(&printed).starts_with(&format!("{unresolved}\n\n")), "{printed}");
        let missing = "[MISSING_EXPORT] \"Tensr\" is not exported by \"modelhost-guest/src/index.js\".";
        let printed =
            format!("ERROR  Build failed with 1 error:\n\n{missing}\n   ╭─[ handler.js:1:10 ]\n    at x");
        assert!(cause(&printed).starts_with(&format!("{missing}\n\n")), "{printed}");
        let thrown = "handler.js:72:1 ReferenceError: boom is not defined";
        let printed = format!("(jco componentize) Error: Failed to initialize:\nException\n{thrown}\nStack:");
        assert_eq!(cause(&printed), format!("{thrown}\n\n{printed}"));
    }
}
