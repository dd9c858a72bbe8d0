//! Makes files of recordings, one after the other, on a thread of its own.
//!
//! Place in the flow: behind the queue of [`super::Archive`]. In: finished requests. Out:
//! `FOLDER/ENDPOINT/MILLISECONDS-REQUEST_ID.json`, 0600 in folders of 0700. A file appears under its name
//! when it is complete: a reader of the folder never sees half of one. Once another file would make the
//! folder larger than it may be, writing ends for good, with one warning.
//! Invariants: nothing in a name is the caller's but letters, digits, `-` and `_`; no file is ever
//! overwritten; a disk that fails costs recordings and nothing else.

use std::cell::Cell;
use std::fs::{self, DirBuilder};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use super::format::calls::{ModelCall, NamedModel, Outbound};
use super::format::{Exchange, Handler, LONGEST, Outcome, Recording, Sent, Signature, tensors};
use super::{Config, Finished, RecordError, State};
use crate::file::private;
use crate::request::{Input, Output};
use crate::time::unix_milliseconds;

/// Most characters of a request's id that a name takes over.
const LONGEST_ID: usize = 64;

/// The folder, and what is in it.
pub(super) struct Writer {
    folder: PathBuf,
    size: u64,
    used: Cell<u64>,
    state: Arc<State>,
    /// The last file could not be written, which has been said.
    failing: Cell<bool>,
}

impl Writer {
    pub(super) fn open(config: &Config, state: Arc<State>) -> Result<Writer, RecordError> {
        let error = |cause, hint| RecordError { folder: config.folder.display().to_string(), cause, hint };
        let own = || -> io::Result<(PathBuf, u64)> {
            DirBuilder::new().recursive(true).mode(0o700).create(&config.folder)?;
            let folder = fs::canonicalize(&config.folder)?;
            // A file system that cannot be written to is found out now.
            drop(tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(&folder)?);
            let used = used(&folder)?;
            Ok((folder, used))
        };
        let (folder, used) =
            own().map_err(|cause| error(cause, "choose a folder that this user can write to"))?;
        let mode = fs::metadata(&folder).map_or(0, |metadata| metadata.mode());
        if mode & 0o022 != 0 {
            let cause = io::Error::other("others can write to it");
            return Err(error(cause, "choose a folder of this user's own, or `chmod go-w` it"));
        }
        make_folder(&folder).map_err(|cause| error(cause, "choose a folder of this user's own"))?;
        Ok(Writer { folder, size: config.size, used: Cell::new(used), state, failing: Cell::new(false) })
    }

    /// Its canonical path.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes one, or counts it as dropped.
    pub(super) fn write(&self, finished: &Finished) {
        let counts = &finished.counts;
        match self.try_write(finished) {
            Ok(true) => {
                self.failing.set(false);
                counts.written.inc();
            }
            Ok(false) => counts.dropped.inc(),
            Err(error) => {
                counts.dropped.inc();
                if !self.failing.replace(true) {
                    tracing::warn!(endpoint = %finished.endpoint, folder = %self.folder.display(),
                        "cannot write a recording: {error}; nor may the next ones be, until one is written");
                }
            }
        }
        self.state.waiting.fetch_sub(finished.weight, Ordering::Relaxed);
    }

    /// `false` if it is too long, or the folder full.
    fn try_write(&self, finished: &Finished) -> io::Result<bool> {
        if self.state.full.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let Some(recording) = recording(finished) else {
            tracing::warn!(endpoint = %finished.endpoint, request.id = %finished.request.id,
                "not recorded: its handler asked for the time or for random bytes too often");
            return Ok(false);
        };
        let mut text = serde_json::to_vec_pretty(&recording)?;
        text.push(b'\n');
        if text.len() > LONGEST {
            tracing::warn!(endpoint = %finished.endpoint, request.id = %finished.request.id,
                "not recorded: it would take {} bytes, and the longest recording has {LONGEST}", text.len());
            return Ok(false);
        }
        let used = self.used.get().saturating_add(text.len() as u64);
        if used > self.size {
            self.state.full.store(true, Ordering::Relaxed);
            tracing::warn!(folder = %self.folder.display(),
                "recording ends: the folder would hold more than {} bytes", self.size);
            return Ok(false);
        }
        let folder = self.folder.join(&*finished.endpoint);
        make_folder(&folder)?;
        let mut file = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(&folder)?;
        file.write_all(&text)?;
        let mut name = name(finished.at, &finished.request.id);
        // The same id twice within a millisecond: callers choose ids.
        for number in 2_u64.. {
            match file.persist_noclobber(folder.join(format!("{name}.json"))) {
                Ok(_) => break,
                Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {
                    file = error.file;
                    name = format!("{}-{number}", self::name(finished.at, &finished.request.id));
                }
                Err(error) => return Err(error.error),
            }
        }
        self.used.set(used);
        Ok(true)
    }
}

