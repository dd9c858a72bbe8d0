//! `grpc.health.v1.Health`: what load balancers and orchestrators ask.
//!
//! Place in the flow: beside it. Like readiness over HTTP: serving from the first answer until the process
//! is asked to stop, but while an application says that it is not ready; a client that watches is not told
//! of that.
//! Invariant: a client that watches is told when the drain begins, and then let go, or it would hold the
//! drain up.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tonic::codegen::tokio_stream::Stream;
use tonic::{Request, Response, Status};
use tonic_health::pb;
use tonic_health::pb::health_check_response::ServingStatus;

use crate::server::served::Served;

/// The health of a server and all its services: they have the same.
pub(super) struct Health {
    services: Vec<&'static str>,
    served: Arc<Served>,
}

impl Health {
    /// The empty name, which is the server's, is one of the services.
    pub(super) fn of(services: &[&'static str], served: &Arc<Served>) -> Health {
        Health { services: [&[""], services].concat(), served: served.clone() }
    }

    fn status(&self) -> ServingStatus {
        if self.served.drain.has_begun() { ServingStatus::NotServing } else { ServingStatus::Serving }
    }
}

#[tonic::async_trait]
impl pb::health_server::Health for Health {
    async fn check(
        &self,
        request: Request<pb::HealthCheckRequest>,
    ) -> Result<Response<pb::HealthCheckResponse>, Status> {
        let service = &*request.get_ref().service;
        if !self.services.contains(&service) {
            return Err(Status::not_found("there is no such service"));
        }
        let is_ready = self.served.all_are_ready().await;
        Ok(Response::new(answer(if is_ready { self.status() } else { ServingStatus::NotServing })))
    }

    type WatchStream = Watch;

    async fn watch(&self, request: Request<pb::HealthCheckRequest>) -> Result<Response<Watch>, Status> {
        let known = self.services.contains(&&*request.get_ref().service);
        let drain = self.served.drain.clone();
        Ok(Response::new(Watch {
            now: Some(if known { self.status() } else { ServingStatus::ServiceUnknown }),
            last: known.then_some(ServingStatus::NotServing),
            end: Some(Box::pin(async move { drain.begun().await })),
        }))
    }
}

fn answer(status: ServingStatus) -> pb::HealthCheckResponse {
    pb::HealthCheckResponse { status: status.into() }
}

/// The status now; when the drain begins, the last one.
pub(super) struct Watch {
    now: Option<ServingStatus>,
    last: Option<ServingStatus>,
    end: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Stream for Watch {
    type Item = Result<pb::HealthCheckResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(now) = self.now.take() {
            // A client that comes during the drain has been told.
            self.last.take_if(|last| *last == now);
            return Poll::Ready(Some(Ok(answer(now))));
        }
        if let Some(end) = &mut self.end {
            ready!(end.as_mut().poll(context));
            self.end = None;
        }
        Poll::Ready(self.last.take().map(|last| Ok(answer(last))))
    }
}
