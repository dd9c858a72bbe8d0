//! The way of every request through the server, by any protocol.
//!
//! Place in the flow: a listener finds the endpoint of a request; [`serve`] admits the request at its head,
//! has its message received and decoded, runs it, has the output or the error encoded, and signs the answer.
//! In: a [`Transport`], which brings messages and takes answers (HTTP, gRPC), and a [`Protocol`], which says
//! what they mean.
//! Invariants: nothing of a message is received or decoded of a request that has no place at
//! its endpoint; each request that had one is counted once, however it ends.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::HeaderMap;

use super::body::Bounds;
use super::request_telemetry::RequestTelemetry;
use super::served::Served;
use crate::arrivals::Origin;
use crate::endpoint::Answer;
use crate::endpoint::config::EndpointConfig;
use crate::endpoint::generation::Generation;
use crate::endpoint::response_cache::CacheUse;
use crate::error::{RequestError, Stage};
use crate::json::write;
use crate::keys::Credentials;
use crate::memory::{Account, Charge};
use crate::request::{Caller, Head, Input, ModelChoice, Output, Request};
use crate::rollout::deployment::Deployment;
use crate::telemetry::access_log::AccessEntry;
use crate::telemetry::traces::{AnswerStatus, Operation, RequestFacts};
use crate::trace::RequestTrace;

/// How many times as long a handler's response may be in another form, JSON as tensors and these as JSON.
const REWRITTEN: usize = 3;

/// How messages come and answers go. Implemented by the head of a request.
pub(super) trait Transport: Sized {
    /// The source that the message is received from.
    type Body;
    type Message;
    type Answer;

    fn credentials(&self) -> Credentials<'_>;

    /// The client's address and connection, by which a message that is still arriving may lose its place.
    fn origin(&self) -> Origin;

    /// The whole message; `None` if the client went away before its end.
    fn receive(
        &mut self,
        body: Self::Body,
        bounds: Bounds,
    ) -> impl Future<Output = Result<Option<Self::Message>, RequestError>> + Send;

    /// Whether the objects of every stage go to the log.
    fn is_debug(&self) -> bool;

    /// The head as handlers see it.
    fn into_head(self) -> Box<dyn Head>;

    /// Logs a failure and makes its answer.
    fn encode_error(error: RequestError, call: &Call<'_>, endpoint: Option<&str>) -> Self::Answer;

    /// The headers as they came.
    fn headers(&self) -> &HeaderMap;

    /// The request's entry in the access log, if it has one, the first time.
    fn take_access(&mut self) -> Option<Arc<AccessEntry>>;

    /// The operation that the request asks for, as its span has it.
    fn operation(&self, endpoint: Option<&EndpointConfig>) -> Operation;

    /// The status of an answer.
    fn status(answer: &Self::Answer) -> AnswerStatus;

    /// Keeps what an answer is charged with until the last of it has left.
    fn hold(answer: &mut Self::Answer, charge: Charge);

    fn sign(answer: &mut Self::Answer, signature: &Signature<'_>);
}

type AnswerOf<P> = <<P as Protocol>::Transport as Transport>::Answer;

/// The meaning of messages, and the form of an output. One request's.
pub(super) trait Protocol: Sized {
    type Transport: Transport;

    /// Whether it takes the place of a WebSocket and not of a request.
    const IS_SOCKET: bool = false;

    /// The input; what is made for it is charged to the room.
    fn decode(
        &mut self,
        head: &Self::Transport,
        message: <Self::Transport as Transport>::Message,
        room: Room,
    ) -> Result<Input, RequestError>;

    /// Whether a response of a handler is copied into the answer, in another form.
    fn rewrites(&self) -> bool {
        true
    }

    fn encode(self, output: Output, generation: &Generation) -> Result<AnswerOf<Self>, RequestError>;

    fn encode_error(error: RequestError, call: &Call<'_>, endpoint: Option<&str>) -> AnswerOf<Self> {
        Self::Transport::encode_error(error, call, endpoint)
    }
}

/// The room that an input has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    /// Most bytes of it.
    pub longest: usize,
    /// The account that it is charged to.
    pub memory: Account,
}

/// The part of a request that all protocols have in common.
pub(super) struct Call<'a> {
    pub served: &'a Served,
    pub id: Arc<str>,
    /// When its head was there.
    pub arrived: Instant,
    /// When its client gives up, if it says so.
    pub client_deadline: Option<Instant>,
    /// The trace that it is part of; [`serve`] begins it where tracing or the access log is on.
    pub trace: Option<Arc<RequestTrace>>,
}

impl<'a> Call<'a> {
    /// A request whose client has not said how long it waits.
    pub fn new(served: &'a Served, id: Arc<str>, arrived: Instant) -> Call<'a> {
        Call { served, id, arrived, client_deadline: None, trace: None }
    }

    /// Its client is gone.
    fn cancel(&self) {
        if let Some(trace) = &self.trace {
            trace.cancel();
        }
    }

    /// When its time is up: after `limit`, or when its client gives up.
    fn deadline(&self, limit: Duration) -> Instant {
        let deadline = self.arrived + limit;
        self.client_deadline.map_or(deadline, |client| client.min(deadline))
    }
}

/// Where a request goes.
pub(super) struct Destination<'a> {
    pub endpoint: &'a Deployment,
    /// Which of the endpoint's models, if the protocol says so.
    pub model: Option<ModelChoice>,
}

/// The signature of an answer.
pub(super) struct Signature<'a> {
    pub id: &'a str,
    /// SHA-256 of the handler.
    pub digest: Option<&'a str>,
    /// The stage from which on the handler had no part in the answer.
    pub bypassed: Option<Stage>,
    /// The part that the response cache had in it, if there is one.
    pub cached: Option<CacheUse>,
}

