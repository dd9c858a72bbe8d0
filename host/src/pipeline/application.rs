//! The program of a request to an application: the handler serves it by itself.
//!
//! Flow: `endpoint → [application] → plugin`, in place of all stages.
//! In:   an exchange, or a WebSocket, and the handler. Out: the status of the response, whose body leaves by
//! the exchange; or why the handler did not come to its end.
//!
//! Invariant: nothing but an exchange or a socket reaches an application, so none of its models is reached
//! past it.

use std::sync::Arc;

use super::batches::Batches;
use super::handler_models::checkout;
use super::plan::RunPlan;
use super::report::RunReport;
use super::{Pipeline, RunFailure};
use crate::error::{Code, RequestError, Stage};
use crate::plugin::{Application, InstanceSource, Lease, Plugin};
use crate::request::exchange::{BrokenBody, Exchange};
use crate::request::socket::{Ending, Socket};
use crate::request::{Input, Output, Request, Response};

/// Runs the application.
///
/// # Errors
/// `not_found` for a request that came by another protocol, or to a handler that is no application; what the
/// handler's call ended in.
pub(super) async fn run(
    pipeline: &Pipeline,
    request: &Arc<Request>,
    plan: &RunPlan,
    report: &mut RunReport,
) -> Result<Output, RunFailure> {
    if let Some(socket) = request.socket() {
        return Ok(converse(pipeline, request, socket, plan, report).await?);
    }
    let Input::Exchange(exchange) = &request.input else {
        return Err(not_found("the endpoint is an application: call it over HTTP, below its own path").into());
    };
    if let Some(refusal) = &plan.refusal {
        return Err(refusal.clone().into());
    }
    let plugin = pipeline.plugin.as_ref().ok_or_else(|| not_found("the endpoint is no application"))?;
    if let Some(log) = report.log().filter(|_| plan.keeps_exchange) {
        exchange.keep(log.budget());
    }
    match plugin.stages().application {
        Some(Application::Respond) => receive(request, exchange).await?,
        Some(Application::Http) => {}
        None if plugin.stages().websocket => {
            let message = "the endpoint serves WebSockets alone: connect to it by `ws://`";
            return Err(RequestError::new(Code::UpgradeRequired, Stage::Admit, message).into());
        }
        None => return Err(not_found("the endpoint is no application").into()),
    }
    let together = is_batched(plugin, request);
    if let Some(batches) = pipeline.batches.as_ref().filter(|_| together && may_join(plan, report)) {
        return in_batch(batches, plugin, request, exchange, report).await;
    }
    let mut lease = checkout(&pipeline.models, plugin, request, plan, report.log()).await?;
    report.checked_out();
    let ended = match together {
        false => lease.handle(request, exchange).await,
        true => alone(&mut lease, plugin, request, exchange).await,
    };
    report.called(Some(&lease));
    report.end(Stage::PreInference);
    // The rest of the body, if any, breaks off before the caller is told why.
    if matches!(ended, Some(Ok(()))) {
        lease.finish();
    } else {
        drop(lease);
    }
    exchange.progress().end();
    match ended {
        Some(Ok(())) => Ok(Output::Streamed { status: exchange.progress().status() }),
        // The handler has lost its client: whether it takes that well does not count.
        Some(Err(_)) if exchange.progress().is_gone() => Err(RunFailure::ClientGone),
        // Its handler has got an error for it, and few make more of that than an error of their own.
        Some(Err(_)) if exchange.progress().was_too_long() => Err(request.too_large().into()),
        Some(Err(error)) => Err(error.into()),
        None => Err(not_found("the endpoint is no application").into()),
    }
}

/// Whether the handler serves this request together with others.
fn is_batched(plugin: &Plugin, request: &Request) -> bool {
    let (paths, head) = (plugin.batched_paths(), &request.head);
    !paths.is_empty() && head.method() == "POST" && paths.iter().any(|path| path == head.path())
}

