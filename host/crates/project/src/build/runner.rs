//! The component that `dev` keeps of a project in an interpreted language: interpreter, SDK and packages,
//! with room for the project's own sources, which are written into its file at every save.
//!
//! Place in the flow: `python.rs` and `js.rs` → here. In: a component with a slot, and sources. Out: a copy
//! of it with the sources in the slot: a handler like any other, which runs them in `init`.
//! The slot: 16 bytes that are nowhere else in the file, the length of the sources in 8, and the sources.
//! Invariant: what cannot be kept this way is built whole.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use anyhow::Context as _;
use memchr::memmem;

use super::component::exports;
use super::world::{self, World, texts, write};
use super::{COMPONENT, Interrupted, LARGEST, Project};
use crate::file;

/// The world of such a component: the project's, with `init`.
pub(super) const WORLD: &str = "modelhost-dev";
/// The end of an error of its `init` where a handler that is built whole might have none; and the text before
/// the name of a module that is missing.
const BUILD_FOLLOWS: &str = "a full build follows";
const MISSING: &str = "; without module `";
/// The names of modules that were missing, one a line.
const MISSED: &str = "missed";
/// The runner's, in the project's private folder.
const FOLDER: &str = "dev";
const WIT: &str = "wit";
/// The interface that [`WORLD`] has besides.
const INIT: &str = "init@0.1.0";
const MARK: &[u8] = b"modelhost-slot-\x01";
const LENGTH: usize = size_of::<u64>();

/// The next step after a handler with sources in its slot could not be loaded.
#[derive(Debug, PartialEq, Eq)]
pub enum Remedy {
    /// The error is the author's.
    None,
    /// The component that is kept is made again, with a module more.
    Again,
    /// The project is built whole.
    Whole,
}

/// The next step after this error; notes the module that is missing.
pub(super) fn remedy(project: &Project, error: &str) -> anyhow::Result<Remedy> {
    if !error.contains(BUILD_FOLLOWS) {
        return Ok(Remedy::None);
    }
    let Some((_, name)) = error.split_once(MISSING) else { return Ok(Remedy::Whole) };
    let name = name.split('`').next().unwrap_or_default();
    let path = project.private().join(FOLDER).join(MISSED);
    let mut missed = if path.is_file() { file::text(&path)? } else { String::new() };
    if missed.lines().any(|line| line == name) {
        return Ok(Remedy::Whole);
    }
    missed += name;
    missed.push('\n');
    fs::write(&path, missed)?;
    Ok(Remedy::Again)
}

/// The parts of a project's runner, and where they are.
pub(super) struct Runner {
    /// A folder for it alone.
    pub(super) folder: PathBuf,
    pub(super) component: PathBuf,
    /// The WIT of its world.
    pub(super) wit: PathBuf,
    /// Whether the project's own world has `init`.
    pub(super) has_init: bool,
}

impl Runner {
    /// That of a project. Files of it that were made of another manifest, world or `scripts` are gone.
    ///
    /// # Errors
    /// A file cannot be read or written.
    pub(super) fn of(
        project: &Project,
        world: &World,
        manifest: &str,
        scripts: &[(&str, &str)],
    ) -> anyhow::Result<Runner> {
        let contract = texts(&world.folder)?.unwrap_or_default();
        let manifest = file::text(&project.folder.join(manifest))?;
        let texts = scripts.iter().map(|(_, text)| *text).chain([manifest.as_str()]);
        let made_of: String = texts.chain(contract.iter().map(|(_, text)| text.as_str())).collect();
        let has_init = exports(&world.folder, world::WORLD, INIT);

        let folder = project.private().join(FOLDER);
        let (stamp, wit) = (folder.join("made-of"), folder.join(WIT));
        if file::text(&stamp).ok().as_deref() != Some(&made_of) {
            if folder.exists() {
                fs::remove_dir_all(&folder)?;
            }
            for (path, text) in &contract {
                write(&wit.join(path), text)?;
            }
            let init = if has_init { "" } else { "export modelhost:handler/init@0.1.0;" };
            write(
                &wit.join("modelhost-dev.wit"),
                &format!("world {WORLD} {{\n    include app;\n    {init}\n}}\n"),
            )?;
            for (name, text) in scripts {
                write(&folder.join(name), text)?;
            }
            write(&stamp, &made_of)?;
        }
        Ok(Runner { component: folder.join("runner.wasm"), folder, wit, has_init })
    }

