//! Files that settings name: whether they are there, and can be read.
//!
//! Place in the flow: the files beside this one ask it about paths that a reader of `config/read.rs` has
//! accepted.
//! In: a path. Out: a [`Diagnostic`] with the hint that fits, or the config file's content.

use std::borrow::Cow;
use std::path::Path;

use sha2::{Digest as _, Sha256};

use super::file::{self, File, Table};
use super::problem::{AtPlace as _, Place, Problem};
use super::settings::{self as set, Setting};
use super::sources::Sources;
use crate::app::config_files;
use crate::text::hex;
use crate::values::Diagnostic;

/// The component that `modelhost build` makes of a project.
const BUILT: &str = "handler.wasm";

/// The config file at `path`, which `place` asks for, with the further files beside it. `text`, if it is
/// given, stands in place of its content.
pub(super) fn open(place: &Place, path: &Path, text: Option<&str>) -> (File, Vec<Problem>) {
    let mut hasher = Sha256::new();
    let mut read = |number: usize, path: &Path, text: Result<Cow<'_, str>, std::io::Error>| {
        let diagnostic = match text {
            Ok(text) => {
                hasher.update(Sha256::digest(text.as_bytes()));
                return file::parse(number, path, &text);
            }
            Err(_) if !path.exists() => missing(path, false),
            Err(error) => unreadable(path, &error),
        };
        (File::default(), vec![diagnostic.at(place.clone())])
    };
    let content = |path: &Path| crate::file::text(path).map(Cow::Owned);
    let (mut all, mut problems) = read(0, path, text.map(Cow::Borrowed).map_or_else(|| content(path), Ok));
    for (number, path) in (1..).zip(config_files::further(path)) {
        let (further, found) = read(number, &path, content(&path));
        problems.extend(found);
        all.merge(File { path, ..further });
    }
    all.digest = hex(&hasher.finalize());
    (all, problems)
}

/// Reports `file` if it is none.
pub(super) fn existing_file(
    sources: &mut Sources<'_>,
    setting: &Setting,
    table: &Table,
    file: Option<&Path>,
) {
    let Some(file) = file.filter(|file| !file.is_file()) else { return };
    let is_handler = setting.flag == set::PLUGIN.flag;
    let diagnostic = match (file.is_dir(), file.exists()) {
        (true, _) if is_handler => {
            Diagnostic::new("is a folder", "give the `.wasm` file that the build wrote into it")
        }
        (true, _) => Diagnostic::new("is a folder", "give a file"),
        (_, true) => Diagnostic::new("is not a regular file", "give a file that can be read more than once"),
        (_, false) => missing(file, sources.is_in_file(setting, table)),
    };
    sources.report(sources.place(setting, table), diagnostic);
}

/// There is nothing at `path`.
pub(super) fn missing(path: &Path, in_file: bool) -> Diagnostic {
    let base = if in_file { "the folder of the config file" } else { "the current folder" };
    let build = if path.ends_with(BUILT) { "`modelhost build` makes it of a project; or " } else { "" };
    Diagnostic::new(
        format!("there is no `{}`", path.display()),
        format!("{build}check the path; a relative one starts from {base}"),
    )
}

/// The file is there and cannot be read.
pub(super) fn unreadable(path: &Path, error: &std::io::Error) -> Diagnostic {
    let message = format!("cannot read `{}`: {error}", path.display());
    Diagnostic::new(message, "give a text file that the host may read")
}
