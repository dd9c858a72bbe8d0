//! The old project's files.
//!
//! In:  a folder, or one file of it. Out: every file's path below the folder, in order.
//! Invariants: hidden files, environments and what compilers left are not among them, nor what a link points
//! to; a folder with more
//! than `MOST_FILES` files is refused.

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
        let mut tree = Tree { folder, named, files: Vec::new() };
        tree.walk("", MOST_FILES)?;
        tree.files.sort();
        Ok(tree)
    }

    fn walk(&mut self, below: &str, most: usize) -> Result<(), String> {
        let folder = self.folder.join(below);
        let unreadable = |error: std::io::Error| format!("cannot read `{}`: {error}", folder.display());
        for entry in fs::read_dir(&folder).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let Some(name) = entry.file_name().to_str().map(str::to_owned) else { continue };
            if name.starts_with('.') || LEFT_OUT.contains(&name.as_str()) {
                continue;
            }
            let path = if below.is_empty() { name } else { format!("{below}/{name}") };
            let kind = entry.file_type().map_err(unreadable)?;
            if kind.is_dir() {
                self.walk(&path, most)?;
            } else if kind.is_file() {
                self.files.push((path, entry.metadata().map_err(unreadable)?.len()));
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

    /// # Errors
    /// It cannot be read, or is no text.
    pub(super) fn text(&self, path: &str) -> Result<String, String> {
        file::text(&self.folder.join(path)).map_err(|error| format!("cannot read `{path}`: {error}"))
    }

    pub(super) fn source(&self, path: &str) -> Result<Source, String> {
        Ok(Source::read(&self.text(path)?))
    }

    pub(super) fn yaml(&self, path: &str) -> Result<Node, String> {
        yaml::read(&self.text(path)?).map_err(|error| format!("{path}:{error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
