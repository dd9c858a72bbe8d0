//! Where a model lies: the file or folder that an engine is given, found from the path that the operator
//! gave.
//!
//! In:   a path and, for a folder of versions, which one. Out: what to load, in which format.
//!
//! A path is one of
//! - an ONNX file;
//! - a folder with one model: a SavedModel's `saved_model.pb`, or one file `*.onnx` of any name;
//! - a folder of versions, as TensorFlow Serving and Triton have them: folders with one model each,
//!   `1/model.onnx`, `2/saved_model.pb`. The highest number counts unless another one is asked for. Entries
//!   whose names are no numbers are not versions.
//!
//! What could be meant in two ways is an error: nothing says which of two models is the right one.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The file that makes a folder a SavedModel.
const SAVED_MODEL: &str = "saved_model.pb";

/// The usual name of an ONNX model in a folder.
const ONNX: &str = "model.onnx";

/// The format of a model; each has one engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// One file, and weights beside it if there are many.
    Onnx,
    /// A folder.
    SavedModel,
}

/// A model that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// The file of an ONNX model, the folder of a SavedModel.
    pub path: PathBuf,
    /// The format found there.
    pub format: Format,
    /// The version's number, if the path named a folder of versions.
    pub version: Option<u64>,
    /// Size of what is loaded, in bytes: roughly what a session needs for weights.
    pub bytes: u64,
    /// When the newest of its files was written.
    pub written: SystemTime,
}

impl Location {
    /// Whether the same files, unchanged, were found here and there, by any path and version.
    pub fn is_same(&self, other: &Location) -> bool {
        let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        (self.format, self.bytes, self.written) == (other.format, other.bytes, other.written)
            && real(&self.path) == real(&other.path)
    }

    /// Bytes of weights by which sessions and their threads are planned; none where the engine plans its
    /// threads itself.
    pub fn bytes_to_plan_by(&self) -> u64 {
        match self.format {
            Format::Onnx => self.bytes,
            Format::SavedModel => 0,
        }
    }

    /// Finds the model that `path` names.
    ///
    /// # Errors
    /// Text for the operator: what is missing, or is neither.
    pub fn find(path: &Path, version: Option<u64>) -> Result<Location, String> {
        let metadata = fs::metadata(path).map_err(|error| error.to_string())?;
        let alone = match metadata.is_file() {
            true => Some(onnx(path, None)),
            false => in_folder(path, None)?,
        };
        let versions = if metadata.is_file() { Vec::new() } else { versions(path)? };
        match (alone, version) {
            (Some(alone), _) if !versions.is_empty() => {
                let file = match alone.format {
                    Format::Onnx => file_name(&alone.path),
                    Format::SavedModel => SAVED_MODEL,
                };
                Err(format!("it has `{file}` and versions ({}); keep one of both", numbers(&versions)))
            }
            (Some(location), None) => Ok(location),
            (Some(_), Some(version)) => {
                Err(format!("version {version} is asked for, but it is one model, not a folder of versions"))
            }
            (None, _) => versioned(&versions, version),
        }
    }

    /// The numbers of the highest versions in a folder of versions that have a model, but for `number`: at
    /// most `count`, the highest first.
    ///
    /// # Errors
    /// Text for the operator.
    pub fn others(path: &Path, number: u64, count: usize) -> Result<Vec<u64>, String> {
        let others = Location::complete(path)?.into_iter().filter_map(|location| location.version);
        Ok(others.filter(|version| *version != number).take(count).collect())
    }

    /// The versions in a folder of versions that have a model, the highest first.
    ///
    /// # Errors
    /// Text for the operator: it cannot be read.
    pub fn complete(path: &Path) -> Result<Vec<Location>, String> {
        let found = versions(path)?.into_iter().rev();
        // One that has several is reported when it is loaded.
        Ok(found.filter_map(|(number, folder)| in_folder(&folder, Some(number)).ok().flatten()).collect())
    }
}

