//! A handler project that stands alone: `host new`.
//!
//! In:  a name, a language and a template; or a name and a project of another system (`new/from.rs`). Out: a
//!      folder with everything that building, testing and serving take.
//! The files are those of `templates` (`languages/LANGUAGE`, `TEMPLATE/common`, `TEMPLATE/LANGUAGE`), of
//! the contract (`wit/`) and of the language's SDK; `my-handler` in a template is the project's name, and
//! README.md is put together of the language's and of what the template says.
//! Invariant: nothing is written into a folder that is there already.

mod choices;
mod from;

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::Context as _;
use include_dir::{Dir, DirEntry, include_dir};

pub use self::choices::{Language, Template};
pub(crate) use self::from::{advice, distribution, module};
use crate::contract::CONTRACT;
use crate::program::{is_the_servers, program};
use crate::{CONFIG, Failure};

static TEMPLATES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/templates");
static RUST_SDK: Dir<'_> = include_dir!("$OUT_DIR/sdk/src");
static PYTHON_SDK: Dir<'_> = include_dir!("$OUT_DIR/sdk/python/modelhost_guest");
static JS_SDK: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../../guest-sdk/js/src");
static GO_SDK: Dir<'_> = include_dir!("$OUT_DIR/sdk/go");
static C_SDK: Dir<'_> = include_dir!("$OUT_DIR/sdk/c");
static ZIG_SDK: Dir<'_> = include_dir!("$OUT_DIR/sdk/zig");
/// A file of a project, and its contents.
type File = (&'static str, &'static [u8]);
const RUST_SDK_FILES: [File; 3] = [
    ("macros/src/lib.rs", include_bytes!("../../../../guest-sdk/macros/src/lib.rs")),
    ("build.rs", include_bytes!("../../../../guest-sdk/build.rs")),
    ("README.md", include_bytes!("../../../../guest-sdk/README.md")),
];
const PYTHON_SDK_FILES: [File; 3] = [
    ("pyproject.toml", include_bytes!("../../../../guest-sdk/python/pyproject.toml")),
    ("wheel_of_this_folder.py", include_bytes!("../../../../guest-sdk/python/wheel_of_this_folder.py")),
    ("README.md", include_bytes!("../../../../guest-sdk/python/README.md")),
];
const JS_SDK_FILES: [File; 2] = [
    ("package.json", include_bytes!("../../../../guest-sdk/js/package.json")),
    ("README.md", include_bytes!("../../../../guest-sdk/js/README.md")),
];
/// The model of the templates that name irises.
const IRIS: File = ("iris.onnx", include_bytes!("../../../../examples/iris-wasm/iris.onnx"));
/// The folder of the SDK in a project.
const SDK: &str = "modelhost-guest";
const README: &str = "README.md";
const IGNORE: &str = ".gitignore";

/// The name of the project in a template.
const PLACEHOLDER: &str = "my-handler";
/// Bytes of a name; a package registry takes as many.
const LONGEST_NAME: usize = 64;

/// Makes a project of a template; what to do next.
///
/// # Errors
/// The name is none, the language lacks the template, the folder is there already, or cannot be written.
pub fn create(name: &str, language: Language, template: Template) -> Result<String, Failure> {
    check_name(name)?;
    if let Some(refusal) = refusal(language, template) {
        return Err(Failure::Input(refusal));
    }
    made(name, |folder| write_project(folder, name, language, template))?;
    let program = program();
    // Golden cases are for handlers around a model.
    let test = if template == Template::App { String::new() } else { format!("  {program} test\n") };
    Ok(format!(
        "made {name}

  cd {name}
  {program} build
{test}  {program} serve --config modelhost.toml

README.md says what to send it"
    ))
}

/// Makes a project of another system's, `api` of those that it has; what came of it.
///
/// # Errors
/// The name is none, the old project cannot be read, the folder is there already, or cannot be written.
pub fn migrate(name: &str, old: &Path, api: Option<&str>) -> Result<String, Failure> {
    check_name(name)?;
    let migration = from::read(old, api).map_err(Failure::Input)?;
    made(name, |folder| write_migration(folder, name, migration))
}

fn check_name(name: &str) -> Result<(), Failure> {
    if !is_name(name) {
        let text = format!(
            "`{name}` is no name for a handler
  hint: lower-case letters, digits and `-`, a letter first, at most {LONGEST_NAME}"
        );
        return Err(Failure::Input(text));
    }
    if name == SDK || is_the_servers(name) {
        let of = if name == SDK { "the SDK in the project" } else { "one of the server's own paths" };
        let text = format!(
            "`{name}` is the name of {of}
  hint: choose another name"
        );
        return Err(Failure::Input(text));
    }
    Ok(())
}

/// Makes a folder, and writes to it; without it if that fails.
fn made<T>(name: &str, write: impl FnOnce(&Path) -> anyhow::Result<T>) -> Result<T, Failure> {
    let folder = Path::new(name);
    match fs::create_dir(folder) {
        Ok(()) => {
            let written = write(folder).with_context(|| format!("cannot write `{name}`"));
            // A second failure would say no more than the first.
            Ok(written.inspect_err(|_| drop(fs::remove_dir_all(folder)))?)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let text = format!("`{name}` is there already\n  hint: choose another name, or remove it");
            Err(Failure::Input(text))
        }
        Err(error) => Err(anyhow::Error::new(error).context(format!("cannot make `{name}`")).into()),
    }
}

