//! Sees that a version of a model has come, changed or gone in its folder of versions, and loads what is to
//! be served now.
//!
//! Place in the flow: one task for each endpoint with such a model, beside the request path. The folder is
//! looked at once a second, which works on every file system. What has changed is loaded when it has held
//! still from one look to the next, so that a version that is still being copied is not; a folder without a
//! model in it is no version yet.
//! Invariant: what cannot be loaded is refused once, and again only after the next change.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::model::ModelConfig;
use crate::model::location::Location;
use crate::rollout::deploy_request::{DeployRequest, GenerationChange};
use crate::rollout::deployment::Deployment;
use crate::rollout::history::Origin;
use crate::text::on_one_line;

/// How often the folders are looked at.
const INTERVAL: Duration = Duration::from_secs(1);

/// One model's folder, and what was found there.
struct Folder {
    name: String,
    config: ModelConfig,
    /// The versions that were served at first, then those that were ordered last; the highest one first.
    taken: Vec<Location>,
    /// The versions that the last look found.
    seen: Vec<Location>,
}

impl Folder {
    /// Looks again; whether it has to be loaded.
    async fn has_changed(&mut self) -> bool {
        let mut now = complete(self.config.path.clone()).await;
        now.truncate(self.config.others + 1);
        let is_still = now == self.seen;
        self.seen = now;
        is_still && self.seen != self.taken && !self.seen.is_empty()
    }
}

/// Follows the folders of an endpoint's models, until the task is aborted.
pub async fn follow(endpoint: Arc<Deployment>) {
    let mut folders = Vec::new();
    for (name, config) in &endpoint.config.models {
        if config.watch {
            let served = served(&endpoint, name);
            folders.push(Folder {
                name: name.clone(),
                config: config.clone(),
                taken: served,
                seen: Vec::new(),
            });
        }
    }
    loop {
        tokio::time::sleep(INTERVAL).await;
        for folder in &mut folders {
            if folder.has_changed().await {
                folder.taken.clone_from(&folder.seen);
                load(&endpoint, &folder.name).await;
            }
        }
    }
}

async fn load(endpoint: &Deployment, name: &str) {
    let change = GenerationChange { models: vec![(name.to_owned(), None)], ..GenerationChange::default() };
    if let Err(error) = endpoint.swap(change, &DeployRequest::by(Origin::Watch)).await {
        tracing::error!(endpoint = %endpoint.config.name, model = name,
            "versions of the model refused, the old ones go on serving: {}", on_one_line(&error));
    }
}

/// Those that are served.
fn served(endpoint: &Deployment, name: &str) -> Vec<Location> {
    let current = endpoint.current();
    let handles = current.models().get(name).into_iter().flat_map(|named| named.handles());
    handles.filter_map(|handle| handle.model().map(|model| model.location().clone())).collect()
}

async fn complete(path: PathBuf) -> Vec<Location> {
    let found = tokio::task::spawn_blocking(move || Location::complete(&path)).await;
    // A folder that is gone for a moment is looked at again.
    found.ok().and_then(Result::ok).unwrap_or_default()
}
