//! Rust, by cargo.

use std::fs;
use std::path::PathBuf;

use anyhow::Context as _;
use serde_json::Value;

use super::{LARGEST, Project, announce, cause_first};
use crate::file;

const TARGET: &str = "wasm32-wasip2";
/// Every engine that runs components has SIMD; the compiler uses it only when told to.
const SIMD: &str = "target.wasm32-wasip2.rustflags=[\"-C\",\"target-feature=+simd128\"]";

/// See [`super::Builder`].
pub(super) fn build(project: &Project) -> anyhow::Result<PathBuf> {
    announce("building with cargo");
    let mut cargo = project.command("cargo");
    cargo.args(["build", "--release", "--target", TARGET, "--config", SIMD]);
    cargo.args(["--message-format", "json-render-diagnostics"]);
    let output = project.finish(&mut cargo, "https://rustup.rs installs Rust", cause)?;
    let messages = String::from_utf8_lossy(&output.stdout);
    let built = messages.lines().filter_map(component).next_back().context(
        "Cargo.toml makes no component
  hint: add `crate-type = [\"cdylib\", \"rlib\"]` under `[lib]`",
    )?;
    // Cargo's own stays, or it would build it again.
    let component =
        file::read(&built, LARGEST).with_context(|| format!("cannot read `{}`", built.display()))?;
    fs::write(project.output(), component).context("cannot write the component")?;
    Ok(project.output())
}

/// The component that one of cargo's messages tells of.
fn component(message: &str) -> Option<PathBuf> {
    let message: Value = serde_json::from_str(message).ok()?;
    let kinds = message.get("target")?.get("crate_types")?.as_array()?;
    let files = message.get("filenames")?.as_array()?;
    let mut files = files.iter().filter_map(Value::as_str);
    kinds
        .iter()
        .any(|kind| kind == "cdylib")
        .then(|| files.find(|file| file.ends_with(".wasm")))?
        .map(PathBuf::from)
}

/// The compiler's words, without cargo's messages for programs.
fn cause(printed: &str) -> String {
    let lines: Vec<&str> = printed.lines().filter(|line| !line.starts_with("{\"reason\":")).collect();
    let printed = lines.join("\n");
    let printed = printed.trim();
    if printed.contains("target may not be installed") {
        return format!("Rust cannot build for {TARGET} here\n  hint: rustup target add {TARGET}");
    }
    cause_first(printed.lines().find(|line| line.starts_with("error")), printed)
}