/// Serves one request. `found`: where it goes and what it says, or why it goes nowhere.
pub(super) async fn serve<P: Protocol>(
    mut call: Call<'_>,
    found: Result<(Destination<'_>, P), RequestError>,
    mut head: P::Transport,
    body: <P::Transport as Transport>::Body,
) -> AnswerOf<P> {
    let deployment = found.as_ref().ok().map(|(destination, _)| destination.endpoint);
    let endpoint = deployment.map(|deployment| deployment.config.name.as_str());
    let memory = deployment.map(|deployment| deployment.memory);
    let mut telemetry = match call.served.is_observed {
        false => None,
        true => begin_telemetry(&mut call, deployment, &mut head),
    };
    let mut cached = None;
    let (encoded, generation, bypassed) = match found {
        Ok((destination, mut protocol)) => match run(&call, destination, &mut protocol, head, body).await {
            Ok(Answer { outcome, generation, bypassed, cached: by }) => {
                cached = by;
                let memory = memory.unwrap_or_default();
                let encoded = outcome.and_then(|output| encode(protocol, output, &generation, memory));
                (encoded, Some(generation), bypassed)
            }
            Err(error) => (Err(error), None, None),
        },
        Err(error) => (Err(error), None, None),
    };
    if let (Some(telemetry), Err(error)) = (&mut telemetry, &encoded) {
        telemetry.fail(error);
    }
    let refused_by = encoded.as_ref().err().and_then(|error| error.digest.clone());
    let mut answer = encoded.unwrap_or_else(|error| P::encode_error(error, &call, endpoint));
    let digest = generation.as_ref().map_or(refused_by.as_deref(), |generation| generation.digest.as_deref());
    P::Transport::sign(&mut answer, &Signature { id: &call.id, digest, bypassed, cached });
    if let Some(telemetry) = telemetry {
        telemetry.end(P::Transport::status(&answer));
    }
    answer
}

/// Begins the trace of a request, its span if it is sampled, and its part in the access log.
#[cold]
fn begin_telemetry<T: Transport>(
    call: &mut Call<'_>,
    endpoint: Option<&Deployment>,
    head: &mut T,
) -> Option<RequestTelemetry> {
    let access = head.take_access();
    let (head, config) = (&*head, endpoint.map(|endpoint| &endpoint.config));
    let facts = || RequestFacts {
        operation: head.operation(config),
        endpoint: config.map(|config| config.name.as_str().into()),
        id: call.id.clone(),
        arrived: call.arrived,
    };
    let key = || config?.keys.name(|| head.credentials());
    let tracer = call.served.tracer.as_ref();
    let (trace, telemetry) = RequestTelemetry::begin(tracer, access, head.headers(), facts, key)?;
    call.trace = Some(trace);
    Some(telemetry)
}

/// Makes the answer of an output, for which there is memory before it is made.
fn encode<P: Protocol>(
    protocol: P,
    output: Output,
    generation: &Generation,
    memory: Account,
) -> Result<AnswerOf<P>, RequestError> {
    let most = match &output {
        Output::Tensors(tensors) => write::most(tensors),
        Output::Response(response) if protocol.rewrites() => response.body.len().saturating_mul(REWRITTEN),
        Output::Response(_) | Output::Streamed { .. } => 0,
    };
    let charge = memory.take(most).map_err(|full| full.at(Stage::PostInference))?;
    let mut answer = protocol.encode(output, generation)?;
    if charge.bytes() > 0 {
        P::Transport::hold(&mut answer, charge);
    }
    Ok(answer)
}

/// Admits a request, receives and decodes its message, and runs it.
///
/// # Errors
/// The endpoint's handler never saw the request.
async fn run<P: Protocol>(
    call: &Call<'_>,
    Destination { endpoint, model }: Destination<'_>,
    protocol: &mut P,
    mut head: P::Transport,
    body: <P::Transport as Transport>::Body,
) -> Result<Answer, RequestError> {
    let limits = &endpoint.config.limits;
    let deadline = call.deadline(limits.request_timeout);
    let (memory, body_rate, arrived) = (endpoint.memory, limits.body_rate, call.arrived);
    let bounds = Bounds { longest: limits.body, body_rate, arrived, deadline, memory };
    let mut admitted = match P::IS_SOCKET {
        false => endpoint.admit(|| head.credentials(), || endpoint.has_candidate())?,
        true => endpoint.admit_socket(|| head.credentials())?,
    };
    let origin = head.origin();
    let received = {
        let receive = pin!(head.receive(body, bounds));
        admitted.arrive(origin, receive).await
    };
    let input = match received.flatten() {
        Ok(Some(message)) => protocol.decode(&head, message, Room { longest: limits.body, memory }),
        // Its client is gone and will read no answer. `admitted`, dropped here, counts the request as
        // cancelled.
        Ok(None) => {
            call.cancel();
            return Err(RequestError::invalid(Stage::Admit, "the body broke off"));
        }
        Err(error) => Err(error),
    };
    let input = match input {
        Ok(input) => input,
        Err(error) => {
            admitted.refuse(&error);
            return Err(error);
        }
    };
    let debug = head.is_debug();
    let (id, body_limit) = (call.id.clone(), limits.body);
    let (caller, head) = (Caller::Client, head.into_head());
    let trace = call.trace.clone();
    let request =
        Request { id, caller, trace, head, input, model, arrived, deadline, debug, body_limit, memory };
    let ended = admitted.serve(Arc::new(request), endpoint.observers()).await;
    Ok(ended.inspect_err(|_| call.cancel())?)
}
