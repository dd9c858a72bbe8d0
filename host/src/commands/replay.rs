//! `host replay`: does a handler do again what was recorded? Without model, GPU and server.
//!
//! Place in the flow: what an author runs on recordings of `host serve --record`, with the handler that made
//! them to see what happened, or with another one to see what would become of them.
//! Out: a line for each recording, and what is different under it; or a JSON object a line. Exit code 1 if
//! one of them is not the same.
//! Invariant: a recording is untrusted data: nothing that stands in it is opened, and one that cannot be
//! read keeps no other from being replayed.

use std::collections::HashSet;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use serde_json::{Value, json};

use crate::capture::record::format::{LONGEST, Recording};
use crate::capture::replay::{ReplayError, Replayed, Replayer, Verdict};
use crate::cli;
use crate::commands::{Failure, runtime, say, start_logs};
use crate::config::Defaults;
use crate::endpoint::config::Bounds;
use crate::file;
use crate::plugin::{self, Binary, Sandbox};
use crate::telemetry::logs;
use crate::telemetry::metrics::Metrics;

/// Instances alive at a time, first instances and those being freed included.
const INSTANCES: NonZeroUsize = NonZeroUsize::MIN.saturating_add(3);

/// Runs the command.
///
/// # Errors
/// The component cannot be loaded at all, there is no recording, or one is not the same.
pub fn replay(arguments: &cli::Replay) -> Result<(), Failure> {
    let _logs = start_logs(&logs::Config { filter: "warn".to_owned(), ..logs::Config::defaults() })?;
    let mut files = Vec::new();
    for path in &arguments.recordings {
        files.extend(recordings(path)?);
    }
    let plugin = &arguments.plugin;
    let component =
        Binary::read_now(plugin).with_context(|| format!("cannot read `{}`", plugin.display()))?;
    let bounds = Bounds { tolerance: arguments.tolerance.0, ignore: arguments.ignore.clone() };
    Ok(runtime()?.block_on(async {
        let sandbox = Sandbox::new(&plugin::Config::defaults(), INSTANCES)?;
        let metrics = Metrics::new().context("cannot set up the metrics")?;
        let instances = metrics.endpoint("replay").instances;
        let project = arguments.project.clone();
        let mut replayer = Replayer::new(sandbox, component, project, bounds, instances);
        let (mut bad, mut noted) = (0, HashSet::new());
        for file in &files {
            let outcome = match read(file) {
                Ok(recording) => replayer.replay(recording).await,
                Err(reason) => Err(ReplayError::Recording(reason)),
            };
            if let Some(error) = outcome.as_ref().err().and_then(ReplayError::of_component) {
                bail!("`{}` {error}", plugin.display());
            }
            bad += usize::from(!matches!(outcome, Ok(Replayed { verdict: Verdict::Same, .. })));
            match arguments.json {
                true => say(&as_json(file, &outcome).to_string())?,
                false => report(file, &outcome, &mut noted)?,
            }
        }
        match (bad, files.len()) {
            (0, _) => Ok(()),
            (bad, total) => Err(anyhow!("{bad} of {total} recordings did not come out the same")),
        }
    })?)
}

/// The recordings at `path`: a file, or those in a folder and its folders, as `host serve` puts them there.
fn recordings(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let cannot_read = || format!("cannot read `{}`", path.display());
    if !fs::metadata(path).with_context(cannot_read)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(path).with_context(cannot_read)? {
        let entry = entry.with_context(cannot_read)?;
        match entry.file_type().with_context(cannot_read)?.is_dir() {
            true => {
                for entry in fs::read_dir(entry.path()).with_context(cannot_read)? {
                    found.push(entry.with_context(cannot_read)?.path());
                }
            }
            false => found.push(entry.path()),
        }
    }
    // What is being written has another name yet; links lead elsewhere, but one
    // that leads nowhere is a recording that is lost.
    found.retain(|path| {
        path.extension().is_some_and(|extension| extension == "json")
            && fs::symlink_metadata(path)
                .is_ok_and(|metadata| metadata.is_file() || metadata.is_symlink() && !path.exists())
    });
    if found.is_empty() {
        bail!("no recording is in `{}`\n  hint: `modelhost serve --record DIR` writes them", path.display());
    }
    // By endpoint, then by time.
    found.sort();
    Ok(found)
}

/// Reads one file.
///
/// # Errors
/// The defect of the recording, on one line.
fn read(path: &Path) -> Result<Recording, String> {
    let text = file::read(path, LONGEST as u64).map_err(|error| format!("cannot be read: {error}"))?;
    Recording::read(&text)
}

/// `same      FILE`, or what is different on the lines below.
fn report(
    file: &Path,
    outcome: &Result<Replayed, ReplayError>,
    noted: &mut HashSet<String>,
) -> anyhow::Result<()> {
    let file = file.display();
    let replayed = match outcome {
        Ok(replayed) => replayed,
        Err(error) => return say(&format!("unusable  {file}: {error}")),
    };
    for note in &replayed.notes {
        if noted.insert(note.clone()) {
            say(&format!("note      {note}"))?;
        }
    }
    match &replayed.verdict {
        Verdict::Same => say(&format!("same      {file}")),
        Verdict::Diverged(divergence) => say(&format!("diverged  {file}: {divergence}")),
        Verdict::Differs(differences) => {
            say(&format!("differs   {file}"))?;
            differences.iter().try_for_each(|difference| say(&format!("          {difference}")))
        }
    }
}

fn as_json(file: &Path, outcome: &Result<Replayed, ReplayError>) -> Value {
    let file = file.display().to_string();
    let Replayed { endpoint, verdict, notes } = match outcome {
        Ok(replayed) => replayed,
        Err(error) => return json!({"file": file, "verdict": "unusable", "error": error.to_string()}),
    };
    let (verdict, what) = match verdict {
        Verdict::Same => ("same", Value::Null),
        Verdict::Differs(differences) => ("differs", json!(differences)),
        Verdict::Diverged(divergence) => ("diverged", json!(divergence)),
    };
    let mut object = json!({"file": file, "endpoint": endpoint, "verdict": verdict, "notes": notes});
    if let (Some(object), false) = (object.as_object_mut(), what.is_null()) {
        object.insert(if verdict == "differs" { "differences" } else { "divergence" }.to_owned(), what);
    }
    object
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_link_that_leads_nowhere_is_a_recording_and_no_other_is() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("1.json"), "{}").unwrap();
        symlink(at("1.json"), at("2.json")).unwrap();
        symlink(at("none"), at("3.json")).unwrap();
        symlink(at("none"), at("4.part")).unwrap();
        assert_eq!(recordings(folder.path()).unwrap(), ["1.json", "3.json"].map(at));
        assert!(read(&at("3.json")).is_err_and(|error| error.starts_with("cannot be read: ")));
    }
}
