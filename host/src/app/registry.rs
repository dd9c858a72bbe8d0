//! The endpoints that are served, which can change while they serve.
//!
//! Place in the flow: filled at the start, changed when the configuration is read again. In: the
//! configurations of all endpoints there are to be. Out: one table of deployments, to which all listeners go
//! over together.
//! Invariants: a change is made as a whole or not at all: endpoints that are new or another are loaded before
//! anything is published, and those that stay the same are not touched; a request ends on the endpoint it
//! began on; an order to one that goes is carried out before it goes, or refused.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::thread;

use anyhow::Context as _;
use tokio::sync::{Mutex, Semaphore};
use tokio::task::JoinHandle;

use crate::capture::record::Archive;
use crate::endpoint::config::EndpointConfig;
use crate::file::stamp::FileStamp;
use crate::model::Catalog;
use crate::plugin::Sandbox;
use crate::rollout::deploy_request::DeployRequest;
use crate::rollout::deployment::Deployment;
use crate::rollout::history::Origin;
use crate::rollout::{auto_rollback, watch};
use crate::telemetry::metrics::Metrics;

/// The resources that endpoints are loaded with; one of each in a process.
pub(super) struct Resources {
    pub(super) metrics: Arc<Metrics>,
    pub(super) catalog: Arc<Catalog>,
    pub(super) sandbox: Sandbox,
    pub(super) archive: Option<Arc<Archive>>,
    /// The name that tells this server from others on the machine, by which its histories are kept.
    pub(super) server: Option<String>,
}

/// The endpoints that are served.
pub(super) struct Registry {
    resources: Arc<Resources>,
    /// By name. Held while endpoints change.
    entries: Mutex<HashMap<String, Entry>>,
    /// Those that are served no more, as long as a request is left on them.
    past: Mutex<Vec<Weak<Deployment>>>,
    /// The names of those that the last change has removed.
    removed: Mutex<Vec<String>>,
}

/// An endpoint, and the tasks that follow it.
struct Entry {
    deployment: Arc<Deployment>,
    tasks: Vec<JoinHandle<()>>,
}

/// A deployment that was just loaded; with its handler's file as that was before, if it is watched.
type Loaded = (Arc<Deployment>, Option<FileStamp>);

/// The outcome of loading, by the endpoints' names.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    pub(super) added: Vec<String>,
    pub(super) replaced: Vec<String>,
    pub(super) removed: Vec<String>,
}

impl Registry {
    /// A registry without endpoints.
    pub(super) fn new(resources: Resources) -> Registry {
        Registry {
            resources: Arc::new(resources),
            entries: Mutex::default(),
            past: Mutex::default(),
            removed: Mutex::default(),
        }
    }

