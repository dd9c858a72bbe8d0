//! The world of a handler in Python or JavaScript: what its component exports and imports, in WIT.
//!
//! In: the project's `wit/`, if its author has written a world there; else the interfaces that the sources
//! export and import. Out: a folder with the world `app` and what it depends on.
//! Invariant: a world that the author has written is built as it is.

pub(super) mod python;

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use wit_parser::Resolve;

use super::Project;
use crate::contract::{is_wit, write_dependencies};
use crate::file;
use crate::text::similar;

/// The name of the world.
pub(super) const WORLD: &str = "app";
/// The folder of an author's own world.
const OWN: &str = "wit";
/// The package of the contract, and of its interfaces.
const CONTRACT: &str = "modelhost:handler";
const VERSION: &str = "@0.1.0";
/// The interfaces that a handler may export.
const EXPORTS: [&str; 10] = [
    "init",
    "input-schema",
    "pre-inference",
    "post-inference",
    "pre-inference-tensors",
    "post-inference-tensors",
    "respond",
    "respond-all",
    "operations",
    "websocket",
];

/// The WIT of a project.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct World {
    /// The folder with the world and its dependencies.
    pub(super) folder: PathBuf,
    /// Its text, if it was made of the sources.
    made: Option<String>,
}

impl World {
    /// The author's, if there is one.
    ///
    /// # Errors
    /// A file cannot be read or written.
    pub(super) fn own(project: &Project) -> anyhow::Result<Option<World>> {
        let folder = project.folder.join(OWN);
        let Some(texts) = texts(&folder)? else { return Ok(None) };
        if !texts.iter().any(|(path, _)| path.components().count() == 1) {
            return Ok(None);
        }
        let package = format!("package {CONTRACT}@");
        if texts.iter().any(|(_, text)| text.lines().any(|line| line.starts_with(&package))) {
            return Ok(Some(World { folder, made: None }));
        }
        let made = project.made_wit()?;
        for (path, text) in texts {
            write(&made.join(path), &text)?;
        }
        Ok(Some(World { folder: made, made: None }))
    }

    /// That of sources which export and import these interfaces: `init`, `modelhost:handler/kv@0.1.0`.
    ///
    /// # Errors
    /// An import is not the contract's; or a file cannot be written.
    pub(super) fn of_sources<'a>(
        project: &Project,
        exports: &[&str],
        imports: impl IntoIterator<Item = &'a str>,
    ) -> anyhow::Result<World> {
        let folder = project.made_wit()?;
        let mut world = "package my:handler;\n\n/// Made of the sources.\nworld app {\n".to_owned();
        for import in imports {
            world += &format!("    import {import};\n");
        }
        for export in exports {
            world += &format!("    export {CONTRACT}/{export}{VERSION};\n");
        }
        world.push_str("}\n");
        write(&folder.join("world.wit"), &world)?;
        Ok(World { folder, made: Some(world) })
    }

    /// Whether its text is the author's.
    pub(super) fn is_own(&self) -> bool {
        self.made.is_none()
    }
}

impl Project {
    /// A new folder with what worlds depend on.
    fn made_wit(&self) -> anyhow::Result<PathBuf> {
        let folder = self.private().join("wit");
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot write `{}`", folder.display()));
            }
            _ => {}
        }
        write_dependencies(&folder).with_context(|| format!("cannot write `{}`", folder.display()))?;
        Ok(folder)
    }
}

/// The interfaces among names, in the order of the contract.
pub(super) fn exports(is_there: impl Fn(&str) -> bool) -> Vec<&'static str> {
    EXPORTS.into_iter().filter(|name| is_there(name)).collect()
}

/// The interfaces that a use of the SDK imports: `kv`, `image`.
///
/// # Errors
/// The contract has no such use.
pub(super) fn imports(used: &str) -> anyhow::Result<Vec<String>> {
    Ok(match used {
        "blobs" => ["types", "container", "blobstore"]
            .map(|name| format!("wasi:blobstore/{name}@0.2.0-draft"))
            .to_vec(),
        "kv" | "jobs" | "metrics" | "models" | "request" => vec![format!("{CONTRACT}/{used}{VERSION}")],
        "image" => vec![format!("modelhost:image/images{VERSION}")],
        "outbound" => vec![format!("modelhost:outbound/requests{VERSION}")],
        "tensor" => vec![format!("modelhost:tensor/arithmetic{VERSION}")],
        "tokenizer" => vec![format!("modelhost:tokenizer/tokenizers{VERSION}")],
        _ => bail!("the contract has no `{used}`"),
    })
}

/// Whether there are the interfaces that a bundle imports.
///
/// # Errors
/// There is none of a name, which `source` imports.
pub(super) fn check_imports(source: &str, imports: &[&str]) -> anyhow::Result<()> {
    let scratch = tempfile::tempdir().context("cannot make a folder")?;
    write_dependencies(scratch.path())?;
    write(&scratch.path().join("world.wit"), "package my:handler;\nworld app {}\n")?;
    let mut resolve = Resolve::default();
    resolve.push_dir(scratch.path()).context("the contract is incomplete")?;
    let known: Vec<String> = resolve.interfaces.iter().filter_map(|(id, _)| resolve.id_of(id)).collect();
    let unknown = imports.iter().find(|import| !known.iter().any(|it| it == *import));
    let Some(import) = unknown else { return Ok(()) };
    let hint = match similar(import, known.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "the world that imports it stands in wit/world.wit, its package in a folder of wit/deps"
            .to_owned(),
    };
    bail!("{source} imports `{import}`, which the contract does not have\n  hint: {hint}")
}

