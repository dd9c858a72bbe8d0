//! `host build`: a handler project to a component.
//!
//! In:  a folder whose manifest tells the language. Out: `handler.wasm` beside the manifest, put there whole,
//! so that a server may watch it; on stdout its size and the time.
//! Invariants: tools that the manifest pins are installed into the project and nowhere else; what a tool
//! prints is shown only if it fails, its cause first.

mod js;
mod python;
mod rust;

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use anyhow::{Context as _, anyhow};

use crate::cli;
use crate::commands::{Failure, say};
use crate::file;

/// The component, beside the manifest.
const COMPONENT: &str = "handler.wasm";
/// The folder of a project that only this program writes.
const PRIVATE: &str = ".modelhost";

/// Builds the project in a folder, and says where the component is.
type Builder = fn(&Project) -> anyhow::Result<PathBuf>;

const LANGUAGES: [(&str, Builder); 3] =
    [("Cargo.toml", rust::build), ("requirements.txt", python::build), ("package.json", js::build)];

/// Runs the command.
///
/// # Errors
/// The folder is no project, a tool is missing, or the handler does not build.
pub fn build(arguments: &cli::Build) -> Result<(), Failure> {
    let folder = &arguments.folder;
    let shown = folder.display();
    let manifests: Vec<_> =
        LANGUAGES.iter().filter(|(manifest, _)| folder.join(manifest).is_file()).collect();
    let names = LANGUAGES.map(|(manifest, _)| format!("`{manifest}`")).join(", ");
    let builder = match manifests.as_slice() {
        [(_, builder)] => builder,
        [] => {
            let text = format!(
                "`{shown}` is no handler project: it has none of {names}
  hint: `{} new NAME --lang rust|python|js` makes one",
                cli::program()
            );
            return Err(Failure::Input(text));
        }
        _ => {
            let text =
                format!("`{shown}` has more than one of {names}\n  hint: keep the one that it is built by");
            return Err(Failure::Input(text));
        }
    };
    let started = Instant::now();
    let folder = folder.canonicalize().with_context(|| format!("cannot read `{shown}`"))?;
    let project = Project { folder };
    let private = project.private();
    fs::create_dir_all(&private).with_context(|| format!("cannot make `{}`", private.display()))?;
    let component = builder(&project)?;
    let size = fs::metadata(&component).context("the component is gone")?.len();
    let target = project.folder.join(COMPONENT);
    fs::rename(&component, &target).with_context(|| format!("cannot write `{}`", target.display()))?;
    let megabytes = size as f64 / 1e6;
    let seconds = started.elapsed().as_secs_f64();
    Ok(say(&format!("{COMPONENT}: {megabytes:.2} MB, built in {seconds:.1} s"))?)
}

/// A handler project.
struct Project {
    /// Absolute.
    folder: PathBuf,
}

impl Project {
    /// A folder for what is not the user's.
    fn private(&self) -> PathBuf {
        self.folder.join(PRIVATE)
    }

    /// Where a tool writes the component.
    fn output(&self) -> PathBuf {
        self.private().join(COMPONENT)
    }

    /// A command that runs in the project's folder.
    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.folder);
        command
    }

    /// Does `install` unless it has been done for this very manifest, and announces it.
    fn installed(
        &self,
        manifest: &str,
        into: &Path,
        install: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let text =
            file::text(&self.folder.join(manifest)).with_context(|| format!("cannot read `{manifest}`"))?;
        let done = self.private().join(manifest);
        if into.is_dir() && file::text(&done).is_ok_and(|installed| installed == text) {
            return Ok(());
        }
        announce(&format!("installing what {manifest} names (once)"));
        install()?;
        fs::write(&done, text).with_context(|| format!("cannot write `{}`", done.display()))
    }
}

/// Says on stderr what takes a while.
fn announce(step: &str) {
    // A build does not fail because stderr is closed.
    let _ = writeln!(io::stderr(), "{step} …");
}

/// Runs a tool to its end.
///
/// # Errors
/// It is not installed: `hint` says how. Or it fails: the text is what `cause` finds in its output.
fn finish(command: &mut Command, hint: &str, cause: fn(&str) -> String) -> anyhow::Result<Output> {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default().display().to_string();
    let output = match command.stdin(Stdio::null()).output() {
        Ok(output) => output,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(anyhow!("`{program}` is not installed\n  hint: {hint}"));
        }
        Err(error) => return Err(anyhow!("cannot run `{program}`: {error}")),
    };
    if output.status.success() {
        return Ok(output);
    }
    let printed = [&output.stderr, &output.stdout].map(|text| String::from_utf8_lossy(text).into_owned());
    let cause = cause(printed.concat().trim());
    Err(anyhow!(
        "{}",
        if cause.is_empty() { format!("`{program}` ended with {}", output.status) } else { cause }
    ))
}

/// A cause in front of the text that it comes from.
fn cause_first(cause: Option<&str>, text: &str) -> String {
    match cause {
        Some(cause) if cause != text => format!("{cause}\n\n{text}"),
        _ => text.to_owned(),
    }
}
