//! `ModelStreamInfer`: requests of a stream, an answer to each, in their order.
//!
//! Place in the flow: around [`infer`].
//! Invariants: at most [`MOST`] requests of a stream are being served; beyond that nothing more is read of
//! it, so its client feels it. A request that fails is answered by its failure and the stream goes on. What
//! was read is answered, however the stream ends; only a client that goes away cancels. Requests of one
//! sequence are served one after the other, in the order in which they came.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tonic::codegen::tokio_stream::Stream;
use tonic::metadata::MetadataMap;
use tonic::{Status, Streaming};

use super::call::Call;
use super::pb::infer_parameter::ParameterChoice;
use super::pb::{InferParameter, ModelInferRequest, ModelInferResponse, ModelStreamInferResponse};
use super::{failure, infer};
use crate::error::RequestError;
use crate::server::served::Served;

/// Requests of one stream that are served at the same time.
const MOST: usize = 16;
/// On every answer: it is the only one to its request.
const FINAL: &str = "triton_final_response";
const REQUEST_ID: &str = "x-request-id";
/// Of a request: the sequence that it belongs to.
const SEQUENCE: &str = "sequence_id";

/// The answers to a stream of requests.
pub(super) struct Answers {
    /// `None` once it has ended.
    requests: Option<Streaming<ModelInferRequest>>,
    in_flight: VecDeque<Serving>,
    /// Why the requests ended, if not because there are no more.
    end: Option<Status>,
    served: Arc<Served>,
    call: Call,
    count: u64,
}

/// A request on a task of its own, so that requests of a stream share the cores as those of different clients
/// do; ends with the stream.
struct Serving {
    task: JoinHandle<ModelStreamInferResponse>,
    sequence: Option<ParameterChoice>,
    /// Closed when it has been served.
    served: watch::Receiver<()>,
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Answers {
    /// Answers `requests`, which came by `call`.
    pub(super) fn to(requests: Streaming<ModelInferRequest>, served: Arc<Served>, call: Call) -> Answers {
        let in_flight = VecDeque::new();
        Answers { requests: Some(requests), in_flight, end: None, served, call, count: 0 }
    }

    /// Begins as many requests as there are and may be.
    fn begin(&mut self, context: &mut Context<'_>) {
        while self.in_flight.len() < MOST {
            let Some(requests) = &mut self.requests else { return };
            match Pin::new(requests).poll_next(context) {
                Poll::Pending => return,
                Poll::Ready(Some(Ok(message))) => {
                    self.count += 1;
                    let (served, call) = (self.served.clone(), self.call.part(self.count));
                    let sequence =
                        message.parameters.get(SEQUENCE).and_then(|it| it.parameter_choice.clone());
                    let mut others = self.in_flight.iter().rev();
                    let before = others.find(|other| sequence.is_some() && other.sequence == sequence);
                    let before = before.map(|other| other.served.clone());
                    let (end, ended) = watch::channel(());
                    let task = tokio::spawn(async move {
                        let is_due = match before {
                            Some(before) => turn(&served, &call, &message, before).await,
                            None => Ok(()),
                        };
                        let answer = serve(served, call, message, is_due).await;
                        drop(end);
                        answer
                    });
                    self.in_flight.push_back(Serving { task, sequence, served: ended });
                }
                Poll::Ready(end) => {
                    self.end = end.and_then(Result::err);
                    self.requests = None;
                }
            }
        }
    }
}

impl Stream for Answers {
    type Item = Result<ModelStreamInferResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.begin(context);
        let Some(oldest) = self.in_flight.front_mut() else {
            if self.requests.is_some() {
                return Poll::Pending;
            }
            return Poll::Ready(self.end.take().map(Err));
        };
        let answer = ready!(Pin::new(&mut oldest.task).poll(context));
        self.in_flight.pop_front();
        // There is room for one more, and its arrival is to wake this.
        self.begin(context);
        // Only this stream ends a task before its time.
        Poll::Ready(Some(answer.map_err(|_| Status::internal("the request was not served to its end"))))
    }
}

/// Waits until the request before of the same sequence has been served. A message that waits has a place of
/// its endpoint's, as one does that is served: what a stream may hold is bounded by those.
///
/// # Errors
/// `overloaded`: no place is free.
async fn turn(
    served: &Served,
    call: &Call,
    message: &ModelInferRequest,
    mut before: watch::Receiver<()>,
) -> Result<(), RequestError> {
    // One for no model is answered at once.
    let Ok(entry) = infer::entry(served, call, message) else { return Ok(()) };
    let _place = entry.destination().endpoint.admit_waiting()?;
    // Nothing is sent: this is its end.
    let _ = before.changed().await;
    Ok(())
}

async fn serve(
    served: Arc<Served>,
    call: Call,
    message: ModelInferRequest,
    is_due: Result<(), RequestError>,
) -> ModelStreamInferResponse {
    let failed = ModelInferResponse {
        model_name: message.model_name.clone(),
        model_version: message.model_version.clone(),
        id: message.id.clone(),
        ..ModelInferResponse::default()
    };
    let (error_message, mut response) = match infer::infer(&served, &call, message, is_due).await {
        Ok(response) => (String::new(), response.into_inner()),
        Err(status) => {
            let mut response = failed;
            for name in [failure::CODE, failure::STAGE, failure::HANDLER_DIGEST] {
                response.parameters.extend(parameter(name, status.metadata()));
            }
            (failure::message(&status), response)
        }
    };
    let last = InferParameter { parameter_choice: Some(ParameterChoice::BoolParam(true)) };
    response.parameters.insert(FINAL.to_owned(), last);
    response.parameters.insert(REQUEST_ID.to_owned(), text(&call.id));
    ModelStreamInferResponse { error_message, infer_response: Some(response) }
}

fn text(text: &str) -> InferParameter {
    InferParameter { parameter_choice: Some(ParameterChoice::StringParam(text.to_owned())) }
}

/// Metadata of a failure, which a failure in a stream has no other place for.
fn parameter(name: &str, metadata: &MetadataMap) -> Option<(String, InferParameter)> {
    let value = metadata.get(name)?.to_str().ok()?;
    Some((name.to_owned(), text(value)))
}
