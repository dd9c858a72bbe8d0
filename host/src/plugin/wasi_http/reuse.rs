//! Which instances serve again: those between two requests, and the trial of an application on `wasi:http`.
//!
//! Place in the flow: [`Plugin::load`] tries a first instance, [`Lease`](crate::plugin::Lease)
//! gives instances back. In: an instance whose request is answered. Out: whether the next request may get it.
//! Components on `wasi:http` are made for hosts that take a fresh instance for each request, and some fail a
//! second one; so they are reused only where the operator asks for it, and if two requests to one instance,
//! `GET /` both, came to the same.
//! Invariant: an instance that holds more of the host than it did after the trial serves no more.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use http::Method;
use http_body_util::{BodyExt as _, Empty};

use crate::error::RequestError;
use crate::plugin::exports::Application;
use crate::plugin::instance::Instance;
use crate::plugin::{Isolation, Plugin};
use crate::request::exchange::{Client, Exchange};
use crate::request::{Input, PlainHead, Request};
use crate::text;

/// The request id of a trial, in the log and in what the handler is told.
const ID: &str = "reuse-trial";
/// How long the rest of a response may take that its handler has ended.
const REST: Duration = Duration::from_secs(1);

impl Plugin {
    /// Whether instances serve one request after another.
    pub fn reuses(&self) -> bool {
        self.loaded.config.isolation == Isolation::Worker && self.handles_kept.is_some()
    }

    /// Finds out how many handles an instance may keep from one request to the next; `None` if it is not to
    /// be reused. `first` has served as often as the trial needed.
    pub(in crate::plugin) async fn try_reuse(&self, first: &mut Instance) -> Option<usize> {
        let config = &self.loaded.config;
        if self.stages().application != Some(Application::Http) {
            return Some(usize::MAX);
        }
        if !config.reuse_instances || config.isolation != Isolation::Worker {
            return None;
        }
        let endpoint = &config.endpoint;
        match self.trial(first).await {
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

    /// Both requests. Gives the status of their responses, or which one failed and how.
    async fn trial(&self, instance: &mut Instance) -> Result<u16, String> {
        let first = self.ask(instance).await.map_err(|why| format!("the first failed: {why}"))?;
        match self.ask(instance).await {
            Ok(second) if second == first => Ok(first),
            Ok(second) => Err(format!("the first was answered with {first} and the second with {second}")),
            Err(why) => Err(format!("the second failed: {why}")),
        }
    }

    async fn ask(&self, instance: &mut Instance) -> Result<u16, String> {
        let mut sent = http::Request::new(Empty::new().map_err(|never| match never {}).boxed_unsync());
        sent.headers_mut().insert("x-request-id", http::HeaderValue::from_static(ID));
        let (exchange, client) = Exchange::new(&Method::GET, false);
        exchange.begin(sent);
        let now = Instant::now();
        let limits = &self.loaded.config.limits;
        let request = Arc::new(Request {
            id: ID.into(),
            head: Box::new(PlainHead { method: "GET".into(), path: "/".into(), ..PlainHead::default() }),
            input: Input::Exchange(Box::new(exchange)),
            model: None,
            arrived: now,
            deadline: now + limits.wall(limits.pre_timeout),
            debug: false,
            body_limit: 0,
            memory: crate::memory::Account::default(),
        });
        let Input::Exchange(exchange) = &request.input else { return Err("there was none".to_owned()) };
        let taken = tokio::spawn(take(client));
        instance.begin(&request, None);
        let ended = instance.handle(&request, exchange, self.digest()).await;
        instance.end();
        let told = |error: RequestError| match &error.detail {
            Some(detail) => format!("{}: {}", error.message, text::on_one_line(detail)),
            None => error.message.clone(),
        };
        let whole = match ended {
            Some(Ok(())) => tokio::time::timeout(REST, taken).await,
            Some(Err(error)) => {
                taken.abort();
                return Err(told(error));
            }
            None => return Err("there is no function for it".to_owned()),
        };
        match whole {
            Ok(Ok(true)) => Ok(exchange.progress().status()),
            _ => Err("its response broke off".to_owned()),
        }
    }

    /// Keeps an instance for the next request, or drops it.
    pub(in crate::plugin) fn checkin(&self, mut instance: Box<Instance>) {
        let is_wanted = self.reuses() && !self.loaded.holding.is_to_yield();
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

/// Takes a response to its end; whether it has one.
async fn take(client: Client) -> bool {
    let Some(mut response) = client.response().await else { return false };
    while let Some(frame) = response.body.frame().await {
        if frame.is_err() {
            return false;
        }
    }
    true
}
