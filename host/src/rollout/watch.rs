//! Sees that a handler's file has changed, waits until it is complete, and swaps it in.
//!
//! Place in the flow: one task an endpoint, beside the request path, which rests until `changes.rs` tells
//! it to look. A rename over the file is complete at once; a plain `cp` truncates it and fills it bit by
//! bit. Both look the same from here: the file's stamp (time, size, identity) changes, and once it has held
//! still for [`SETTLED`] the file is read; an empty one, which is never meant, and one that is cut off are
//! loaded after [`UNFINISHED`] only. Should a writer pause for longer than that, the half-written file
//! fails to load, the old version stays, and the rest of the writing changes the stamp again. What the
//! system tells of files is no more than a reason to look, because looking works on every file system:
//! network mounts, container volumes, and folders whose links are switched as a whole.
//! Invariant: a version is published only if the stamp was the same before and after reading it.

mod changes;
pub mod versions;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::deploy_request::{DeployRequest, GenerationChange};
use super::deployment::Deployment;
use super::history::Origin;
use crate::file::stamp::FileStamp;
use crate::plugin::Binary;
use crate::text::on_one_line;

/// How often a file that has changed is looked at.
const INTERVAL: Duration = Duration::from_millis(50);
/// How long a file must have held still.
const SETTLED: Duration = Duration::from_millis(150);
/// The same for a file without content, which a writer that overwrites it is about to fill, and for one that
/// ends within a section of the component: its writer has paused, or has failed (2 s were not enough of a
/// busy disk once).
const UNFINISHED: Duration = Duration::from_secs(5);

/// Follows handler files until the tasks are aborted, one task a file, in their order. With each comes the
/// stamp of the version that is being served, taken before that version was read.
pub fn follow(files: Vec<(Arc<Deployment>, PathBuf, FileStamp)>) -> Vec<JoinHandle<()>> {
    let (files, followers) = files
        .into_iter()
        .map(|(endpoint, path, stamp)| {
            let (file, woken) = changes::file(path.clone(), stamp);
            (file, tokio::spawn(follow_one(endpoint, path, stamp, woken)))
        })
        .unzip();
    changes::watch(files);
    followers
}

async fn follow_one(endpoint: Arc<Deployment>, path: PathBuf, mut served: FileStamp, woken: Arc<Notify>) {
    let mut changed: Option<(FileStamp, tokio::time::Instant)> = None;
    // What has been read and is cut off.
    let mut cut_off = None;
    loop {
        if changed.is_none() {
            woken.notified().await;
        } else {
            tokio::time::sleep(INTERVAL).await;
        }
        let now = FileStamp::of(&path).await;
        if now == served {
            changed = None;
            continue;
        }
        let written = endpoint.written.load();
        if written.as_deref() == Some(&now) {
            // An order has put this there, and it was published then; what serves now may be another one, on
            // purpose.
            (served, changed) = (now, None);
            continue;
        }
        let since = match changed {
            Some((stamp, since)) if stamp == now => since,
            _ => {
                changed = Some((now, tokio::time::Instant::now()));
                continue;
            }
        };
        let patience = if now.is_empty() || cut_off == Some(now) { UNFINISHED } else { SETTLED };
        if since.elapsed() < patience {
            continue;
        }
        if !now.is_there() {
            tracing::warn!(endpoint = %endpoint.config.name, path = %path.display(),
                "handler file is gone; the version in memory goes on serving");
            (served, changed) = (FileStamp::ABSENT, None);
            continue;
        }
        let read = Binary::read(&path).await;
        if FileStamp::of(&path).await != now {
            continue;
        }
        if patience == SETTLED && read.as_ref().is_ok_and(|binary| !binary.is_whole()) {
            cut_off = Some(now);
            continue;
        }
        // Taken or refused, this version of the file has had its chance.
        (served, changed) = (now, None);
        let outcome = match read {
            Ok(binary) => {
                let change = GenerationChange { component: Some(binary), ..GenerationChange::default() };
                let swapped = endpoint.swap(change, &DeployRequest::by(Origin::Watch)).await;
                swapped.map(drop).map_err(|error| on_one_line(&error))
            }
            Err(error) => Err(error.to_string()),
        };
        if let Err(error) = outcome {
            tracing::error!(endpoint = %endpoint.config.name, path = %path.display(),
                "new handler refused, the old one goes on serving: {error}");
        }
    }
}