    /// Serves these endpoints, in this order, and no others: gives all of them to `publish`.
    ///
    /// # Errors
    /// The first endpoint, in their order, that cannot be loaded, or what `publish` says: nothing has
    /// changed.
    pub(super) async fn change(
        &self,
        mut endpoints: Vec<EndpointConfig>,
        publish: impl FnOnce(Vec<Arc<Deployment>>) -> anyhow::Result<()>,
    ) -> anyhow::Result<Changes> {
        let mut entries = self.entries.lock().await;
        self.resources.hide_recordings(&mut endpoints);
        let stays = |config: &&EndpointConfig| {
            entries.get(&config.name).is_some_and(|entry| is_same(&entry.deployment.config, config))
        };
        let another: Vec<_> = endpoints.iter().filter(|config| !stays(config)).cloned().collect();
        let is_new = |config: &&EndpointConfig| !entries.contains_key(&config.name);
        let left: HashSet<&str> = endpoints.iter().map(|config| config.name.as_str()).collect();
        let added: Vec<String> = another.iter().filter(is_new).map(|config| config.name.clone()).collect();
        let published = async {
            let loaded = self.resources.load(another).await?;
            let new: HashMap<&str, &Arc<Deployment>> =
                loaded.iter().map(|(deployment, _)| (deployment.config.name.as_str(), deployment)).collect();
            let deployment = |config: &EndpointConfig| {
                let kept = || entries.get(&config.name).map(|entry| &entry.deployment);
                new.get(config.name.as_str()).copied().or_else(kept).cloned()
            };
            let next: Vec<Arc<Deployment>> = endpoints.iter().filter_map(deployment).collect();
            let goes = |name: &str| new.contains_key(name) || !left.contains(name);
            let going: Vec<&Deployment> =
                entries.iter().filter(|(name, _)| goes(name)).map(|(_, entry)| &*entry.deployment).collect();
            Deployment::retire(&going, || publish(next)).await?;
            anyhow::Ok(loaded)
        };
        let loaded = published.await.inspect_err(|_| {
            self.resources.metrics.forget(added.iter().map(String::as_str));
        })?;

        let removed = entries.keys().filter(|name| !left.contains(name.as_str())).cloned().collect();
        let mut changes = Changes { removed, ..Changes::default() };
        for name in &changes.removed {
            if let Some(entry) = entries.remove(name) {
                entry.deployment.remove();
                self.end(entry).await;
            }
        }
        for (name, entry) in follow(loaded) {
            match entries.insert(name.clone(), entry) {
                None => changes.added.push(name),
                Some(before) => {
                    self.end(before).await;
                    changes.replaced.push(name);
                }
            }
        }
        // And once more what requests that ended on those of the last change have begun.
        let mut removed = std::mem::replace(&mut *self.removed.lock().await, changes.removed.clone());
        removed.retain(|name| !entries.contains_key(name));
        self.resources.metrics.forget(removed.iter().chain(&changes.removed).map(String::as_str));
        Ok(changes)
    }

    /// The changes that serving these endpoints would be.
    pub(super) async fn changes(&self, endpoints: &[EndpointConfig]) -> Changes {
        let entries = self.entries.lock().await;
        let mut endpoints = endpoints.to_vec();
        self.resources.hide_recordings(&mut endpoints);
        let mut changes = Changes::default();
        for config in &endpoints {
            match entries.get(&config.name) {
                None => changes.added.push(config.name.clone()),
                Some(entry) if is_same(&entry.deployment.config, config) => {}
                Some(_) => changes.replaced.push(config.name.clone()),
            }
        }
        let left: HashSet<&str> = endpoints.iter().map(|config| config.name.as_str()).collect();
        changes.removed.extend(entries.keys().filter(|name| !left.contains(name.as_str())).cloned());
        changes
    }

    /// Where requests are recorded, if they are.
    pub(super) fn archive(&self) -> Option<Arc<Archive>> {
        self.resources.archive.clone()
    }

    /// All that requests may be left on: what is served, and what was.
    pub(super) async fn deployments(&self) -> Vec<Arc<Deployment>> {
        let entries = self.entries.lock().await;
        let past = self.past.lock().await;
        let served = entries.values().map(|entry| entry.deployment.clone());
        served.chain(past.iter().filter_map(Weak::upgrade)).collect()
    }

    /// The endpoint is served no more. Requests that have begun end on it.
    async fn end(&self, entry: Entry) {
        let mut past = self.past.lock().await;
        past.retain(|deployment| deployment.strong_count() > 0);
        past.push(Arc::downgrade(&entry.deployment));
        entry.deployment.end_trial(&DeployRequest::by(Origin::Signal));
        end_all(entry.tasks).await;
        entry.deployment.metrics.plugins.set([None, None, None]);
    }

    /// Ends the tasks that follow endpoints: what they would publish has nothing left to serve.
    pub(super) async fn stop_following(&self) {
        for entry in self.entries.lock().await.values_mut() {
            end_all(std::mem::take(&mut entry.tasks)).await;
        }
    }
}

/// Ends tasks, and with them their hold on an endpoint. All are told before the first is waited for.
async fn end_all<T>(tasks: Vec<JoinHandle<T>>) {
    tasks.iter().for_each(JoinHandle::abort);
    for task in tasks {
        // It ended as it was told to.
        let _ = task.await;
    }
}

