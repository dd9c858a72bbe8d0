//! The models that are loaded, so that endpoints which name the same one share it.
//!
//! Place in the flow: at start and whenever an endpoint asks for a model again; never on the request path.
//! In:   a model's configuration. Out: the model, loaded now or before.
//!
//! Invariants: of the same configuration and the same files there is one copy; files that have changed are
//! another model, loaded beside the old one; a model that no endpoint and no request uses any more is gone.
//! The catalog itself keeps nothing alive.

use std::sync::{Arc, Weak};

use tokio::sync::Mutex;

use super::location::Location;
use super::{Config, Model, ModelConfig, ModelError};

/// Loads models, each once.
#[derive(Debug)]
pub struct Catalog {
    config: Config,
    /// Held while loading: models are loaded one after the other, each with all cores.
    loaded: Mutex<Vec<(ModelConfig, Weak<Model>)>>,
}

impl Catalog {
    /// An empty one.
    pub fn new(config: Config) -> Catalog {
        Catalog { config, loaded: Mutex::default() }
    }

    /// The model that `wanted` names, as its files are now.
    ///
    /// # Errors
    /// As the engine says; what is loaded already is not touched.
    pub async fn load(&self, wanted: &ModelConfig) -> Result<Arc<Model>, ModelError> {
        let failed = |reason| ModelError::Load { path: wanted.path.clone(), reason };
        let mut loaded = self.loaded.lock().await;
        loaded.retain(|(_, model)| model.strong_count() > 0);
        let (model, config) = (wanted.clone(), self.config.clone());
        let known: Vec<Arc<Model>> = loaded
            .iter()
            .filter(|(config, _)| config.loads_like(wanted))
            .filter_map(|(_, model)| model.upgrade())
            .collect();
        // Reading and optimising a model takes seconds and is all CPU.
        let work = tokio::task::spawn_blocking(move || {
            let location = Location::find(&model.path, model.version)
                .map_err(|reason| ModelError::Load { path: model.path.clone(), reason })?;
            match known.into_iter().find(|known| known.location().is_same(&location)) {
                Some(known) => Ok((known, false)),
                None => Model::load(&model, location, &config).map(|model| (Arc::new(model), true)),
            }
        });
        let (model, new) = work.await.map_err(|error| failed(error.to_string()))??;
        if new {
            loaded.push((wanted.clone(), Arc::downgrade(&model)));
        }
        Ok(model)
    }
}
