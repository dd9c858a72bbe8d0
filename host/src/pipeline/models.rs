//! The models of an endpoint, and which of them a request goes to.
//!
//! Place in the flow: after `admit`, before a sandbox is taken.
//! In:   what the request's protocol says, or its query, `?model=NAME`, where there is a choice;
//!       `?version=N`. Out: the handle to that model.
//!
//! Invariant: who asks for a version gets it or is refused.

use std::sync::Arc;

use tokio::runtime;

use super::ensemble::Ensemble;
use crate::error::{Code, RequestError, Stage};
use crate::model::sequences::{SequenceCall, Sequences};
use crate::model::{DEFAULT_SIGNATURE_KEY, Model, ModelError, ModelHandle, PREDICT_METHOD, Prediction};
use crate::request::Request;
use crate::tensor::{Signature, Tensor};

/// The version of what is no folder of versions.
pub const ONLY_VERSION: u64 = 1;

/// Models by name, in the order of the configuration, an ensemble of them before all; the first is the one
/// that requests go to by themselves.
#[derive(Debug, Clone, Default)]
pub struct Models(pub Vec<Named>);

/// One model of an endpoint.
#[derive(Debug, Clone)]
pub struct Named {
    /// Its name within the endpoint.
    pub name: Arc<str>,
    /// The name in messages.
    pub shown: Arc<str>,
    /// The inputs and outputs when it was loaded last: those that the handler knows.
    pub signature: Arc<Signature>,
    /// The way to it; `None` while it is unloaded.
    pub handle: Option<Handle>,
    /// The ways to the other versions that are served, the highest first; each takes and gives what the
    /// handler knows.
    pub others: Arc<[Handle]>,
}

impl Named {
    /// The ways to all versions that are served.
    pub fn handles(&self) -> impl Iterator<Item = &Handle> {
        self.handle.iter().chain(self.others.iter())
    }

    /// The way to this version, if it is served; without a number, to the one that requests go to by
    /// themselves.
    pub fn version(&self, wanted: Option<u64>) -> Option<&Handle> {
        match wanted {
            None => self.handle.as_ref(),
            Some(wanted) => self.handles().find(|handle| handle.version() == wanted),
        }
    }
}

/// The refusal of a version that a model, which a message calls `name`, is not served in; `named`: those that
/// it is.
pub fn without_version(name: &str, named: Option<&Named>, wanted: &str) -> RequestError {
    let mut numbers: Vec<u64> = named.into_iter().flat_map(Named::handles).map(Handle::version).collect();
    if numbers.is_empty() {
        numbers.push(ONLY_VERSION);
    }
    let plural = if numbers.len() > 1 { "s" } else { "" };
    let numbers = numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    let wanted = crate::text::shown(wanted);
    let message = format!("model `{name}` is served in version{plural} {numbers}, not `{wanted}`");
    RequestError::new(Code::NotFound, Stage::Admit, message)
}

/// The way to a model, or to an ensemble of models.
#[derive(Debug, Clone)]
pub enum Handle {
    /// A loaded model.
    Model(Arc<ModelHandle>),
    /// Several.
    Ensemble(Arc<Ensemble>),
}

impl Handle {
    /// Its inputs and outputs.
    pub fn signature(&self) -> &Arc<Signature> {
        match self {
            Handle::Model(handle) => handle.signature(),
            Handle::Ensemble(ensemble) => ensemble.signature(),
        }
    }

    /// The name of its signature.
    pub fn signature_key(&self) -> &str {
        self.model().map_or(DEFAULT_SIGNATURE_KEY, |model| model.signature_key())
    }

    /// The call by which TensorFlow Serving's clients reach that signature.
    pub fn method_name(&self) -> &str {
        self.model().map_or(PREDICT_METHOD, |model| model.method_name())
    }

    /// The loaded model; `None` for an ensemble.
    pub fn model(&self) -> Option<&Arc<Model>> {
        match self {
            Handle::Model(handle) => Some(handle.model()),
            Handle::Ensemble(_) => None,
        }
    }

    /// The version that is served.
    pub fn version(&self) -> u64 {
        self.model().and_then(|model| model.location().version).unwrap_or(ONLY_VERSION)
    }

    /// Most rows that requests may share one run with; 1 for an ensemble, each of whose steps has its own.
    pub fn max_batch(&self) -> usize {
        match self {
            Handle::Model(handle) => handle.batching().max_batch,
            Handle::Ensemble(_) => 1,
        }
    }