/// The one model that lies in `folder` itself, if any does.
///
/// # Errors
/// There are several.
fn in_folder(folder: &Path, version: Option<u64>) -> Result<Option<Location>, String> {
    let entries = fs::read_dir(folder).map_err(|error| error.to_string())?;
    let mut models: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    models.retain(|path| {
        let name = file_name(path);
        // A hidden one is what a tool left: `._model.onnx`.
        let is_onnx = name.ends_with(".onnx") && !name.starts_with('.');
        (is_onnx || name == SAVED_MODEL) && path.is_file()
    });
    models.sort();
    match models.as_slice() {
        [] => Ok(None),
        [model] if file_name(model) == SAVED_MODEL => Ok(Some(saved_model(folder, version))),
        [model] => Ok(Some(onnx(model, version))),
        several => {
            let names: Vec<_> = several.iter().map(|path| format!("`{}`", file_name(path))).collect();
            Err(format!("it has several models, {}; keep one or name its file", names.join(", ")))
        }
    }
}

fn file_name(path: &Path) -> &str {
    path.file_name().and_then(OsStr::to_str).unwrap_or_default()
}

/// The versions in `folder`, by number.
fn versions(folder: &Path) -> Result<Vec<(u64, PathBuf)>, String> {
    let mut versions: Vec<(u64, PathBuf)> = fs::read_dir(folder)
        .map_err(|error| error.to_string())?
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let number = number(entry.file_name().to_str()?)?;
            entry.path().is_dir().then(|| (number, entry.path()))
        })
        .collect();
    versions.sort();
    Ok(versions)
}

/// The highest of `versions`, or the one asked for.
fn versioned(versions: &[(u64, PathBuf)], wanted: Option<u64>) -> Result<Location, String> {
    let found = match wanted {
        None => versions.last(),
        Some(wanted) => versions.iter().find(|(number, _)| *number == wanted),
    };
    match (found, wanted) {
        (Some((number, folder)), _) => match in_folder(folder, Some(*number)) {
            Ok(Some(location)) => Ok(location),
            Ok(None) => Err(format!("version {number} has neither `{ONNX}` nor `{SAVED_MODEL}`")),
            Err(error) => Err(format!("version {number}: {error}")),
        },
        (None, Some(wanted)) if !versions.is_empty() => {
            Err(format!("there is no version {wanted}; there are {}", numbers(versions)))
        }
        (None, _) => Err(format!(
            "it is a folder without a model (`{ONNX}` or another file `*.onnx`, `{SAVED_MODEL}`) and without \
             versions (`1/{ONNX}`, `1/{SAVED_MODEL}`)"
        )),
    }
}

/// `1, 2`
fn numbers(versions: &[(u64, PathBuf)]) -> String {
    versions.iter().map(|(number, _)| number.to_string()).collect::<Vec<_>>().join(", ")
}

/// `7` for `7` and for `007`, which people write to make a listing sort.
fn number(name: &str) -> Option<u64> {
    name.bytes().all(|byte| byte.is_ascii_digit()).then(|| name.parse().ok()).flatten()
}

fn onnx(file: &Path, version: Option<u64>) -> Location {
    let (bytes, written) = measure(onnx_files(file));
    Location { path: file.into(), format: Format::Onnx, version, bytes, written }
}

fn saved_model(folder: &Path, version: Option<u64>) -> Location {
    let variables = fs::read_dir(folder.join("variables")).into_iter().flatten().flatten();
    let files = variables.map(|entry| entry.path()).chain([folder.join(SAVED_MODEL)]);
    let (bytes, written) = measure(files);
    Location { path: folder.into(), format: Format::SavedModel, version, bytes, written }
}

/// An ONNX file and those beside it that hold its weights, by the names that exporters give them:
/// `model.onnx.data`, `model.onnx_data`, `model.data`, `model_weights.bin`. A model that names its weights
/// otherwise is loaded as well; only their size and age are not known.
pub fn onnx_files(file: &Path) -> Vec<PathBuf> {
    let mut files = vec![file.to_owned()];
    let stem = file.file_stem().and_then(OsStr::to_str).unwrap_or_default();
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let beside = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    files.extend(beside.filter(|other| {
        let name = other.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let rest = name.strip_prefix(stem).filter(|_| !stem.is_empty()).unwrap_or_default();
        let weights = [".onnx.data", ".onnx_data", ".data", ".bin", ".weights"];
        let named_so = rest.starts_with(['.', '_']) && weights.iter().any(|end| rest.ends_with(end));
        named_so && other.is_file()
    }));
    files
}

