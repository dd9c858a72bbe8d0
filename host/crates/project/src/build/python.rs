//! Python, by componentize-py, in a virtual environment of the project's; see `python/packages.rs` for what
//! the environment has of packages with native code.

mod packages;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::ensure;

use super::runner::{self, Runner};
use super::tool::Interrupted;
use super::world;
use super::{Project, announce, cause_first};

const MANIFEST: &str = "requirements.txt";
/// The module with the handler.
const MODULE: &str = "app";
pub(super) const NO_PYTHON: &str =
    "https://www.python.org/downloads installs Python; Debian: apt install python3 python3-venv";
const NO_BUILDER: &str = "requirements.txt has to name `componentize-py`, as `componentize-py==0.25.0`";

/// Hints where an export is missing: of an author's world, and of one that is made of the sources.
const BY_WORLD: &str = "write it, or remove what needs it from the world in wit/world.wit";
const BY_SOURCES: &str = "a function that is sometimes defined, or of a name that is made, has to stand in a world in wit/world.wit";

/// The module of the component that `dev` keeps, and what looks for the sources that are written into it.
const RUNNER: &str = include_str!("../../dev/python/runner.py");
const SOURCES: &str = include_str!("../../dev/python/sources.py");

/// The script that finds imports and variables that a component lacks when they are asked for.
const WARNINGS: &str = include_str!("../../dev/python/warnings.py");

/// See [`super::Builder`].
pub(super) fn build(project: &Project) -> anyhow::Result<PathBuf> {
    let environment = installed(project)?;
    let world = world::python::world(project, &environment)?;
    warn(project, &environment)?;
    announce("building with componentize-py");
    let cause = if world.is_own() { cause } else { cause_by_sources };
    let arguments = ["--python-path", ".", MODULE];
    componentize(project, &environment, &world.folder, world::WORLD, &arguments, &project.output(), cause)?;
    Ok(project.output())
}

/// See [`super::QuickBuilder`].
pub(super) fn build_quickly(project: &Project) -> anyhow::Result<Option<PathBuf>> {
    let environment = installed(project)?;
    let world = world::python::world(project, &environment)?;
    warn(project, &environment)?;
    let scripts = [("modelhost_runner.py", RUNNER), ("sources.py", SOURCES)];
    let runner = Runner::of(project, &world, MANIFEST, &scripts)?;
    let mut sources = project.command(environment.join("bin/python"));
    sources.arg(runner.folder.join("sources.py")).arg(&runner.folder).arg(runner.has_init.to_string());
    let found = project.finish(&mut sources, NO_PYTHON, str::to_owned)?;
    runner.filled(project, &found, |made| {
        announce("building what later saves are written into, with componentize-py");
        let path = runner.folder.display().to_string();
        let arguments = ["--python-path", &path, "modelhost_runner"];
        componentize(project, &environment, &runner.wit, runner::WORLD, &arguments, made, cause)
    })
}

/// The environment with what the manifest names.
fn installed(project: &Project) -> anyhow::Result<PathBuf> {
    let environment = project.private().join("python");
    let wheels = packages::Wheels::beside_this_program();
    project.installed(MANIFEST, &environment, || packages::install(project, &environment, &wheels))?;
    packages::find(project, &environment, &wheels)?;
    Ok(environment)
}

/// Says what in the sources will not be there when the component asks for it.
fn warn(project: &Project, environment: &Path) -> anyhow::Result<()> {
    let mut python = project.command(environment.join("bin/python"));
    match project.finish(python.args(["-c", WARNINGS]), NO_PYTHON, str::to_owned) {
        // A build does not fail because stderr is closed.
        Ok(found) => {
            drop(io::stderr().write_all(warnings(&String::from_utf8_lossy(&found.stdout)).as_bytes()))
        }
        Err(error) if error.is::<Interrupted>() => return Err(error),
        // What is wrong with the sources, the build says.
        Err(_) => {}
    }
    Ok(())
}

/// Each line with its hint, which is behind a tab, as a warning.
fn warnings(found: &str) -> String {
    let line = |line: &str| match line.split_once('\t') {
        Some((text, hint)) => format!("warning: {text}\n  hint: {hint}\n"),
        None => String::new(),
    };
    found.lines().map(line).collect()
}