    /// Whether both run the same loaded models.
    pub fn runs_those_of(&self, other: &Handle) -> bool {
        match (self, other) {
            (Handle::Model(one), Handle::Model(other)) => Arc::ptr_eq(one.model(), other.model()),
            (Handle::Ensemble(one), Handle::Ensemble(other)) => one.runs_those_of(other),
            _ => false,
        }
    }

    /// The sequences whose state is kept for it, if any is.
    pub fn sequences(&self) -> Option<&Sequences> {
        match self {
            Handle::Model(handle) => handle.sequences(),
            Handle::Ensemble(_) => None,
        }
    }

    /// Runs it, in a sequence if it keeps state; on the workers of `runtime`, if there is one.
    pub(super) async fn infer(
        &self,
        inputs: Vec<Tensor>,
        sequence: Option<&SequenceCall>,
        runtime: Option<&runtime::Handle>,
    ) -> Result<Prediction, ModelError> {
        match (self, runtime) {
            (Handle::Model(handle), runtime) if handle.sequences().is_some() => {
                Box::pin(handle.infer_in(sequence, inputs, runtime)).await
            }
            (Handle::Model(handle), None) => handle.infer(inputs).await,
            (Handle::Model(handle), Some(runtime)) => handle.infer_on(runtime, inputs).await,
            (Handle::Ensemble(ensemble), runtime) => Box::pin(ensemble.infer(inputs, runtime)).await,
        }
    }
}

impl Models {
    /// The model that `request` goes to; `None` if the endpoint has no models.
    ///
    /// # Errors
    /// `not_found` for a name that no model has, `model_unloaded`.
    pub fn of(&self, request: &Request) -> Result<Option<&Handle>, RequestError> {
        let choice = request.model.as_ref();
        let named = match self.0.as_slice() {
            [] => return Ok(None),
            [only] => only,
            [first, ..] => {
                let name = choice.map(|choice| &*choice.name);
                match name.or_else(|| wanted(request.head.query(), "model=")) {
                    None => first,
                    Some(name) => self.get(name).ok_or_else(|| {
                        let names: Vec<String> =
                            self.0.iter().map(|named| format!("`{}`", named.name)).collect();
                        let message =
                            format!("there is no such model; this endpoint has {}", names.join(", "));
                        RequestError::new(Code::NotFound, Stage::Admit, message)
                    })?,
                }
            }
        };
        let Some(handle) = &named.handle else {
            let message = format!("model `{}` is not loaded", named.shown);
            return Err(RequestError::new(Code::ModelUnloaded, Stage::Admit, message));
        };
        let unserved = |wanted: &str| without_version(&named.shown, Some(named), wanted);
        if let Some(version) = choice.and_then(|choice| choice.version) {
            return named.version(Some(version)).map(Some).ok_or_else(|| unserved(&version.to_string()));
        }
        match wanted(request.head.query(), "version=").filter(|wanted| !wanted.is_empty()) {
            None => Ok(Some(handle)),
            Some(text) => {
                let found = text.parse().ok().and_then(|version| named.version(Some(version)));
                found.map(Some).ok_or_else(|| unserved(text))
            }
        }
    }

    /// Their names and signatures.
    pub fn signatures(&self) -> Vec<(Arc<str>, Arc<Signature>)> {
        self.0.iter().map(|named| (named.name.clone(), named.signature.clone())).collect()
    }

    /// The model of this name, to be changed.
    pub fn named(&mut self, name: &str) -> Option<&mut Named> {
        self.0.iter_mut().find(|named| *named.name == *name)
    }

    /// The model of this name.
    pub fn get(&self, name: &str) -> Option<&Named> {
        self.0.iter().find(|named| *named.name == *name)
    }

    /// The model that requests go to by themselves, if it is loaded.
    pub fn first(&self) -> Option<&Handle> {
        self.0.first()?.handle.as_ref()
    }
}

/// The model that a query names after `key`. Names and numbers need no escapes.
fn wanted<'a>(query: &'a str, key: &str) -> Option<&'a str> {
    query.split('&').find_map(|pair| pair.strip_prefix(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_names_a_model() {
        for (query, expected) in [
            ("", None),
            ("debug=true", None),
            ("model=a", Some("a")),
            ("debug=true&model=a.b-c&x", Some("a.b-c")),
            ("submodel=a", None),
            ("model", None),
        ] {
            assert_eq!(wanted(query, "model="), expected, "{query}");
        }
    }
}