/// Refuses a project without a function that the host calls.
///
/// # Errors
/// There is none.
pub(super) fn check_exports(source: &str, exports: &[&str], hint: &str) -> anyhow::Result<()> {
    ensure!(
        exports.iter().any(|export| !["init", "input-schema", "operations"].contains(export)),
        "{source} has no function that the host calls for a request\n  hint: {hint}"
    );
    Ok(())
}

/// The WIT below a folder by their paths in it, in a fixed order; `None` if the folder is not there.
///
/// # Errors
/// One cannot be read.
pub(super) fn texts(folder: &Path) -> anyhow::Result<Option<Vec<(PathBuf, String)>>> {
    let mut found = Vec::new();
    let is_there = folder.is_dir();
    if is_there {
        read(folder, Path::new(""), &mut found)
            .with_context(|| format!("cannot read `{}`", folder.display()))?;
    }
    found.sort();
    Ok(is_there.then_some(found))
}

fn read(folder: &Path, below: &Path, into: &mut Vec<(PathBuf, String)>) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder.join(below))? {
        let path = below.join(entry?.file_name());
        if folder.join(&path).is_dir() {
            read(folder, &path, into)?;
        } else if is_wit(&path) {
            let text = file::text(&folder.join(&path))?;
            into.push((path, text));
        }
    }
    Ok(())
}

/// Writes a text, and the folders that it lies in.
///
/// # Errors
/// It cannot be written.
pub(super) fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(path, text))
        .with_context(|| format!("cannot write `{}`", path.display()))
}

#[cfg(test)]
mod tests {
    use super::super::Settings;
    use super::*;

    /// A project with these files.
    fn project(files: &[(&str, &str)]) -> (tempfile::TempDir, Project) {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [("requirements.txt", ""), (".modelhost/lock", "")].iter().chain(files) {
            write(&folder.path().join(name), text).unwrap();
        }
        let project = Project::open(folder.path(), Settings::NONE).ok().unwrap();
        (folder, project)
    }

    fn resolved(world: &World) -> anyhow::Result<Vec<String>> {
        let mut resolve = Resolve::default();
        let (package, _) = resolve.push_dir(&world.folder)?;
        let id = resolve.select_world(&[package], Some(WORLD))?;
        let found = resolve.worlds.get(id).unwrap();
        Ok(found.imports.keys().chain(found.exports.keys()).map(|key| resolve.name_world_key(key)).collect())
    }

    const WRITTEN: &str = "package my:handler;\nworld app { include modelhost:handler/kv-imports@0.1.0; }\n";

    #[test]
    fn every_use_of_the_sdk_is_in_the_contract() {
        let (_folder, project) = project(&[]);
        for used in [
            "blobs",
            "image",
            "jobs",
            "kv",
            "metrics",
            "models",
            "outbound",
            "request",
            "tensor",
            "tokenizer",
        ] {
            let imports = imports(used).unwrap();
            let names = imports.iter().map(String::as_str);
            let world = World::of_sources(&project, &EXPORTS, names.clone()).unwrap();
            let found = resolved(&world).unwrap();
            assert!(imports.iter().all(|name| found.contains(name)), "{used}: {found:?}");
            assert!(!world.is_own() && found.contains(&"modelhost:handler/respond-all@0.1.0".to_owned()));
            check_imports("app.py", &names.collect::<Vec<_>>()).unwrap();
        }
        assert!(imports("colours").is_err());
    }

    #[test]
    fn the_authors_world_is_built_as_it_is() {
        assert_eq!(World::own(&project(&[]).1).unwrap(), None);
        assert_eq!(World::own(&project(&[("wit/deps/modelhost/a.wit", "")]).1).unwrap(), None);
        // What the program knows is beside a world that names it.
        let interface = ("wit/deps/mine/mine.wit", "package mine:part@1.0.0;\ninterface things {}\n");
        let world = WRITTEN.replace("{ ", "{ import mine:part/things@1.0.0; ");
        let (_folder, with_parts) = project(&[("wit/world.wit", &world), interface]);
        let own = World::own(&with_parts).unwrap().unwrap();
        assert!(own.is_own() && own.folder == with_parts.private().join("wit"));
        let expected = ["mine:part/things@1.0.0", "modelhost:handler/kv@0.1.0"];
        assert_eq!(resolved(&own).unwrap(), expected);
        // A project that has its contract keeps that one: only its own `kv` is there.
        let contract = "package modelhost:handler@0.1.0;\ninterface kv {}\nworld kv-imports { import kv; }\n";
        let (folder, old) = project(&[("wit/world.wit", WRITTEN), ("wit/deps/modelhost/kv.wit", contract)]);
        let own = World::own(&old).unwrap().unwrap();
        assert_eq!(own.folder, folder.path().canonicalize().unwrap().join("wit"));
        assert_eq!(resolved(&own).unwrap(), ["modelhost:handler/kv@0.1.0"]);
    }

    #[test]
    fn an_import_that_is_not_the_contracts_is_named() {
        for (import, hint) in [
            ("modelhost:handler/kw@0.1.0", "did you mean `modelhost:handler/kv@0.1.0`?"),
            (
                "example:slug/slugs@0.1.0",
                "the world that imports it stands in wit/world.wit, its package in a",
            ),
        ] {
            let error = check_imports("handler.js", &[import]).unwrap_err().to_string();
            let expected =
                format!("handler.js imports `{import}`, which the contract does not have\n  hint: {hint}");
            assert!(error.starts_with(&expected), "{error}");
        }
    }
}
