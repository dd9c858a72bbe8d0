//! An instance between two requests and during one: checked out, called, checked in.
//!
//! Place in the flow: the pipeline takes a [`Lease`] with [`Plugin::checkout`] and calls a handler's
//! functions through it; [`Lease::finish`] gives the instance back.
//! In: a request. Out: an instance that is idle, or fresh, for as long as the request has it; whether the
//! next request may get it.
//! Invariants: a lease that is not finished takes its instance with it; an instance that holds more of the
//! host than it did after its trial serves no more.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::handler::Plugin;
use super::host_call_log::HostCallLog;
use super::instance::Instance;
use super::settings::Isolation;
use super::staged::{Outcome, StagedCall};
use super::stages::{Application, Stages};
use crate::error::RequestError;
use crate::model_access::HandlerModels;
use crate::request::Request;
use crate::request::dependencies::Dependencies;
use crate::request::exchange::Exchange;
use crate::request::socket::Socket;
use crate::tensor::{Signature, Tensor};

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

/// An instance while it belongs to one request. Dropped unfinished, it takes the instance with it: any state
/// the guest was left in is gone.
pub struct Lease<'a> {
    plugin: &'a Plugin,
    pub(super) instance: Option<Box<Instance>>,
    kept: bool,
    log: Option<Arc<HostCallLog>>,
}

impl<'a> Lease<'a> {
    /// `kept`: it may serve others after. `log`: of a request that is recorded or replayed.
    pub(super) fn new(
        plugin: &'a Plugin,
        instance: Box<Instance>,
        kept: bool,
        log: Option<Arc<HostCallLog>>,
    ) -> Lease<'a> {
        Lease { plugin, instance: Some(instance), kept, log }
    }

    /// Which stages its handler takes part in.
    pub fn stages(&self) -> Stages {
        self.plugin.stages()
    }

    /// Gives the handler the models that it may call for this request.
    pub fn give(&mut self, models: Arc<dyn HandlerModels>) {
        if let Some(instance) = &mut self.instance {
            instance.give(models);
        }
    }

    /// Begins the run: says whether what the handler asks of its capabilities is done, requests to others
    /// sent and values stored, and which log knows of it.
    pub fn begin_run(&mut self, calls_out: bool, log: Option<&Arc<HostCallLog>>) {
        if let Some(instance) = &mut self.instance {
            let state = instance.store.data_mut();
            state.run.calls_out = calls_out;
            state.run.calls_log = log.cloned();
            state.capabilities.begin();
        }
    }

    /// The things that the handler has asked for so far beside its request.
    pub fn dependencies(&self) -> Dependencies {
        self.instance
            .as_ref()
            .map_or_else(Dependencies::default, |instance| instance.store.data().run.dependencies)
    }

    /// Bytes of memory that the instance holds, the most it has held: it never gives any back.
    pub fn memory(&self) -> usize {
        self.instance.as_ref().map_or(0, |instance| instance.memory())
    }

    /// Runs a call of the handler around the model; `None` if it has no such function.
    ///
    /// # Errors
    /// The handler's own errors, `plugin_trap`, `plugin_out_of_memory`, `plugin_bad_output`,
    /// `plugin_timeout`, `request_timeout`.
    pub async fn call(
        &mut self,
        request: &Request,
        call: StagedCall<'_>,
    ) -> Option<Result<Outcome<Vec<Tensor>>, RequestError>> {
        if let Some(log) = self.log.as_ref().filter(|_| call.is_among(self.stages())) {
            log.enter(call.function(), call.sample());
        }
        let outcome = self.instance.as_mut()?.call(request, call).await;
        if let (Some(log), StagedCall::PostTensors(_), Some(Ok(Outcome::Next(tensors)))) =
            (&self.log, call, &outcome)
        {
            log.note_answer(tensors);
        }
        outcome
    }

    /// Has an application serve an exchange; `None` if the handler is none.
    ///
    /// # Errors
    /// As [`Lease::call`]. If the response was under way, it is broken off.
    pub async fn handle(
        &mut self,
        request: &Arc<Request>,
        exchange: &Exchange,
    ) -> Option<Result<(), RequestError>> {
        let digest = self.plugin.digest().clone();
        let application = self.plugin.stages().application?;
        match application {
            Application::Respond => {
                self.enter("respond");
                self.instance.as_mut()?.respond(request, exchange, &digest).await
            }
            Application::Http => {
                self.enter("handle");
                self.instance.as_mut()?.handle(request, exchange, &digest).await
            }
        }
    }

    /// Has the handler serve a WebSocket; `None` if it has no `websocket`.
    ///
    /// # Errors
    /// As [`Lease::call`].
    pub async fn websocket(
        &mut self,
        request: &Request,
        socket: &Socket,
    ) -> Option<Result<(), RequestError>> {
        let digest = self.plugin.digest().clone();
        self.instance.as_mut()?.websocket(request, socket, digest).await
    }

    /// Tells the log of a call.
    pub(super) fn enter(&self, function: &'static str) {
        if let Some(log) = &self.log {
            log.enter(function, None);
        }
    }

    /// The request is answered and the guest is at rest: the instance may serve another.
    pub fn finish(mut self) {
        if let Some(mut instance) = self.instance.take() {
            instance.tell_of_refused_memory();
            instance.end();
            let state = instance.store.data();
            // A response or a socket that the guest has kept stays with the instance. So does what it has
            // left open of a capability.
            let is_held = state.streaming.is_held()
                || state.conversation.is_held()
                || !state.capabilities.are_at_rest(&state.loaded.config.limits);
            if self.kept && !is_held && !state.limiter.is_nearly_full() {
                self.plugin.checkin(instance);
            }
        }
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        if let Some(mut instance) = self.instance.take() {
            instance.end();
        }
    }
}
