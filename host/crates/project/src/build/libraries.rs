//! The libraries of a project: found, and put into the component of its handler.
//!
//! In:  `[build] with` of the project's modelhost.toml: names of libraries that are installed beside this
//!      program, and paths of components, relative to the file.
//! Out: the component that a build has made, with the libraries in it that it imports.
//! Invariant: an import that the host does not have, and no library, fails the build, on one line.

use std::env;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::compose::{Library, compose};
use super::{LARGEST, Project};
use crate::file;
use crate::text::similar;
use crate::values::list;
use crate::{CONFIG, beside};

/// The libraries of this project's own.
const OWN: [&str; 4] = ["image", "outbound", "tensor", "tokenizer"];
/// The namespace of their packages.
const NAMESPACE: &str = "modelhost:";

/// Puts the libraries that a project names into the component that was built of it.
///
/// # Errors
/// The configuration cannot be read, a library is missing, or the parts do not fit.
pub(super) fn put_into(project: &Project, component: &Path) -> anyhow::Result<()> {
    let names = (project.settings.libraries)(&project.folder.join(CONFIG))?;
    let libraries: Vec<Library> =
        names.into_iter().map(|name| read(&project.folder, name)).collect::<anyhow::Result<_>>()?;
    let handler = file::read(component, LARGEST).context("cannot read the component")?;
    let mut idle = Vec::new();
    let composed = compose(&handler, &libraries, &mut idle)?;
    for name in idle {
        // A build does not fail because stderr is closed.
        let _ = writeln!(
            io::stderr(),
            "warning: the handler imports nothing of library `{name}`, which is left out"
        );
    }
    match composed {
        Some(composed) => fs::write(component, composed).context("cannot write the component"),
        None => Ok(()),
    }
}

fn read(project: &Path, name: String) -> anyhow::Result<Library> {
    let path = if is_path(&name) {
        project.join(&name)
    } else {
        let executable = env::current_exe().context("cannot find out where this program is")?;
        let mut places = places(&executable, &name);
        places.find(|path| path.is_file()).with_context(|| missing(&name))?
    };
    let bytes = file::read(&path, LARGEST).with_context(|| {
        format!(
            "cannot read library `{name}`
  hint: `with` has the names of libraries, and paths of components, relative to {CONFIG}"
        )
    })?;
    Ok(Library { name, bytes })
}

fn is_path(name: &str) -> bool {
    name.contains('/') || name.ends_with(".wasm")
}

/// Where a library may be that came with the program at `executable`.
fn places(executable: &Path, name: &str) -> impl Iterator<Item = PathBuf> + use<> {
    let installed = format!("share/modelhost/library/{name}.wasm");
    let built = format!("target/components/library/{name}.wasm");
    beside(executable, &installed, &built)
}

fn missing(name: &str) -> String {
    if OWN.contains(&name) {
        return format!(
            "library `{name}` is not installed
  hint: install the package `modelhost-library`, or `make libraries` in the sources; a path such as \
             `\"libraries/{name}.wasm\"` names a file"
        );
    }
    let hint = match similar(name, OWN) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => {
            format!("there is {}; a path such as `\"./{name}.wasm\"` names a component", list(OWN, "and"))
        }
    };
    format!("there is no library `{name}`\n  hint: {hint}")
}

/// The hint that names the library which exports an interface.
pub(super) fn hint(import: &str) -> String {
    let own = import.strip_prefix(NAMESPACE).and_then(|rest| rest.split_once('/'));
    let library = match own {
        Some((name, _)) if OWN.contains(&name) => name,
        _ => "path/of/library.wasm",
    };
    format!("`[build]` with `with = [\"{library}\"]` in {CONFIG} puts the component in that exports it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_found_where_the_program_is_installed_or_built() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        for place in ["usr/share/modelhost/library", "sources/target/components/library"] {
            fs::create_dir_all(at(place)).unwrap();
            fs::write(at(place).join("image.wasm"), "").unwrap();
        }
        let found = |program: &str| places(&at(program), "image").find(|path| path.is_file());
        assert_eq!(found("usr/bin/modelhost"), Some(at("usr/share/modelhost/library/image.wasm")));
        let built = at("sources/target/components/library/image.wasm");
        assert_eq!(found("sources/target/dist/host"), Some(built));
        assert_eq!(found("elsewhere/bin/modelhost"), None);
    }

    #[test]
    fn what_is_missing_says_what_there_is() {
        let folder = tempfile::tempdir().unwrap();
        for (name, expected) in [
            ("imgae", "there is no library `imgae`\n  hint: did you mean `image`?"),
            (
                "colours",
                "there is no library `colours`\n  hint: there is `image`, `outbound`, \
                 `tensor` and `tokenizer`; a path such as",
            ),
            ("./mine.wasm", "cannot read library `./mine.wasm`\n  hint: `with` has the names"),
        ] {
            let error = read(folder.path(), name.to_owned()).err().map(|error| error.to_string());
            assert!(error.as_ref().is_some_and(|error| error.starts_with(expected)), "{error:?}");
        }
    }
}
