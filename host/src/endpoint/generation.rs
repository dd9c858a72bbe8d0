//! One version of an endpoint's handler and models.
//!
//! Place in the flow: pinned by a request when it begins to run, published by `rollout`.
//! Invariant: nothing of it changes but the state of its breaker.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use super::breaker::Breaker;
use crate::model::Model;
use crate::pipeline::Pipeline;
use crate::pipeline::models::Models;
use crate::plugin::{Operation, Stages};
use crate::schema::Schema;
use crate::schema::raw_body::RawBody;

/// Ids of generations: each of the process has another.
static NEXT_ID: AtomicU64 = AtomicU64::new(0);

/// One version of an endpoint, handler and models: everything it needs to answer.
pub struct Generation {
    /// No other generation of the process has it, candidates included.
    pub(crate) id: u64,
    /// 1 for the first, then counting up.
    pub number: u64,
    /// SHA-256 of the handler in hex; `None` without a handler.
    pub digest: Option<Arc<str>>,
    /// When it became current.
    pub published: SystemTime,
    /// Its handler and models.
    pub pipeline: Pipeline,
    /// Stops calls of a handler that keeps failing.
    pub(crate) breaker: Option<Arc<Breaker>>,
}

impl Generation {
    /// A generation that is published now. Without a handler it needs no breaker.
    pub fn new(number: u64, pipeline: Pipeline, breaker: Option<Breaker>) -> Generation {
        let digest = pipeline.plugin.as_ref().map(|plugin| plugin.digest().clone());
        let breaker = breaker.filter(|_| pipeline.plugin.is_some()).map(Arc::new);
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        Generation { id, number, digest, published: SystemTime::now(), pipeline, breaker }
    }

    /// Whether its handler is called: `closed`, `open` or `probing`; `None` without a breaker.
    pub fn breaker_state(&self) -> Option<&'static str> {
        self.breaker.as_deref().map(Breaker::state)
    }

    /// Its models.
    pub fn models(&self) -> &Models {
        &self.pipeline.models
    }

    /// Which stages its handler takes part in; `None` without a handler.
    pub fn stages(&self) -> Option<Stages> {
        self.pipeline.plugin.as_ref().map(|plugin| plugin.stages())
    }

    /// The operations of an application, as far as it says so.
    pub fn operations(&self) -> &[Operation] {
        self.pipeline.plugin.as_ref().map(|plugin| plugin.operations()).unwrap_or_default()
    }

    /// The inputs that it takes, if the configuration or the handler says so.
    pub fn schema(&self) -> Option<&Arc<Schema>> {
        self.pipeline.schema.as_ref()
    }

    /// The files that its body has to be one of, if it is one.
    pub fn raw_body(&self) -> Option<&Arc<RawBody>> {
        self.pipeline.raw_body.as_ref()
    }

    /// The schema that tensors have to fit, if that is not the model's signature alone.
    pub fn schema_of_tensors(&self) -> Option<&Arc<Schema>> {
        self.pipeline.schema_of_tensors()
    }

    /// The model that requests go to by themselves, if there is one and it is loaded.
    pub fn model(&self) -> Option<&Arc<Model>> {
        self.pipeline.models.first()?.model()
    }

    /// Whether its handler is not called, but for probes.
    pub fn is_open(&self) -> bool {
        self.breaker.as_deref().is_some_and(Breaker::is_open)
    }
}