impl Resources {
    /// Hides recordings from handlers: requests to one handler are not for another to read.
    fn hide_recordings(&self, endpoints: &mut [EndpointConfig]) {
        if let (Some(archive), Some(one)) = (&self.archive, endpoints.first()) {
            let folder = archive.folder().to_owned();
            let hidden: Arc<[_]> = one.hidden.iter().cloned().chain([folder]).collect();
            endpoints.iter_mut().for_each(|endpoint| endpoint.hidden = hidden.clone());
        }
    }

    /// Loads endpoints, a few at a time.
    ///
    /// # Errors
    /// The first that fails, in their order.
    async fn load(self: &Arc<Self>, endpoints: Vec<EndpointConfig>) -> anyhow::Result<Vec<Loaded>> {
        let turns = Arc::new(Semaphore::new(2 * thread::available_parallelism().map_or(1, usize::from)));
        let loading = endpoints.into_iter().map(|config| {
            let (resources, turns) = (self.clone(), turns.clone());
            tokio::spawn(async move {
                let _turn = turns.acquire().await;
                resources.load_one(config).await
            })
        });
        // All begin before the first is waited for.
        let mut loading = loading.collect::<Vec<_>>().into_iter();
        let mut loaded = Vec::new();
        for task in loading.by_ref() {
            match task.await.context("an endpoint cannot be loaded").flatten() {
                Ok(endpoint) => loaded.push(endpoint),
                Err(error) => {
                    end_all(loading.collect()).await;
                    return Err(error);
                }
            }
        }
        Ok(loaded)
    }

    async fn load_one(&self, config: EndpointConfig) -> anyhow::Result<Loaded> {
        let Resources { metrics, catalog, sandbox, archive, server } = self;
        // Taken before the file is read: a version that lands in between is noticed.
        let stamp = match &config.plugin {
            Some(path) if config.watch => Some(FileStamp::of(path).await),
            _ => None,
        };
        let mut deployment = Deployment::first(config, catalog, sandbox, metrics).await?;
        let recorder = |archive: &Arc<Archive>| archive.recorder(&deployment.config, &deployment.metrics);
        deployment.recorder = archive.as_ref().and_then(recorder);
        if let Some(server) = server {
            let history = std::mem::take(&mut deployment.history);
            deployment.history = history.kept(server, &deployment.config, sandbox).await;
        }
        tracing::info!(endpoint = %deployment.config.name, path = %deployment.config.path,
            plugin.digest = deployment.current().digest.as_deref(), "endpoint is ready");
        Ok((Arc::new(deployment), stamp))
    }
}

/// Starts the tasks that follow endpoints: their handlers' files, their folders of versions, their breakers.
fn follow(loaded: Vec<Loaded>) -> Vec<(String, Entry)> {
    let file = |(deployment, stamp): &Loaded| {
        Some((deployment.clone(), deployment.config.plugin.clone()?, (*stamp)?))
    };
    let mut watching = watch::follow(loaded.iter().filter_map(file).collect()).into_iter();
    let entry = |(deployment, stamp): Loaded| {
        let breaker = deployment.config.breaker.map(|_| auto_rollback::follow(deployment.clone()));
        let mut tasks: Vec<JoinHandle<()>> = breaker.map(tokio::spawn).into_iter().collect();
        tasks.extend(stamp.and_then(|_| watching.next()));
        let is_watched = deployment.config.models.iter().any(|(_, model)| model.watch);
        tasks.extend(is_watched.then(|| tokio::spawn(watch::versions::follow(deployment.clone()))));
        (deployment.config.name.clone(), Entry { deployment, tasks })
    };
    loaded.into_iter().map(entry).collect()
}

/// Whether an endpoint would be served as it is. What is to be hidden from handlers concerns only those that
/// see files.
fn is_same(now: &EndpointConfig, then: &EndpointConfig) -> bool {
    match then.project {
        Some(_) => now == then,
        None => *now == EndpointConfig { hidden: now.hidden.clone(), ..then.clone() },
    }
}
