//! The models that are loaded, so that endpoints which name the same one share it.
//!
//! Place in the flow: at start and whenever an endpoint asks for a model again; never on the request path.
//! In:   a model's configuration. Out: the model, loaded now or before.
//!
//! Invariants: of the same configuration and the same files there is one copy; files that have changed are
//! another model, loaded beside the old one; a load waits for none of another model, unless an endpoint
//! starts with it; a model that no endpoint and no request uses any more is gone. The catalog itself keeps
//! nothing alive.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::config::{Config, ModelConfig};
use super::error::ModelError;
use super::loaded::Model;
use super::location::Location;

/// Loads models, each once.
#[derive(Debug)]
pub struct Catalog {
    config: Config,
    entries: Arc<Mutex<Vec<Arc<Entry>>>>,
    /// Held while an endpoint that starts loads a model.
    starts: tokio::sync::Mutex<()>,
}

/// Files that were found, and the model that they are, loaded in one way.
#[derive(Debug)]
struct Entry {
    config: ModelConfig,
    location: Location,
    /// Held while it is loaded: others that want the same wait for it.
    model: tokio::sync::Mutex<Weak<Model>>,
}

impl Entry {
    /// Whether its model is loaded, or a load may be under way.
    fn is_used(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) > 1 || self.model.try_lock().is_ok_and(|model| model.strong_count() > 0)
    }
}

/// The entry of these files, loaded like this.
fn entry(entries: &Mutex<Vec<Arc<Entry>>>, config: ModelConfig, location: Location) -> Arc<Entry> {
    // Others come to one by this list alone, so that what is unused here stays so.
    let mut entries = entries.lock().unwrap_or_else(PoisonError::into_inner);
    entries.retain(Entry::is_used);
    let is_it = |entry: &&Arc<Entry>| entry.config.loads_like(&config) && entry.location.is_same(&location);
    if let Some(known) = entries.iter().find(is_it) {
        return known.clone();
    }
    let new = Arc::new(Entry { config, location, model: tokio::sync::Mutex::default() });
    entries.push(new.clone());
    new
}

impl Catalog {
    /// An empty one.
    pub fn new(config: Config) -> Catalog {
        Catalog { config, entries: Arc::default(), starts: tokio::sync::Mutex::default() }
    }

    /// The turn of an endpoint that starts: a start loads one model after the other, each with all cores.
    pub async fn turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.starts.lock().await
    }

    /// The model that `wanted` names, as its files are now.
    ///
    /// # Errors
    /// As the engine says; what is loaded already is not touched.
    pub async fn load(&self, wanted: &ModelConfig) -> Result<Arc<Model>, ModelError> {
        let failed = |reason| ModelError::Load { path: wanted.path.clone(), reason };
        loop {
            let entry = self.find(wanted.clone()).await.map_err(failed)?;
            let mut loaded = entry.model.lock().await;
            if let Some(model) = loaded.upgrade() {
                return Ok(model);
            }
            // Files may have been replaced while another load was waited for.
            let now = self.find(wanted.clone()).await.map_err(failed)?;
            if !Arc::ptr_eq(&entry, &now) {
                continue;
            }
            let (config, location, engines) = (wanted.clone(), entry.location.clone(), self.config.clone());
            // Reading and optimising a model takes seconds and is all CPU.
            let work = tokio::task::spawn_blocking(move || Model::load(&config, location, &engines));
            let model = Arc::new(work.await.map_err(|error| failed(error.to_string()))??);
            *loaded = Arc::downgrade(&model);
            return Ok(model);
        }
    }

    /// The entry of the files that are there now.
    ///
    /// # Errors
    /// Text for the operator.
    async fn find(&self, config: ModelConfig) -> Result<Arc<Entry>, String> {
        let entries = self.entries.clone();
        let found = tokio::task::spawn_blocking(move || {
            let location = Location::find(&config.path, config.version)?;
            Ok::<_, String>(entry(&entries, config, location))
        });
        found.await.map_err(|error| error.to_string())?
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;
    use crate::model::Device;

    fn config(name: &str) -> ModelConfig {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/models").join(name);
        ModelConfig { path, device: Device::Cpu, sessions: Some(1), ..ModelConfig::default() }
    }

    #[tokio::test]
    async fn a_load_holds_up_those_that_want_the_same_and_no_other() {
        let catalog = Catalog::new(Config::default());
        let (slow, other) = (config("identity_fp32.onnx"), config("add.onnx"));
        let entry = catalog.find(slow.clone()).await.unwrap();
        // As long as it is loaded.
        let loading = entry.model.lock().await;
        let added = timeout(Duration::from_secs(60), catalog.load(&other)).await;
        let added = added.expect("it does not wait").unwrap();
        assert!(timeout(Duration::from_millis(50), catalog.load(&slow)).await.is_err(), "it waits");
        drop(loading);
        // Both at a time are one, and so is another that comes later.
        let (first, second) = tokio::join!(catalog.load(&slow), catalog.load(&slow));
        let first = first.unwrap();
        assert!(Arc::ptr_eq(&first, &second.unwrap()));
        assert!(Arc::ptr_eq(&added, &catalog.load(&other).await.unwrap()));
        // What none uses any more is gone.
        let gone = Arc::downgrade(&added);
        drop(added);
        assert_eq!(gone.strong_count(), 0);
        drop(entry);
        assert!(Arc::ptr_eq(&first, &catalog.load(&slow).await.unwrap()));
        assert_eq!(catalog.entries.lock().unwrap().len(), 1);
    }

    #[tokio::test]
    async fn files_that_are_replaced_while_a_load_waits_are_loaded_as_they_are_then() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.onnx");
        let put = |name: &str| std::fs::copy(config(name).path, &path).unwrap();
        put("identity_fp32.onnx");
        let catalog = Catalog::new(Config::default());
        let wanted = ModelConfig { path: path.clone(), ..config("m.onnx") };
        let entry = catalog.find(wanted.clone()).await.unwrap();
        let loading = entry.model.lock().await;
        let mut waiting = std::pin::pin!(catalog.load(&wanted));
        assert!(timeout(Duration::from_millis(200), waiting.as_mut()).await.is_err(), "it waits");
        put("add.onnx");
        // The other load has failed.
        drop(loading);
        let model = waiting.await.unwrap();
        let now = catalog.find(wanted.clone()).await.unwrap();
        assert!(!Arc::ptr_eq(&entry, &now));
        let loaded = now.model.lock().await.upgrade().expect("it is loaded as what is there now");
        assert!(Arc::ptr_eq(&model, &loaded));
    }
}