    /// The component with the sources in it; `None` if the project has to be built whole. `found` is what a
    /// script printed that has looked for them: `kept`, `new` if `make` has to put one at a path first, or
    /// `none`.
    ///
    /// # Errors
    /// A file cannot be read or written; or [`Interrupted`].
    pub(super) fn filled(
        &self,
        project: &Project,
        found: &Output,
        make: impl FnOnce(&Path) -> anyhow::Result<()>,
    ) -> anyhow::Result<Option<PathBuf>> {
        match found.stdout.trim_ascii() {
            b"none" => return Ok(None),
            b"new" => {
                // Under its own name only when it is whole: a build may be ended at any time.
                let made = self.folder.join("runner.new.wasm");
                match make(&made) {
                    Err(error) if error.is::<Interrupted>() => return Err(error),
                    // The build of the whole says why. An empty one is not tried again.
                    Err(_) => fs::write(&self.component, "")?,
                    Ok(()) => fs::rename(&made, &self.component)?,
                }
            }
            _ => {}
        }
        let read = |path: &Path| {
            file::read(path, LARGEST).with_context(|| format!("cannot read `{}`", path.display()))
        };
        let component = read(&self.component)?;
        let Some(filled) = filled(component, &read(&self.folder.join("sources"))?) else { return Ok(None) };
        let output = project.private().join(COMPONENT);
        fs::write(&output, filled).with_context(|| format!("cannot write `{}`", output.display()))?;
        Ok(Some(output))
    }
}

/// The component with sources in its slot, if it has one; whether there is room for them, its maker knows.
fn filled(mut component: Vec<u8>, sources: &[u8]) -> Option<Vec<u8>> {
    let mut marks = memmem::find_iter(&component, MARK);
    let length = marks.next()? + MARK.len();
    if marks.next().is_some() {
        return None;
    }
    let start = length + LENGTH;
    component.get_mut(length..start)?.copy_from_slice(&(sources.len() as u64).to_le_bytes());
    component.get_mut(start..start + sources.len())?.copy_from_slice(sources);
    Some(component)
}

#[cfg(test)]
mod tests {
    use super::super::Settings;
    use super::*;

    #[test]
    fn a_module_that_is_missing_is_added_once() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join(".modelhost/dev")).unwrap();
        fs::write(folder.path().join("requirements.txt"), "").unwrap();
        let project = Project::open(folder.path(), Settings::NONE).ok().unwrap();
        let missing = "ImportError: no; without module `a.b`, a full build follows; hint: …";
        for (error, expected) in [
            ("NameError: x", Remedy::None),
            ("OSError: x; a full build follows", Remedy::Whole),
            (missing, Remedy::Again),
            (missing, Remedy::Whole),
        ] {
            assert_eq!(remedy(&project, error).unwrap(), expected, "{error}");
        }
    }

    #[test]
    fn sources_are_written_into_the_one_slot() {
        let with = |parts: &[&[u8]]| parts.concat();
        let component = with(&[b"before", MARK, &[0xa5; 12], b"after"]);
        let expected = with(&[b"before", MARK, &4u64.to_le_bytes(), b"text", b"after"]);
        assert_eq!(filled(component.clone(), b"text"), Some(expected));
        for (component, reason) in [
            (b"no slot".to_vec(), "none"),
            (with(&[&component, &component]), "two"),
            (with(&[b"before", MARK, &[0xa5; 11]]), "cut off"),
        ] {
            assert_eq!(filled(component, b"text"), None, "{reason}");
        }
    }
}
