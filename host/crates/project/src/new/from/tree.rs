//! The old project's files.
//!
//! In:  a folder, or one file of it. Out: every file's path below the folder, in order.
//! Invariants: hidden files, environments and what compilers left are not among them; what else is not, as
//! what a link points to, is told; a folder with more than `MOST_FILES` files is refused.

use std::fs;
use std::path::{Path, PathBuf};

use super::python::Source;
use super::yaml::{self, Node};
use crate::file;

/// Files of a project.
const MOST_FILES: usize = 10_000;
/// Bytes of a file that is copied; longer ones are models as a rule, and named in the report.
pub(super) const LARGEST: u64 = 256 << 20;
const LEFT_OUT: [&str; 6] = ["__pycache__", "venv", "env", "node_modules", "site-packages", "target"];

/// A folder that is brought over.
pub(super) struct Tree {
    pub(super) folder: PathBuf,
    /// The file that was named, if it was no folder.
    pub(super) named: Option<String>,
    /// Paths with `/`, and lengths.
    pub(super) files: Vec<(String, u64)>,
    /// Paths that are not among them, and why.
    pub(super) skipped: Vec<(String, String)>,
}

impl Tree {
    /// # Errors
    /// The folder cannot be read, or has too many files.
    pub(super) fn read(path: &Path) -> Result<Tree, String> {
        let unreadable = |error: std::io::Error| format!("cannot read `{}`: {error}", path.display());
        let is_file = fs::metadata(path).map_err(unreadable)?.is_file();
        let (folder, named) = match (is_file, path.parent(), path.file_name()) {
            (true, Some(folder), Some(name)) => {
                let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
                (folder.to_owned(), Some(name.to_string_lossy().into_owned()))
            }
            _ => (path.to_owned(), None),
        };
        let mut tree = Tree { folder, named, files: Vec::new(), skipped: Vec::new() };
        tree.walk("", MOST_FILES)?;
        tree.files.sort();
        Ok(tree)
    }

    fn walk(&mut self, below: &str, most: usize) -> Result<(), String> {
        let folder = self.folder.join(below);
        let unreadable = |error: std::io::Error| format!("cannot read `{}`: {error}", folder.display());
        let entries = match fs::read_dir(&folder) {
            Err(error) if !below.is_empty() => {
                self.skipped.push((below.to_owned(), error.to_string()));
                return Ok(());
            }
            entries => entries.map_err(unreadable)?,
        };
        for entry in entries {
            let entry = entry.map_err(unreadable)?;
            let name = entry.file_name();
            let shown = name.to_string_lossy();
            if shown.starts_with('.') || LEFT_OUT.contains(&shown.as_ref()) {
                continue;
            }
            let path = if below.is_empty() { shown.to_string() } else { format!("{below}/{shown}") };
            if name.to_str().is_none() {
                self.skipped.push((path, "its name is not UTF-8".to_owned()));
                continue;
            }
            let kind = entry.file_type().map_err(unreadable)?;
            if kind.is_dir() {
                self.walk(&path, most)?;
            } else if kind.is_file() {
                self.files.push((path, entry.metadata().map_err(unreadable)?.len()));
            } else {
                let what =
                    if kind.is_symlink() { "a link, which is not followed" } else { "no regular file" };
                self.skipped.push((path, what.to_owned()));
            }
            if self.files.len() > most {
                return Err(format!(
                    "`{}` has more than {most} files\n  hint: name the folder of one project, without its environment",
                    self.folder.display()
                ));
            }
        }
        Ok(())
    }

    pub(super) fn has(&self, path: &str) -> bool {
        self.files.iter().any(|(file, _)| file == path)
    }

    /// Whether there is a file in a folder.
    pub(super) fn has_folder(&self, folder: &str) -> bool {
        self.files.iter().any(|(file, _)| file.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/')))
    }

    /// Files at the top whose names end so.
    pub(super) fn at_top<'a>(&'a self, extension: &'a str) -> impl Iterator<Item = &'a str> {
        let files = self.files.iter().map(|(path, _)| path.as_str());
        files.filter(move |path| !path.contains('/') && path.ends_with(extension))
    }

    /// Paths of the sources in Python.
    pub(super) fn sources(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|(path, _)| path.as_str()).filter(|path| path.ends_with(".py"))
    }

