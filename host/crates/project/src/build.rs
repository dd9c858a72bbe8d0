//! A handler project to a component: `host build`.
//!
//! In:  a folder whose manifest tells the language. Out: `handler.wasm` beside the manifest, with the
//! libraries that the project names inside, put there whole, so that a server may watch it; its size and the
//! time.
//! Invariants: tools that the manifest pins are installed into the project and nowhere else; what a tool
//! prints is shown only if it fails, its cause first.

mod component;
mod compose;
mod go;
mod js;
mod libraries;
mod python;
mod quickjs;
mod runner;
mod rust;
mod tool;
mod world;
mod zig;

use std::fmt;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;

pub use self::runner::Remedy;
pub use self::tool::Interrupted;
use self::tool::{Interrupt, announce, cause_first};
use crate::Failure;
use crate::file;
use crate::program::program;

/// The component, beside the manifest.
pub const COMPONENT: &str = "handler.wasm";
/// The folder of a project that only this program writes.
const PRIVATE: &str = ".modelhost";

/// Builds the project in a folder, and says where the component is.
type Builder = fn(&Project) -> anyhow::Result<PathBuf>;
/// The same for `dev`, by what an earlier one has kept; `None` if the project has to be built whole.
type QuickBuilder = fn(&Project) -> anyhow::Result<Option<PathBuf>>;

const LANGUAGES: [(&str, Builder, Option<QuickBuilder>); 6] = [
    ("Cargo.toml", rust::build, None),
    ("requirements.txt", python::build, Some(python::build_quickly)),
    ("package.json", js::build, Some(js::build_quickly)),
    ("go.mod", go::build, None),
    ("compile_flags.txt", zig::build_c, None),
    ("build.zig", zig::build_zig, None),
];
/// How often is looked whether another build has ended.
const LOCK_INTERVAL: Duration = Duration::from_millis(50);
/// Bytes of a component.
const LARGEST: u64 = 1 << 30;

/// The engine of a handler in JavaScript or TypeScript.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum JsEngine {
    /// The engine of Firefox, with most of the web's platform.
    #[default]
    SpiderMonkey,
    /// A small interpreter.
    QuickJs,
}

/// The readers of what a project's configuration says of its build. Each build reads the file anew.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// The libraries that are put into the handler.
    pub libraries: fn(&Path) -> anyhow::Result<Vec<String>>,
    /// The engine of a handler in JavaScript.
    pub js_engine: fn(&Path) -> anyhow::Result<JsEngine>,
}

/// A handler project.
pub struct Project {
    /// Absolute.
    pub folder: PathBuf,
    builder: Builder,
    quick_builder: Option<QuickBuilder>,
    settings: Settings,
    interrupt: Option<Interrupt>,
}

/// A component that was built.
pub struct Built {
    bytes: u64,
    took: Duration,
    /// Whether it was built by what an earlier build has kept.
    pub is_quick: bool,
}

impl fmt::Display for Built {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let megabytes = self.bytes as f64 / 1e6;
        write!(f, "{COMPONENT}: {megabytes:.2} MB, built in {:.1} s", self.took.as_secs_f64())
    }
}

#[cfg(test)]
impl Settings {
    /// Those of a project without a configuration.
    const NONE: Settings =
        Settings { libraries: |_| Ok(Vec::new()), js_engine: |_| Ok(JsEngine::SpiderMonkey) };
}

impl Project {
    /// The project in a folder.
    ///
    /// # Errors
    /// There is none, or the language is not clear.
    pub fn open(folder: &Path, settings: Settings) -> Result<Project, Failure> {
        let shown = folder.display();
        let manifests: Vec<_> =
            LANGUAGES.iter().filter(|(manifest, ..)| folder.join(manifest).is_file()).collect();
        let names = LANGUAGES.map(|(manifest, ..)| format!("`{manifest}`")).join(", ");
        let (builder, quick_builder) = match manifests.as_slice() {
            [(_, builder, quick_builder)] => (*builder, *quick_builder),
            [] => {
                let text = format!(
                    "`{shown}` is no handler project: it has none of {names}
  hint: `{} new NAME --lang rust|python|js|ts|go|c|cpp|zig` makes one",
                    program()
                );
                return Err(Failure::Input(text));
            }
            _ => {
                let text = format!(
                    "`{shown}` has more than one of {names}\n  hint: keep the one that it is built by"
                );
                return Err(Failure::Input(text));
            }
        };
        let folder = folder.canonicalize().with_context(|| format!("cannot read `{shown}`"))?;
        Ok(Project { folder, builder, quick_builder, settings, interrupt: None })
    }