fn componentize(
    project: &Project,
    environment: &Path,
    wit: &Path,
    world: &str,
    module: &[&str],
    output: &Path,
    cause: fn(&str) -> String,
) -> anyhow::Result<()> {
    let script = environment.join("bin/componentize-py");
    ensure!(script.is_file(), "`componentize-py` is not installed\n  hint: {NO_BUILDER}");
    // By the environment's Python: the script's first line has the path that the project once had.
    let mut builder = project.command(environment.join("bin/python"));
    // By this it finds the packages of the environment.
    builder.arg(script).env("VIRTUAL_ENV", environment);
    builder.args(["--quiet", "--wit-path"]).arg(wit).args(["--world", world, "componentize"]);
    let native = packages::unpacked(project, environment)?;
    if let Some(native) = &native {
        // Before the packages of the environment.
        builder.arg("--python-path").arg(native.path());
    }
    match project.finish(builder.args(module).arg("--output").arg(output), NO_PYTHON, cause) {
        Ok(_) => Ok(()),
        Err(error) if error.is::<Interrupted>() => Err(error),
        Err(error) => Err(packages::explained(project, error)),
    }
}

/// [`cause`], where there is no world to change.
fn cause_by_sources(printed: &str) -> String {
    cause(printed).replace(BY_WORLD, BY_SOURCES)
}

/// Its output has the handler's error, with the traceback, between its own traceback and its own stack.
fn cause(printed: &str) -> String {
    let Some((above, below)) = printed.split_once("Caused by:") else { return printed.to_owned() };
    let cause = below.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let traceback = above.split_once("AssertionError: ").map_or(above, |(_, traceback)| traceback);
    let traceback = traceback.trim_end().replace("\"/0/", "\"");
    if let Some(missing) = missing(cause) {
        return format!(
            "{MODULE}.py has no {missing}
  hint: {BY_WORLD}"
        );
    }
    cause_first(Some(cause), &traceback)
}

/// The export of the world that the module does not have, by the SDK's name for it and by the bindings'.
fn missing(cause: &str) -> Option<String> {
    let quoted = |after: &str| Some(cause.split_once(after)?.1.split('\'').next()?.to_owned());
    let class = || {
        quoted(&format!("module '{MODULE}' has no attribute '")).map(|class| match class.as_str() {
            "Respond" | "Operations" => format!("`@app.handler` or class `{class}`"),
            "RespondAll" => format!("`@app.batch` or class `{class}`"),
            "InputSchema" => "`input_schema(…)` or class `InputSchema`".to_owned(),
            class => format!("`@{}` or class `{class}`", snake_case(class)),
        })
    };
    let method = || {
        let class = cause.split_once("abstract class ")?.1.split(' ').next()?;
        quoted("abstract method '").map(|method| format!("method `{class}.{method}`"))
    };
    class().or_else(method)
}

