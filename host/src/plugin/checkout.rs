//! Instances between two requests: checked out for one, and checked in after it.
//!
//! Place in the flow: the pipeline takes a [`Lease`] with [`Plugin::checkout`]; [`Lease::finish`] gives the
//! instance back with `checkin`. In: a request; an instance whose request is answered. Out: an instance that
//! is idle, or fresh; whether the next request may get it.
//! Invariant: an instance that holds more of the host than it did after its trial serves no more.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::handler::Plugin;
use super::host_call_log::HostCallLog;
use super::instance::Instance;
use super::lease::Lease;
use super::settings::Isolation;
use super::stages::Application;
use crate::error::RequestError;
use crate::request::Request;
use crate::tensor::Signature;

/// Where the instance of a run comes from, and what becomes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InstanceSource {
    /// As [`Isolation`] says.
    #[default]
    ByIsolation,
    /// A fresh one, which goes with the run.
    Fresh,
}

impl Plugin {
    /// Checks out an instance for a request that goes to a model of this `signature`, if it goes to one: an
    /// idle one under [`Isolation::Worker`] if there is one and it may be kept, else a fresh one.
    ///
    /// # Errors
    /// `overloaded` if the process has no sandbox left, `plugin_trap` if the component fails to start.
    pub async fn checkout(
        &self,
        request: &Arc<Request>,
        signature: Option<&Arc<Signature>>,
        source: InstanceSource,
    ) -> Result<Lease<'_>, RequestError> {
        // Nothing is ever idle under `isolation = request`.
        let kept = source == InstanceSource::ByIsolation && self.reuses();
        let idle = if kept { self.idle.pop() } else { None };
        let mut instance = match idle {
            Some(instance) => instance,
            None => {
                let end = request.deadline;
                // Boxed: it is large, and with an idle instance it never comes to be.
                Box::pin(self.fresh(Some(end))).await.map_err(|error| error.in_request(end))?
            }
        };
        instance.begin(request, signature);
        Ok(Lease::new(self, instance, kept, None))
    }

    /// Checks out a fresh instance, dropped afterwards, for a request that is recorded or replayed.
    ///
    /// # Errors
    /// As [`Plugin::checkout`].
    pub async fn checkout_logged(
        &self,
        request: &Arc<Request>,
        signature: Option<&Arc<Signature>>,
        log: &Arc<HostCallLog>,
    ) -> Result<Lease<'_>, RequestError> {
        log.begin(signature);
        let instance = Instance::new(&self.loaded, Some(request.deadline), Some(log.clone())).await;
        let mut instance = instance.map_err(|error| error.in_request(request.deadline))?;
        if self.loaded.init_in_each {
            let end = request.deadline;
            instance.init(Some(end)).await.map_err(|error| error.in_request(end))?;
        }
        instance.begin(request, signature);
        Ok(Lease::new(self, instance, false, Some(log.clone())))
    }

    /// Whether instances serve one request after another.
    pub fn reuses(&self) -> bool {
        self.loaded.context.config.isolation == Isolation::Worker && self.handles_kept.is_some()
    }

    /// Finds out how many handles an instance may keep from one request to the next; `None` if it is not to
    /// be reused. `first` has served as often as the trial needed.
    pub(super) async fn try_reuse(&self, first: &mut Instance) -> Option<usize> {
        let config = &self.loaded.context.config;
        if self.stages().application != Some(Application::Http) {
            return Some(usize::MAX);
        }
        if !config.reuse_instances || config.isolation != Isolation::Worker {
            return None;
        }
        let endpoint = &config.endpoint;
        match first.trial(self.digest()).await {
            Ok(status) => {
                tracing::info!(%endpoint, "an instance has answered two requests, both with {status}: instances are \
                    reused");
                Some(first.handles())
            }
            Err(why) => {
                tracing::warn!(%endpoint, "instances are not reused: of two requests to one of them, {why}; each \
                    request gets a fresh one");
                None
            }
        }
    }

    /// Keeps an instance for the next request, or drops it.
    pub(super) fn checkin(&self, mut instance: Box<Instance>) {
        let is_wanted = self.reuses() && !self.loaded.context.holding.is_to_yield();
        // The usual case counts nothing.
        let most = self.handles_kept.unwrap_or(0);
        if is_wanted && (most == usize::MAX || instance.handles() <= most) {
            self.idle.push(instance);
            // Looked at after the push: either this or `retire` finds the instance.
            if self.retired.load(Ordering::SeqCst) {
                self.idle.clear();
            }
        }
    }
}
