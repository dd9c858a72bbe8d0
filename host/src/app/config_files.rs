//! Sees that the files of the configuration have changed.
//!
//! Place in the flow: a task beside the request path, if the operator wants it. In: the config file's path.
//! Out: an order to take the files as they are now, once they have held still for [`SETTLED`].
//! Invariant: looking works on every file system, and through links that are switched as a whole, as those of
//! a ConfigMap's volume are: what a path leads to is looked at, not what it is.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::file::stamp::FileStamp;
use crate::rollout::history::Origin;
use crate::server::configuration::{ConfigOrder, Configuration};

/// How often the files are looked at.
const INTERVAL: Duration = Duration::from_millis(500);
/// The same while they change.
const SOON: Duration = Duration::from_millis(50);
/// How long files must have held still.
const SETTLED: Duration = Duration::from_millis(200);

/// The folder of further files, beside the config file.
pub const FOLDER: &str = "conf.d";

/// The further files of a configuration, in the order in which they are read.
pub fn further(config: &Path) -> Vec<PathBuf> {
    let folder = config.parent().unwrap_or(Path::new("")).join(FOLDER);
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let is_config = |path: &PathBuf| {
        let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        path.extension().is_some_and(|kind| kind == "toml") && !is_hidden
    };
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_config).collect();
    files.sort_unstable();
    files
}

/// The files of a configuration, each as it was when it was looked at.
pub(super) type Stamps = BTreeMap<PathBuf, FileStamp>;

/// The files as they are; blocks.
pub(super) fn stamps(config: &Path) -> Stamps {
    let files = std::iter::once(config.to_owned()).chain(further(config));
    files.map(|file| (file.clone(), FileStamp::now(&file))).collect()
}

/// Follows the files of a configuration until it is aborted. `served` is how they were when they were read.
pub(super) async fn follow(config: PathBuf, served: Stamps, configuration: Configuration) {
    let look = async || {
        let config = config.clone();
        tokio::task::spawn_blocking(move || stamps(&config)).await.ok()
    };
    let mut served = Some(served);
    let mut changed = None;
    loop {
        tokio::time::sleep(if changed.is_some() { SOON } else { INTERVAL }).await;
        let now = look().await;
        if now == served {
            changed = None;
            continue;
        }
        let since = match changed.take() {
            Some((stamps, since)) if stamps == now => since,
            _ => Instant::now(),
        };
        if since.elapsed() >= SETTLED && configuration.give(ConfigOrder::by(Origin::Watch)) {
            // Taken or refused, these have had their chance.
            served = now;
        } else {
            changed = Some((now, since));
        }
    }
}