    /// # Errors
    /// It cannot be read, or is no text.
    pub(super) fn text(&self, path: &str) -> Result<String, String> {
        let bytes = file::read(&self.folder.join(path), file::TEXT)
            .map_err(|error| format!("cannot read `{path}`: {error}"))?;
        decoded(&bytes)
            .ok_or_else(|| format!("cannot read `{path}`: it is not UTF-8\n  hint: save it as UTF-8"))
    }

    pub(super) fn source(&self, path: &str) -> Result<Source, String> {
        Ok(Source::read(&self.text(path)?))
    }

    pub(super) fn yaml(&self, path: &str) -> Result<Node, String> {
        yaml::read(&self.text(path)?).map_err(|error| format!("{path}:{error}"))
    }
}

/// A path of a configuration as those of the tree are: `./a/` is `a`.
pub(super) fn local(path: &str) -> &str {
    path.trim_start_matches("./").trim_matches('/')
}

/// A text without its byte order mark, which tells UTF-16.
fn decoded(bytes: &[u8]) -> Option<String> {
    let wide = |unit: fn([u8; 2]) -> u16| {
        let pairs = bytes.chunks(2).skip(1);
        let units: Option<Vec<u16>> = pairs.map(|pair| pair.try_into().ok().map(unit)).collect();
        String::from_utf16(&units?).ok()
    };
    match bytes {
        [0xff, 0xfe, ..] => wide(u16::from_le_bytes),
        [0xfe, 0xff, ..] => wide(u16::from_be_bytes),
        [0xef, 0xbb, 0xbf, rest @ ..] | rest => str::from_utf8(rest).ok().map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_decoded_by_their_mark() {
        for (bytes, expected) in [
            (b"a\xc3\xbc".as_slice(), Some("a\u{fc}")),
            (b"\xef\xbb\xbfa", Some("a")),
            (b"\xff\xfea\0\xfc\0", Some("a\u{fc}")),
            (b"\xfe\xff\0a", Some("a")),
            (b"\xff\xfea", None),
            (b"\xfc", None),
            (b"", Some("")),
        ] {
            assert_eq!(decoded(bytes).as_deref(), expected, "{bytes:?}");
        }
        assert_eq!((local("./a/b/"), local("."), local("/a")), ("a/b", ".", "a"));
    }

    #[test]
    fn what_is_not_taken_is_told() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc", folder.path().join("data")).unwrap();
        let name: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(b"x\xff");
        fs::write(folder.path().join(name), "x").unwrap();
        let mut skipped = Tree::read(folder.path()).unwrap().skipped;
        skipped.sort();
        let shown: Vec<String> = skipped.iter().map(|(path, why)| format!("{path}: {why}")).collect();
        assert_eq!(shown, ["data: a link, which is not followed", "x\u{fffd}: its name is not UTF-8"]);
    }

    #[test]
    fn files_are_found_below_and_those_of_tools_are_not() {
        let folder = tempfile::tempdir().unwrap();
        for path in ["model/model.py", "config.yaml", "venv/x.py", ".git/x", "model/__pycache__/x.pyc"] {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
        let mut tree = Tree::read(folder.path()).unwrap();
        assert_eq!(tree.files, [("config.yaml".to_owned(), 1), ("model/model.py".to_owned(), 1)]);
        assert!(tree.has_folder("model") && !tree.has_folder("mod") && tree.has("config.yaml"));
        let named = Tree::read(&folder.path().join("config.yaml")).unwrap();
        assert_eq!(named.named.as_deref(), Some("config.yaml"));
        // As many as the limit are taken, and no more.
        tree.files.clear();
        assert_eq!(tree.walk("", 2), Ok(()));
        tree.files.clear();
        assert!(tree.walk("", 1).unwrap_err().contains("more than 1 files"));
    }
}
