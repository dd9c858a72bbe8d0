//! The trial of an application on `wasi:http`: whether one of its instances serves a second request.
//!
//! Place in the flow: [`Plugin::load`](crate::plugin::Plugin::load) tries a first instance. In: an instance.
//! Out: whether two requests to it, `GET /` both, came to the same. Components on `wasi:http` are made for
//! hosts that take a fresh instance for each request, and some fail a second one; so they are reused only
//! where the operator asks for it, and this succeeds.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Method;
use http_body_util::{BodyExt as _, Empty};

use crate::error::RequestError;
use crate::plugin::instance::Instance;
use crate::request::exchange::{Client, Exchange};
use crate::request::{Caller, Input, PlainHead, Request};
use crate::text;

/// The request id of a trial, in the log and in what the handler is told.
const ID: &str = "reuse-trial";
/// How long the rest of a response may take that its handler has ended.
const REST: Duration = Duration::from_secs(1);

impl Instance {
    /// Both requests. Gives the status of their responses, or which one failed and how.
    pub(in crate::plugin) async fn trial(&mut self, digest: &Arc<str>) -> Result<u16, String> {
        let first = self.ask(digest).await.map_err(|why| format!("the first failed: {why}"))?;
        match self.ask(digest).await {
            Ok(second) if second == first => Ok(first),
            Ok(second) => Err(format!("the first was answered with {first} and the second with {second}")),
            Err(why) => Err(format!("the second failed: {why}")),
        }
    }

    async fn ask(&mut self, digest: &Arc<str>) -> Result<u16, String> {
        let mut sent = http::Request::new(Empty::new().map_err(|never| match never {}).boxed_unsync());
        sent.headers_mut().insert("x-request-id", http::HeaderValue::from_static(ID));
        let (exchange, client) = Exchange::new(&Method::GET, false);
        exchange.begin(sent);
        let now = Instant::now();
        let limits = &self.store.data().loaded.config.limits;
        let request = Arc::new(Request {
            id: ID.into(),
            trace: None,
            caller: Caller::Client,
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
        self.begin(&request, None);
        let ended = self.handle(&request, exchange, digest).await;
        self.end();
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