    /// The same, whose builds end as soon as they are no longer wanted.
    pub fn interrupted_if(self, unwanted: impl Fn() -> bool + Send + 'static) -> Project {
        Project { interrupt: Some(Box::new(unwanted)), ..self }
    }

    /// Builds it.
    ///
    /// # Errors
    /// A tool is missing, or the handler does not build: the component that was there stays. Or
    /// [`Interrupted`].
    pub fn build(&self) -> anyhow::Result<Built> {
        self.build_by(None)
    }

    /// The same by what an earlier build has kept, where the language has that and the project allows it.
    ///
    /// # Errors
    /// As [`Self::build`].
    pub fn build_quickly(&self) -> anyhow::Result<Built> {
        self.build_by(self.quick_builder)
    }

    /// The next step after what [`Self::build_quickly`] made could not be loaded.
    ///
    /// # Errors
    /// A file cannot be read or written.
    pub fn remedy(&self, error: &str) -> anyhow::Result<Remedy> {
        runner::remedy(self, error)
    }

    fn build_by(&self, quick: Option<QuickBuilder>) -> anyhow::Result<Built> {
        let started = Instant::now();
        let private = self.private();
        // A project that is moved or removed meanwhile is not made again.
        if let Err(error) = fs::create_dir(&private)
            && !private.is_dir()
        {
            return Err(error).with_context(|| format!("cannot make `{}`", private.display()));
        }
        let _lock = self.lock()?;
        let kept = quick.map(|build| build(self)).transpose()?.flatten();
        let is_quick = kept.is_some();
        let component = kept.map_or_else(|| (self.builder)(self), Ok)?;
        libraries::put_into(self, &component)?;
        let bytes = fs::metadata(&component).context("the component is gone")?.len();
        let target = self.folder.join(COMPONENT);
        fs::rename(&component, &target).with_context(|| format!("cannot write `{}`", target.display()))?;
        Ok(Built { bytes, took: started.elapsed(), is_quick })
    }

    /// Waits until no other process builds the project; another one waits until what this gives is dropped.
    fn lock(&self) -> anyhow::Result<File> {
        let path = self.private().join("lock");
        let lock = File::create(&path).with_context(|| format!("cannot write `{}`", path.display()))?;
        let mut is_announced = false;
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(lock),
                Err(TryLockError::WouldBlock) => {}
                // A file system without locks.
                Err(TryLockError::Error(_)) => return Ok(lock),
            }
            if !is_announced {
                announce("waiting for another build of this project");
                is_announced = true;
            }
            if self.interrupt.as_ref().is_some_and(|interrupt| interrupt()) {
                return Err(Interrupted.into());
            }
            thread::sleep(LOCK_INTERVAL);
        }
    }

    /// Runs a tool to its end, see [`tool::finish`].
    fn finish(&self, command: &mut Command, hint: &str, cause: fn(&str) -> String) -> anyhow::Result<Output> {
        tool::finish(command, hint, cause, self.interrupt.as_ref())
    }

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
        // One that does not end leaves half of it.
        let _ = fs::remove_file(&done);
        install()?;
        fs::write(&done, text).with_context(|| format!("cannot write `{}`", done.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_that_is_gone_is_not_made_again() {
        let folder = tempfile::tempdir().unwrap().path().join("gone");
        let builder = |_: &Project| unreachable!("there is nothing to build");
        let project =
            Project { folder, builder, quick_builder: None, settings: Settings::NONE, interrupt: None };
        let error = project.build().err().unwrap().to_string();
        assert!(error.starts_with("cannot make `") && !project.folder.exists(), "{error}");
    }
}