fn snake_case(class: &str) -> String {
    let mut name = String::new();
    for c in class.chars() {
        if c.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.extend(c.to_lowercase());
    }
    name
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const STACK: &str =
        "\n\nStack backtrace:\n   0: anyhow::error::msg\n             at Objects/methodobject.c:486:24";

    #[test]
    fn a_missing_export_is_one_line_and_a_hint() {
        let class = "AttributeError: module 'app' has no attribute 'PostInference'";
        let method = "TypeError: Can't instantiate abstract class Init without an implementation for abstract \
                      method 'init'";
        for (error, expected) in
            [(class, "`@post_inference` or class `PostInference`"), (method, "method `Init.init`")]
        {
            let printed = format!(
                "Traceback\n  File \"componentize-py\"\nAssertionError: {error}\n\n\nCaused by:\n    {error}{STACK}"
            );
            let hint = "hint: write it, or remove what needs it from the world in wit/world.wit";
            assert_eq!(cause(&printed), format!("app.py has no {expected}\n  {hint}"));
        }
    }

    #[test]
    fn an_error_comes_with_its_traceback_and_without_the_builders() {
        let error = "ModuleNotFoundError: No module named 'numpyy'";
        let traceback = "Traceback (most recent call last):\n  File \"/0/app.py\", line 13, in <module>";
        let printed = format!(
            "Traceback\n  x\nAssertionError: {traceback}\n{error}\n\n\nCaused by:\n    {error}{STACK}"
        );
        let traceback = traceback.replace("/0/", "");
        assert_eq!(cause(&printed), format!("{error}\n\n{traceback}\n{error}"));
        assert_eq!(cause("no such option"), "no such option");
    }

    /// The warnings of a project with these files, without hints.
    fn warned(files: &[(&str, &str)]) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let mut python = std::process::Command::new("python3");
        let output = python.args(["-c", WARNINGS]).current_dir(folder.path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let told = warnings(&String::from_utf8_lossy(&output.stdout));
        told.lines().filter_map(|line| Some(line.strip_prefix("warning: ")?.to_owned())).collect()
    }

    #[test]
    fn imports_in_functions_are_named() {
        let late = |place: &str, module: &str| {
            format!(
                "{place}: `{module}` is imported in a function, which fails at a request: there are no \
                 files to import from"
            )
        };
        for (source, expected) in [
            ("def f():\n    import decimal", vec![late("app.py:2", "decimal")]),
            (
                "class A:\n    async def f(self):\n        from xml.etree import ElementTree as ET",
                vec![late("app.py:3", "xml.etree.ElementTree")],
            ),
            (
                "f = lambda: __import__\ndef g():\n  def h():\n    import none.there",
                vec![late("app.py:4", "none.there")],
            ),
            (
                "def f():\n    from lib import one, two\n    from lib.two import x",
                vec![late("app.py:2", "lib.two"), late("app.py:3", "lib.two")],
            ),
            ("def f():\n    from lib.one import x, y", vec![]),
            // What is there already: at the top of another file too, in C, and what comes with the SDK.
            ("import lib.one\ndef f():\n    import colorsys, math, _strptime, encodings.cp1252, sys", vec![]),
            (
                "import json\ndef f():\n    from json import loads\n    from json.decoder import JSONDecoder",
                vec![],
            ),
            // What the program goes on without, unless it is there at the build.
            ("def f():\n  try:\n    import not_there\n  except ImportError:\n    pass", vec![]),
            (
                "def f():\n  try:\n    import decimal\n  except ImportError:\n    pass",
                vec![late("app.py:3", "decimal")],
            ),
            ("import typing\ndef f():\n  if typing.TYPE_CHECKING:\n    import decimal", vec![]),
            ("if __name__ == '__main__':\n  def f():\n    import decimal", vec![]),
            ("def f(:\n    import decimal", vec![]),
        ] {
            let files = [
                ("app.py", format!("{source}\nimport lib.one\n")),
                ("lib/__init__.py", String::new()),
                ("lib/one.py", "import colorsys\nx = 1".to_owned()),
                ("lib/two.py", "x = 1".to_owned()),
                ("other.py", "def f():\n    import decimal".to_owned()),
            ];
            let files = files.each_ref().map(|(name, text)| (*name, text.as_str()));
            assert_eq!(warned(&files), expected, "{source}");
        }
    }

    #[test]
    fn variables_at_the_top_of_a_module_are_named() {
        let read = |line: u32, what: &str| {
            format!("app.py:{line}: {what} is read while the component is built, where it is not set")
        };
        let named = |line, name| read(line, &format!("the environment variable `{name}`"));
        let any = |line| read(line, "the environment");
        for (source, expected) in [
            ("import os\nA = os.environ['A']\nB = os.getenv('B', '')", vec![named(2, "A"), named(3, "B")]),
            (
                "from os import environ as e, getenv\nA = e.get('A')\nif 'B' in e: pass\nC = getenv(f'{A}')",
                vec![named(2, "A"), named(3, "B"), any(4)],
            ),
            (
                "import os.path, os as o\nclass A:\n  b = o.environ['B']\n  def f(x=os.environ['X']): \
                 return os.environ['C']",
                vec![named(3, "B"), named(4, "X")],
            ),
            (
                "import os\ndef f(): return g()\ndef g(): return os.getenv('A')\nA = f()\n\
                 class B:\n  def __init__(self): f()\nb = B()",
                vec![any(4), any(7)],
            ),
            ("from lib import load as read\nA = read()", vec![any(2)]),
            (
                "import os\nf = lambda: os.environ['A']\ndef g(): return f()\nos.environ['B'] = '1'\n\
                 os.environ.setdefault('C', '')\nos.path.join('a')",
                vec![],
            ),
            ("import os\nif __name__ == '__main__':\n  print(os.environ['A'])", vec![]),
            ("environ = {}\nA = environ.get('A')", vec![]),
        ] {
            let files = [("app.py", source), ("lib.py", "import os\ndef load(): return os.environ['A']")];
            assert_eq!(warned(&files), expected, "{source}");
        }
        let told = warnings("app.py:1: text\thint\nno find\n");
        assert_eq!(told, "warning: app.py:1: text\n  hint: hint\n");
    }
}
