//! Samples in a folder, kept by the operator.
//!
//! Place in the flow: looked at when the configuration is read, read anew for every gate and by `host diff`.
//!
//! `NAME.json`, or any other extension, is the body of a request; the extension says its content type.
//! `NAME.expected.json` beside it is what has to be answered, with status 200; NaN and infinities in it are
//! `null`, as in every answer. `NAME.answer.json` in its place is a whole answer: status, headers, body; what
//! refuses a request has one. `NAME.request.json` is a request with method, path and headers ([`case`]), and
//! its `NAME.expected.json` a whole answer. Folders whose name is no sample's, names that begin with a dot
//! and the backups of editors are left out.

mod case;

use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

pub use self::case::{ExpectedAnswer, is_refusal};

use crate::capture::compare::{self, Difference, Outcome};
use crate::capture::samples::{Sample, SampleInput};
use crate::endpoint::config::Bounds;
use crate::file;
use crate::json::special;
use crate::outbound::OutboundCall;
use crate::pipeline::respond;
use crate::request::{Output, PlainHead, Response, is_json_type, without_mark};

/// The end of the error of a folder without one.
pub const NO_SAMPLE: &str = "holds no sample";
/// The end of the error of an answer without a sample.
pub const LONE_ANSWER: &str = "answers nothing: there is no sample of its name";
/// Most samples of a folder.
const MOST: usize = 1000;
/// The end of the name of an expected answer.
const EXPECTED: &str = ".expected.json";
/// The same of a whole answer to a body.
const ANSWER: &str = ".answer.json";
/// The ends of the names of backups.
const BACKUPS: [&str; 4] = ["~", ".bak", ".orig", ".swp"];
/// The end of the name of a whole request.
const REQUEST: &str = ".request.json";

/// A sample, and what has to be answered to it.
#[derive(Debug, Clone)]
pub struct Golden {
    /// The request.
    pub sample: Arc<Sample>,
    /// The answer; without it, what the old handler answers.
    pub expected: Option<Expected>,
}

/// An answer that a file expects.
#[derive(Debug, Clone)]
pub enum Expected {
    /// The body of a JSON response of status 200.
    Body(Bytes),
    /// More of it, or less.
    Answer(Arc<ExpectedAnswer>),
}

impl Golden {
    /// A sample that the old handler answers.
    pub fn unexpected(sample: Arc<Sample>) -> Golden {
        Golden { sample, expected: None }
    }
}

impl Golden {
    /// How an outcome, and what the handler has sent to others for it, differ from what the file expects.
    pub fn differences(
        &self,
        expected: &Expected,
        outcome: &Outcome,
        sent: &[OutboundCall],
        bounds: &Bounds,
    ) -> Vec<Difference> {
        let mut differences = match expected {
            Expected::Body(body) => {
                let wanted = Output::Response(respond::json(body.to_vec()));
                // The file says nothing of headers.
                let bare = match outcome {
                    Ok(Output::Response(response)) => {
                        Ok(Output::Response(Response { headers: Vec::new(), ..response.clone() }))
                    }
                    other => other.clone(),
                };
                compare::compare(&Ok(wanted), &bare, bounds)
            }
            Expected::Answer(answer) => answer.differences(outcome, bounds),
        };
        differences.extend(case::unanswered(&self.sample.known.outbound, sent));
        differences
    }
}

/// The file that expects this outcome of a sample, and its content; `None` if none can.
pub fn expecting(sample: &Path, outcome: &Outcome) -> Option<(PathBuf, Vec<u8>)> {
    let response = case::response(outcome)?;
    let is_plain = response.status == 200 && is_json_type(&response.content_type) && !is_request(sample);
    let mut content = match is_plain {
        true => response.body.to_vec(),
        false => serde_json::to_vec_pretty(&ExpectedAnswer::of(&response)).ok()?,
    };
    if !content.ends_with(b"\n") {
        content.push(b'\n');
    }
    let [expected, whole] = answer_files(sample);
    Some((if is_plain || is_request(sample) { expected } else { whole }, content))
}

fn is_request(sample: &Path) -> bool {
    sample.as_os_str().to_string_lossy().ends_with(REQUEST)
}

/// Where the answer stands that the sample in a file expects: the body, or all of it.
pub fn answer_files(sample: &Path) -> [PathBuf; 2] {
    let name = if is_request(sample) { sample.with_extension("") } else { sample.to_owned() };
    [EXPECTED, ANSWER].map(|end| {
        let mut answer = name.with_extension("").into_os_string();
        answer.push(end);
        answer.into()
    })
}

fn is_answer(name: &str) -> bool {
    name.ends_with(EXPECTED) || name.ends_with(ANSWER)
}