/// How the names of files begin that are not complete.
const UNFINISHED: &str = ".unfinished-";

fn make_folder(folder: &Path) -> io::Result<()> {
    private::folder(folder)
}

/// Bytes of all files in `folder` and its folders, which is as deep as recordings lie.
fn used(folder: &Path) -> io::Result<u64> {
    let mut used = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => {
                for file in fs::read_dir(entry.path())? {
                    used += file?.metadata()?.len();
                }
            }
            false => used += entry.metadata()?.len(),
        }
    }
    Ok(used)
}

fn name(at: SystemTime, id: &str) -> String {
    let milliseconds = unix_milliseconds(at);
    let safe = |c: char| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '-' };
    let id: String = id.chars().map(safe).take(LONGEST_ID).collect();
    format!("{milliseconds}-{id}")
}

/// The recording in a file; `None` if the log was too short for all that the handler drew.
fn recording(finished: &Finished) -> Option<Recording> {
    let Finished { at, endpoint, plugin, models, request, log, outcome, .. } = finished;
    let brought = match &request.input {
        Input::Tensors(input) => Some(&input.tensors),
        Input::Body(..) | Input::Exchange(_) | Input::Socket(_) => None,
    };
    let is_tensors = matches!(outcome, Ok(Output::Tensors(_)));
    let recorded = humantime::format_rfc3339_millis(*at).to_string();
    let recording = Recording::begin(
        (endpoint.to_string(), recorded),
        Handler::of(plugin),
        Sent::of(request, plugin),
        log.recorded_calls()?,
        log.capability_calls(),
        Outcome::of(outcome),
    );
    Some(Recording {
        signature: log.signature().map(|signature| Signature::of(&signature)),
        sample: log.sample().filter(|sample| brought != Some(sample)).map(|sample| tensors(&sample)),
        answer: log.answer().filter(|_| !is_tensors).map(|answer| tensors(&answer)),
        model: log.model_call().map(|call| Exchange {
            inputs: tensors(&call.inputs),
            outputs: call.outputs.map(|outputs| tensors(&outputs)),
        }),
        models: models
            .iter()
            .map(|(name, signature)| NamedModel {
                name: name.to_string(),
                signature: Signature::of(signature),
            })
            .collect(),
        model_calls: log.model_calls().iter().map(ModelCall::of).collect(),
        outbound: log.outbound().iter().map(Outbound::of).collect(),
        ..recording
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn names_are_tame() {
        let at = SystemTime::UNIX_EPOCH + Duration::from_millis(1_763_769_600_123);
        for (id, expected) in [
            ("0198-ab_C", "1763769600123-0198-ab_C"),
            ("../../etc/passwd", "1763769600123-------etc-passwd"),
            ("a b\n\0é.json", "1763769600123-a-b----json"),
            ("", "1763769600123-"),
        ] {
            assert_eq!(name(at, id), expected, "{id:?}");
        }
        assert_eq!(name(at, &"x".repeat(1_000)).len(), 14 + LONGEST_ID);
    }

    #[test]
    fn what_others_can_write_to_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let config = Config { folder: folder.path().join("a/b"), size: 1 };
        let writer = Writer::open(&config, Arc::default()).unwrap();
        assert_eq!(writer.used.get(), 0);
        assert_eq!(fs::metadata(&config.folder).unwrap().mode() & 0o777, 0o700);
        // What others can only read is narrowed.
        fs::set_permissions(&config.folder, fs::Permissions::from_mode(0o755)).unwrap();
        Writer::open(&config, Arc::default()).unwrap();
        assert_eq!(fs::metadata(&config.folder).unwrap().mode() & 0o777, 0o700);
        fs::set_permissions(&config.folder, fs::Permissions::from_mode(0o777)).unwrap();
        let error = Writer::open(&config, Arc::default()).err().unwrap().to_string();
        assert!(error.contains("others can write to it\n  hint: "), "{error}");
        let file = folder.path().join("file");
        fs::write(&file, []).unwrap();
        let config = Config { folder: file, size: 1 };
        assert!(Writer::open(&config, Arc::default()).is_err());
    }

    #[test]
    fn what_is_there_counts() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("iris")).unwrap();
        fs::write(folder.path().join("iris/1.json"), [0; 100]).unwrap();
        fs::write(folder.path().join("note"), [0; 10]).unwrap();
        assert_eq!(used(folder.path()).unwrap(), 110);
    }
}