/// Whether a run may share a call with others: none whose host calls are logged or known, and none that must
/// leave nothing behind.
fn may_join(plan: &RunPlan, report: &RunReport) -> bool {
    plan.instance == InstanceSource::ByIsolation && !plan.measures && report.log().is_none()
}

/// Waits for the batch that the request becomes part of, and sends its response.
async fn in_batch(
    batches: &Arc<Batches>,
    plugin: &Plugin,
    request: &Arc<Request>,
    exchange: &Exchange,
    report: &mut RunReport,
) -> Result<Output, RunFailure> {
    let answered = tokio::select! {
        biased;
        answered = request.in_time(Stage::PreInference, batches.join(request)) => Some(answered),
        () = exchange.progress().gone() => None,
    };
    report.end(Stage::PreInference);
    let ended = answered.map(|answered| {
        let (waited, response) = answered?;
        report.waited(waited);
        respond(exchange, response?, plugin)
    });
    exchange.progress().end();
    // Without a client it has left the batch.
    ended.ok_or(RunFailure::ClientGone)??;
    Ok(Output::Streamed { status: exchange.progress().status() })
}

/// Has the handler serve a batch of this request alone.
async fn alone(
    lease: &mut Lease<'_>,
    plugin: &Plugin,
    request: &Arc<Request>,
    exchange: &Exchange,
) -> Option<Result<(), RequestError>> {
    let answers = lease.respond_all(std::slice::from_ref(request), exchange.progress()).await?;
    let answer = answers.and_then(|answers| {
        answers.into_iter().next().unwrap_or_else(|| {
            Err(RequestError::new(Code::PluginBadOutput, Stage::PreInference, "the handler returned nothing"))
        })
    });
    Some(answer.and_then(|response| respond(exchange, response, plugin)))
}

/// Sends a response that is whole.
fn respond(exchange: &Exchange, response: Response, plugin: &Plugin) -> Result<(), RequestError> {
    let sent = exchange.respond_whole(response, plugin.digest().clone());
    sent.map_err(|full| full.at(Stage::PreInference))
}

/// Has the handler serve a WebSocket, for as long as it is open.
///
/// # Errors
/// `not_found` if the handler has no `websocket`; what its call ended in.
async fn converse(
    pipeline: &Pipeline,
    request: &Arc<Request>,
    socket: &Socket,
    plan: &RunPlan,
    report: &mut RunReport,
) -> Result<Output, RequestError> {
    if let Some(refusal) = &plan.refusal {
        return Err(refusal.clone());
    }
    let none = || not_found("the endpoint serves no WebSockets");
    let plugin = pipeline.plugin.as_ref().filter(|_| pipeline.has_websocket()).ok_or_else(none)?;
    let mut lease = checkout(&pipeline.models, plugin, request, plan, report.log()).await?;
    report.checked_out();
    let ended = lease.websocket(request, socket).await.unwrap_or_else(|| Err(none()));
    report.called(Some(&lease));
    match &ended {
        Ok(()) => lease.finish(),
        Err(_) => drop(lease),
    }
    socket.end(if ended.is_ok() { Ending::Returned } else { Ending::Failed });
    socket.progress().end();
    ended.map(|()| Output::Streamed { status: socket.progress().status() })
}

fn not_found(message: &str) -> RequestError {
    RequestError::new(Code::NotFound, Stage::Admit, message)
}

/// Waits for the body, which is there already unless the endpoint has just got a handler of the other kind.
async fn receive(request: &Request, exchange: &Exchange) -> Result<(), RequestError> {
    if exchange.is_received() {
        return Ok(());
    }
    match tokio::time::timeout_at(request.deadline.into(), exchange.receive()).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(BrokenBody::TooLong(_))) => Err(request.too_large()),
        Ok(Err(BrokenBody::Incomplete)) => {
            Err(RequestError::invalid(Stage::Admit, "the body broke off".to_owned()))
        }
        Err(_) => Err(RequestError::new(Code::RequestTimeout, Stage::Admit, "the body took too long")),
    }
}