/// Size of all `files` and the time of the newest.
fn measure(files: impl IntoIterator<Item = PathBuf>) -> (u64, SystemTime) {
    let facts = files.into_iter().filter_map(|file| fs::metadata(file).ok());
    facts.fold((0, SystemTime::UNIX_EPOCH), |(bytes, newest), file| {
        (bytes + file.len(), file.modified().map_or(newest, |time| time.max(newest)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes `files` in a fresh folder and finds the model there: its path below the folder and its version,
    /// or the error.
    fn find(files: &[&str], version: Option<u64>) -> Result<(String, Option<u64>), String> {
        let root = tempfile::tempdir().unwrap();
        for file in files {
            let file = root.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "x").unwrap();
        }
        let found = Location::find(root.path(), version)?;
        let path = found.path.strip_prefix(root.path()).unwrap().display().to_string();
        assert_eq!(found.format == Format::Onnx, path.ends_with(".onnx"));
        assert_eq!(found.bytes, files.iter().filter(|file| file.starts_with(&path)).count() as u64);
        Ok((path, found.version))
    }

    #[test]
    fn a_version_is_found_by_its_number() {
        let found = |path: &str, version| Ok((path.to_owned(), version));
        let two = ["1/model.onnx", "2/model.onnx", "notes/readme", "3"];
        assert_eq!(find(&two, None), found("2/model.onnx", Some(2)));
        assert_eq!(find(&two, Some(1)), found("1/model.onnx", Some(1)));
        assert_eq!(find(&two, Some(4)), Err("there is no version 4; there are 1, 2".to_owned()));
        // By number, not by text.
        let ten = ["9/model.onnx", "010/saved_model.pb", "010/variables/variables.index"];
        assert_eq!(find(&ten, None), found("010", Some(10)));
        assert_eq!(find(&["saved_model.pb"], None), found("", None));
    }

    /// As KServe's storage initializer leaves a model in `/mnt/models`.
    #[test]
    fn a_folder_with_one_model_is_that_model() {
        let found = |path: &str, version| Ok((path.to_owned(), version));
        assert_eq!(find(&["model.onnx", "config.json", ".other.onnx"], None), found("model.onnx", None));
        assert_eq!(find(&["iris.onnx", "notes/other.onnx"], None), found("iris.onnx", None));
        assert_eq!(find(&["1/iris.onnx"], None), found("1/iris.onnx", Some(1)));
    }

    #[test]
    fn weights_beside_an_onnx_file_belong_to_it() {
        let root = tempfile::tempdir().unwrap();
        for file in [
            "m.onnx",
            "m.onnx.data",
            "m.onnx_data",
            "m_weights.bin",
            "m_labels.csv",
            "m.wasm",
            "m2.onnx",
            "n.data",
        ] {
            fs::write(root.path().join(file), "x").unwrap();
        }
        let mut names: Vec<String> = onnx_files(&root.path().join("m.onnx"))
            .iter()
            .map(|file| file.file_name().unwrap().to_str().unwrap().to_owned())
            .collect();
        names.sort();
        assert_eq!(names, ["m.onnx", "m.onnx.data", "m.onnx_data", "m_weights.bin"]);
        assert_eq!(Location::find(&root.path().join("m.onnx"), None).unwrap().bytes, 4);
    }

    #[test]
    fn what_is_no_model_is_named() {
        let error = |files: &[&str], version| find(files, version).unwrap_err();
        assert_eq!(
            error(&["readme", ".model.onnx"], None),
            "it is a folder without a model (`model.onnx` or another file `*.onnx`, `saved_model.pb`) and without \
             versions (`1/model.onnx`, `1/saved_model.pb`)"
        );
        assert_eq!(error(&["1/x"], None), "version 1 has neither `model.onnx` nor `saved_model.pb`");
        for (files, expected) in [
            (
                &["1/model.onnx", "1/saved_model.pb"][..],
                "version 1: it has several models, `model.onnx`, `saved_model.pb`; keep one or name its file",
            ),
            (
                &["model.onnx", "b.onnx"],
                "it has several models, `b.onnx`, `model.onnx`; keep one or name its file",
            ),
            (
                &["model.onnx", "1/model.onnx", "2/x"],
                "it has `model.onnx` and versions (1, 2); keep one of both",
            ),
            (&["saved_model.pb", "1/x"], "it has `saved_model.pb` and versions (1); keep one of both"),
        ] {
            assert_eq!(error(files, None), expected);
        }
        assert_eq!(
            error(&["saved_model.pb"], Some(1)),
            "version 1 is asked for, but it is one model, not a folder of versions"
        );
        let missing = Location::find(Path::new("/missing"), None).unwrap_err();
        assert_eq!(missing, "No such file or directory (os error 2)");
    }
}
