//! Requests to applications, as wholes: what they were and what was answered, and the same once more.
//!
//! Place in the flow: for those who keep runs of an application or run kept ones: recordings, samples, the
//! gate, shadows, replays. In: an exchange whose bodies were kept. Out: its outcome with the whole response;
//! or a run of the same request, with its response.
//! Invariants: nothing here keeps a response from its client; a run beside requests ends by its deadline.

use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use super::compare::Outcome;
use crate::error::{Code, RequestError, Stage};
use crate::pipeline::Pipeline;
use crate::pipeline::plan::RunPlan;
use crate::pipeline::report::RunReport;
use crate::request::exchange::{BrokenBody, Client, Exchange};
use crate::request::{Caller, Input, Output, PlainHead, Request};

/// Calls `then` as soon as the client has all of the response, or will have no more of it: at once, unless
/// the request is an exchange whose response is under way.
pub fn when_taken(request: &Arc<Request>, outcome: &Outcome, then: impl FnOnce() + Send + 'static) {
    match &request.input {
        Input::Exchange(exchange) if outcome.is_ok() && !exchange.progress().is_settled() => {
            let progress = exchange.progress().clone();
            tokio::spawn(async move {
                progress.settled().await;
                then();
            });
        }
        _ => then(),
    }
}

/// The outcome of a run, of an exchange with the response that its client has taken; `None` if that was not
/// kept, or the client went away before.
pub fn whole(request: &Request, outcome: &Outcome) -> Option<Outcome> {
    match (&request.input, outcome) {
        (Input::Exchange(exchange), Ok(_)) => Some(Ok(Output::Response(exchange.response()?))),
        (_, Ok(output)) => Some(Ok(output.clone())),
        (_, Err(error)) => Some(Err(error.told())),
    }
}

/// The same request, with the end that gets its response; `None` if it is no exchange, or its body is not
/// here.
pub fn again(request: &Request, deadline: Instant) -> Option<(Request, Client)> {
    let Input::Exchange(exchange) = &request.input else { return None };
    let (body, true) = exchange.request_body()? else { return None };
    let head = PlainHead::of(&*request.head);
    let (again, client) = made(head, body, exchange.is_secure, &request.id, deadline, request.body_limit);
    Some((again, client))
}

/// A request to an application, with the end that gets its response.
pub fn made(
    head: PlainHead,
    body: Bytes,
    is_secure: bool,
    id: &str,
    deadline: Instant,
    body_limit: usize,
) -> (Request, Client) {
    let (exchange, client) = Exchange::of(&head, body, is_secure);
    let request = Request {
        id: id.into(),
        trace: None,
        caller: Caller::Client,
        head: Box::new(head),
        input: Input::Exchange(Box::new(exchange)),
        model: None,
        arrived: Instant::now(),
        deadline,
        debug: false,
        body_limit,
        memory: crate::memory::Account::default(),
    };
    (request, client)
}

/// Runs a request; of an exchange takes the response, by `until`.
///
/// # Errors
/// As [`Pipeline::run`]; `request_timeout` if an exchange takes longer.
pub async fn run(
    pipeline: &Pipeline,
    request: &Arc<Request>,
    client: Option<Client>,
    until: Instant,
    plan: &RunPlan,
    report: &mut RunReport,
) -> Outcome {
    let Some(client) = client else { return Ok(pipeline.run(request, plan, report).await?) };
    let both = async {
        let mut running = pin!(pipeline.run(request, plan, report));
        let mut taking = pin!(client.whole_response());
        let taken = tokio::select! {
            // An answer that is here counts, though its handler has ended too.
            biased;
            taken = &mut taking => {
                if let Some(Err(BrokenBody::TooLong(most))) = taken {
                    return Err(too_long(most));
                }
                running.await?;
                taken
            }
            ended = &mut running => {
                ended?;
                taking.await
            }
        };
        match taken {
            Some(Ok(response)) => Ok(Output::Response(response)),
            Some(Err(BrokenBody::TooLong(most))) => Err(too_long(most)),
            Some(Err(BrokenBody::Incomplete)) | None => {
                Err(RequestError::new(Code::Internal, Stage::PreInference, "the response broke off"))
            }
        }
    };
    let late = |_| {
        RequestError::new(Code::RequestTimeout, Stage::PreInference, "the response took longer than it may")
    };
    // Boxed: the future of a run is large, and this is off the path of requests.
    tokio::time::timeout_at(until.into(), Box::pin(both)).await.map_err(late)?
}

fn too_long(most: u64) -> RequestError {
    let message = format!("the response is longer than {most} bytes, more than is compared");
    RequestError::new(Code::PluginBadOutput, Stage::PreInference, message)
}
