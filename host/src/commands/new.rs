//! `host new`: a handler project that stands alone.
//!
//! In:  a name and a language. Out: a folder with everything that building, testing and serving take.
//! The files are those of `host/templates`, of the contract (`wit/`) and, for Rust, of the SDK; `my-handler`
//! in a template is the project's name. Invariant: nothing is written into a folder that is there already.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::Context as _;
use include_dir::{Dir, DirEntry, include_dir};

use crate::cli::{self, Language, program};
use crate::commands::{Failure, say};

static TEMPLATES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/templates");
static CONTRACT: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../wit");
static SDK: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../guest-sdk/src");
/// The files beside the SDK's sources that they are built with.
const SDK_FILES: [(&str, &[u8]); 2] = [
    ("build.rs", include_bytes!("../../../guest-sdk/build.rs")),
    ("README.md", include_bytes!("../../../guest-sdk/README.md")),
];
const MODEL: &[u8] = include_bytes!("../../../examples/iris-wasm/iris.onnx");

/// The name of the project in a template.
const PLACEHOLDER: &str = "my-handler";
/// Bytes of a name; a package registry takes as many.
const LONGEST_NAME: usize = 64;

/// Runs the command.
///
/// # Errors
/// The name is none, the folder is there already, or cannot be written.
pub fn new(arguments: &cli::New) -> Result<(), Failure> {
    let (name, language) = (arguments.name.as_str(), arguments.lang);
    if !is_name(name) {
        let text = format!(
            "`{name}` is no name for a handler
  hint: lower-case letters, digits and `-`, a letter first, at most {LONGEST_NAME}"
        );
        return Err(Failure::Input(text));
    }
    match fs::create_dir(name) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let text = format!("`{name}` is there already\n  hint: choose another name, or remove it");
            return Err(Failure::Input(text));
        }
        Err(error) => return Err(anyhow::Error::new(error).context(format!("cannot make `{name}`")).into()),
    }
    write_project(Path::new(name), name, language).with_context(|| format!("cannot write `{name}`"))?;
    let program = program();
    Ok(say(&format!(
        "made {name}

  cd {name}
  {program} build
  {program} test
  {program} serve --config modelhost.toml
  curl http://127.0.0.1:8000/ --json @sample.json

README.md says the rest"
    ))?)
}

fn is_name(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(is_part)
        && name.len() <= LONGEST_NAME
}

fn write_project(folder: &Path, name: &str, language: Language) -> anyhow::Result<()> {
    let template = match language {
        Language::Rust => "rust",
        Language::Python => "python",
        Language::Js => "js",
    };
    for template in ["common", template] {
        let template = TEMPLATES.get_dir(template).context("a template is missing")?;
        write_tree(template, folder, &|contents| match str::from_utf8(contents) {
            Ok(text) => text.replace(PLACEHOLDER, name).into_bytes(),
            Err(_) => contents.to_owned(),
        })?;
    }
    fs::write(folder.join("iris.onnx"), MODEL)?;
    match language {
        Language::Rust => {
            write_tree(&CONTRACT, &folder.join("wit"), &<[u8]>::to_owned)?;
            let sdk = folder.join("modelhost-guest");
            write_tree(&SDK, &sdk.join("src"), &<[u8]>::to_owned)?;
            for (file, contents) in SDK_FILES {
                fs::write(sdk.join(file), contents)?;
            }
        }
        Language::Python | Language::Js => {
            // There it is a dependency, and what it depends on lies beside it.
            let dependencies = folder.join("wit/deps");
            let contract = dependencies.join("modelhost");
            fs::create_dir_all(&contract)?;
            for file in CONTRACT.files() {
                fs::write(contract.join(file.path()), file.contents())?;
            }
            if let Some(deps) = CONTRACT.get_dir("deps") {
                write_tree(deps, &dependencies, &<[u8]>::to_owned)?;
            }
        }
    }
    Ok(())
}

/// Writes the files below `tree` into `folder`, each as `filled` makes it.
fn write_tree(tree: &Dir<'_>, folder: &Path, filled: &dyn Fn(&[u8]) -> Vec<u8>) -> anyhow::Result<()> {
    fs::create_dir_all(folder)?;
    for entry in tree.entries() {
        let path = folder.join(entry.path().file_name().unwrap_or_default());
        match entry {
            DirEntry::Dir(tree) => write_tree(tree, &path, filled)?,
            DirEntry::File(file) => fs::write(path, filled(file.contents()))?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_packages_and_endpoints() {
        for name in ["iris", "a", "flower-names-2"] {
            assert!(is_name(name), "{name}");
        }
        let long = "a".repeat(LONGEST_NAME + 1);
        for name in ["", "Iris", "2d", "-a", "a_b", "a/b", "..", "ä", long.as_str()] {
            assert!(!is_name(name), "{name}");
        }
    }
}