/// The files of the samples in a folder, or the one file that is a sample itself; with each the file of its
/// answer. In the order of their names.
///
/// # Errors
/// It cannot be read, holds no sample, too many, or an answer without one. The text is for the operator.
pub fn files(folder: &Path) -> Result<Vec<(PathBuf, Option<PathBuf>)>, String> {
    let shown = folder.display();
    let cannot = |error: std::io::Error| format!("cannot read `{shown}`: {error}");
    let answer = |sample: &Path| {
        let [expected, whole] = answer_files(sample);
        let is_there = |answer: &PathBuf| answer.symlink_metadata().is_ok();
        Some(expected).filter(is_there).or(Some(whole).filter(|whole| !is_request(sample) && is_there(whole)))
    };
    if fs::metadata(folder).map_err(cannot)?.is_file() {
        return Ok(vec![(folder.to_owned(), answer(folder))]);
    }
    let (mut samples, mut answers) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(folder).map_err(cannot)? {
        let path = entry.map_err(cannot)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_folder = path.is_dir() && !name.ends_with(".json");
        if name.starts_with('.') || BACKUPS.iter().any(|end| name.ends_with(end)) || is_folder {
            continue;
        }
        match is_answer(&name) {
            true => answers.push(path),
            false => samples.push(path),
        }
    }
    samples.sort();
    if samples.len() > MOST {
        return Err(format!("`{shown}` holds {} samples, more than {MOST}", samples.len()));
    }
    // In the order of their names, those of one answer need not be neighbours.
    let answered = samples.iter().filter_map(|sample| Some((answer(sample)?, sample)));
    let mut by_answer: Vec<_> = answered.collect();
    by_answer.sort();
    if let Some([(answer, one), (_, other)]) = by_answer.array_windows().find(|[one, other]| one.0 == other.0)
    {
        let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        return Err(format!(
            "`{}` answers both `{}` and `{}`: rename one of the two",
            answer.display(),
            name(one),
            name(other)
        ));
    }
    let samples: Vec<_> = samples.into_iter().map(|sample| (answer(&sample), sample)).collect();
    let is_lone = |path: &&PathBuf| !samples.iter().any(|(answer, _)| answer.as_ref() == Some(*path));
    if let Some(lone) = answers.iter().find(is_lone) {
        return Err(format!("`{}` {LONE_ANSWER}", lone.display()));
    }
    match samples.is_empty() {
        true => Err(format!("`{shown}` {NO_SAMPLE}")),
        false => Ok(samples.into_iter().map(|(answer, sample)| (sample, answer)).collect()),
    }
}

/// The samples of a folder, or of a file, as requests to `path` with bodies of at most `limit` bytes.
///
/// # Errors
/// As [`files`]; or one of them cannot be read, is too long, or is an answer that is not JSON.
pub fn read(folder: &Path, path: &str, limit: usize) -> Result<Vec<Golden>, String> {
    let golden = |(file, answer): (PathBuf, Option<PathBuf>)| {
        let mut body = contents(&file, limit)?;
        if is_json_type(file::media_type(&file)) {
            body = without_mark(body);
        }
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let sample = match is_request(&file) {
            true => case::sample(name, &body)
                .map_err(|error| format!("`{}` is no request: {error}", file.display()))?,
            false => {
                let head = PlainHead::post(path, file::media_type(&file));
                Sample { name, head, input: SampleInput::Body(body), model: None, known: Arc::default() }
            }
        };
        let expected = answer.map(|answer| {
            // Numbers that JSON does not have are `null` in every answer.
            let body = without_mark(contents(&answer, limit)?);
            let body = match special::nulled(&body) {
                Cow::Borrowed(_) => body,
                Cow::Owned(body) => Bytes::from(body),
            };
            let not = |what, error: String| format!("`{}` is {what}: {error}", answer.display());
            if is_request(&file) || answer.to_string_lossy().ends_with(ANSWER) {
                let read = ExpectedAnswer::read(&body).map_err(|error| not("no answer", error))?;
                return Ok(Expected::Answer(Arc::new(read)));
            }
            match serde_json::from_slice::<&serde_json::value::RawValue>(&body) {
                Ok(_) => Ok(Expected::Body(body)),
                Err(error) => Err(not("not JSON", error.to_string())),
            }
        });
        Ok(Golden { sample: Arc::new(sample), expected: expected.transpose()? })
    };
    files(folder)?.into_iter().map(golden).collect()
}

fn contents(path: &Path, limit: usize) -> Result<Bytes, String> {
    let body = file::read(path, limit as u64);
    body.map(Bytes::from).map_err(|error| format!("cannot read `{}`: {error}", path.display()))
}