/// Writes what was made of another system's project; what to say of it.
fn write_migration(folder: &Path, name: &str, migration: from::Migration) -> anyhow::Result<String> {
    fs::write(folder.join(README), text("from/README.md")?.replace(PLACEHOLDER, name))?;
    fs::write(folder.join(IGNORE), text(&format!("languages/python/{IGNORE}"))?)?;
    let sdk = folder.join(SDK);
    write_tree(&PYTHON_SDK, &sdk.join("modelhost_guest"), &<[u8]>::to_owned)?;
    write_files(&PYTHON_SDK_FILES, &sdk)?;
    let wit = folder.join("wit");
    fs::create_dir(&wit)?;
    fs::write(wit.join("world.wit"), migration.world())?;
    migration.write(folder, name)
}

fn is_name(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(is_part)
        && name.len() <= LONGEST_NAME
}

/// Why a template is not there in a language, if it is not.
fn refusal(language: Language, template: Template) -> Option<String> {
    let template = template.key();
    let is_there =
        |language: &Language| TEMPLATES.get_dir(format!("{template}/{}", language.key())).is_some();
    if is_there(&language) {
        return None;
    }
    let there: Vec<_> = Language::ALL.into_iter().filter(is_there).collect();
    let listed = there.iter().map(|language| language.name()).collect::<Vec<_>>().join(", ");
    let first = there.first().map_or("rust", |language| language.key());
    Some(format!(
        "the template `{template}` is there in {listed}, not in {}
  hint: `--lang {first}`, or `--template iris`, which is there in every language",
        language.name()
    ))
}

fn write_project(folder: &Path, name: &str, language: Language, template: Template) -> anyhow::Result<()> {
    let (language_folder, language_name) = (language.key(), language.name());
    let template_folder = template.key();
    let named = |contents: &[u8]| match str::from_utf8(contents) {
        Ok(text) => text.replace(PLACEHOLDER, name).into_bytes(),
        Err(_) => contents.to_owned(),
    };
    let base = format!("languages/{language_folder}");
    for part in [&base, &format!("{template_folder}/common"), &format!("{template_folder}/{language_folder}")]
    {
        let part = TEMPLATES.get_dir(part).context("a template is missing")?;
        write_tree(part, folder, &named)?;
    }

    let said = |file: &str| text(&format!("{template_folder}/{file}"));
    let readme = text(&format!("{base}/{README}"))?.replace(PLACEHOLDER, name);
    let about = said("about.md")?.replace("LANGUAGE", language_name).replace(PLACEHOLDER, name);
    // Golden cases are for handlers around a model.
    let readme = if template == Template::App { readme.replace("$ modelhost test\n", "") } else { readme };
    let readme = readme.replace("<!-- about -->\n", &about).replace("<!-- files -->\n", said("files.md")?);
    fs::write(folder.join(README), readme)?;
    if let Ok(keys) = text(&format!("{base}/endpoint.toml")) {
        let config = said(&format!("common/{CONFIG}"))?.replace(PLACEHOLDER, name);
        fs::write(folder.join(CONFIG), config + keys)?;
        fs::remove_file(folder.join("endpoint.toml"))?;
    }
    if !matches!(template, Template::Text | Template::Image) {
        write_files(&[IRIS], folder)?;
    }

    let sdk = folder.join(SDK);
    match language {
        Language::Rust => {
            write_tree(&CONTRACT, &folder.join("wit"), &<[u8]>::to_owned)?;
            write_tree(&RUST_SDK, &sdk.join("src"), &<[u8]>::to_owned)?;
            fs::create_dir_all(sdk.join("macros/src"))?;
            write_files(&RUST_SDK_FILES, &sdk)?;
        }
        Language::Python => {
            write_tree(&PYTHON_SDK, &sdk.join("modelhost_guest"), &<[u8]>::to_owned)?;
            write_files(&PYTHON_SDK_FILES, &sdk)?;
        }
        Language::Js | Language::Ts => {
            write_tree(&JS_SDK, &sdk.join("src"), &<[u8]>::to_owned)?;
            write_files(&JS_SDK_FILES, &sdk)?;
        }
        Language::Go => write_tree(&GO_SDK, &sdk, &<[u8]>::to_owned)?,
        Language::C | Language::Cpp => write_tree(&C_SDK, &sdk, &<[u8]>::to_owned)?,
        Language::Zig => write_tree(&ZIG_SDK, &sdk, &<[u8]>::to_owned)?,
    }
    Ok(())
}

fn write_files(files: &[File], folder: &Path) -> anyhow::Result<()> {
    for (name, contents) in files {
        fs::write(folder.join(name), contents)?;
    }
    Ok(())
}

/// A text of the templates.
fn text(path: &str) -> anyhow::Result<&'static str> {
    TEMPLATES.get_file(path).and_then(|file| file.contents_utf8()).context("a template is missing")
}

/// Writes the files below `tree` into `folder`, each as `filled` makes it, but for what Python left there.
fn write_tree(tree: &Dir<'_>, folder: &Path, filled: &dyn Fn(&[u8]) -> Vec<u8>) -> anyhow::Result<()> {
    fs::create_dir_all(folder)?;
    for entry in tree.entries() {
        let name = entry.path().file_name().unwrap_or_default();
        match entry {
            DirEntry::Dir(_) if name == "__pycache__" => {}
            DirEntry::Dir(tree) => write_tree(tree, &folder.join(name), filled)?,
            DirEntry::File(file) => fs::write(folder.join(name), filled(file.contents()))?,
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
