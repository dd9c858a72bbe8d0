//! A call without its message: its credentials, id, arrival and deadline.
//!
//! Place in the flow: made of a gRPC request's metadata by every method; [`infer`](super::infer) makes a
//! [`Head`] and a deadline of it.

use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::HeaderMap;
use tonic::{Request, Response, Status};

use super::failure;
use crate::arrivals::Origin;
use crate::endpoint::config::EndpointConfig;
use crate::error::RequestError;
use crate::keys::Credentials;
use crate::memory::Charge;
use crate::request::{Head, Protocol, is_job_header};
use crate::server::body::Bounds;
use crate::server::field_text::OpaqueFields;
use crate::server::head::{SCHEME, Secure, X_REQUEST_ID, credentials};
use crate::server::serve::{self, Signature, Transport};
use crate::server::served::Served;
use crate::telemetry::access_log::AccessEntry;
use crate::telemetry::traces::{AnswerStatus, Operation};

/// How models are looked for.
pub(super) const GRPC: Option<Protocol> = Some(Protocol::Grpc);

/// The answer of a method.
pub(super) type Reply<T> = Result<Response<T>, Status>;

/// When the head of a call arrived, and its entry in the access log.
#[derive(Clone)]
pub(super) struct Arrived(pub Instant, pub Option<Arc<AccessEntry>>);

/// The charge of an answer. Extensions have to be clones of each other.
#[derive(Clone)]
pub(super) struct Held(Arc<Mutex<Option<Charge>>>);

impl Held {
    /// The charge, the first time.
    pub(super) fn take(&self) -> Option<Charge> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// One call.
#[derive(Clone)]
pub(super) struct Call {
    /// Stands in every log line of it.
    pub id: Arc<str>,
    /// When its head arrived; of a request in a stream, when the request did.
    pub arrived: Instant,
    /// When the client gives up, if it says so.
    pub client_deadline: Option<Instant>,
    /// Whose connection it came by.
    pub origin: Origin,
    secure: Secure,
    headers: Arc<HeaderMap>,
    access: Option<Arc<AccessEntry>>,
}

impl Call {
    /// Splits a request of tonic's into what is around it and the message.
    pub(super) fn of<T>(request: Request<T>) -> (Call, T) {
        let (metadata, mut extensions, message) = request.into_parts();
        let headers = metadata.into_headers();
        let arrived = extensions.remove::<Arrived>();
        let (arrived, access) = arrived.map_or_else(|| (Instant::now(), None), |it| (it.0, it.1));
        let origin = extensions.get().copied().unwrap_or_default();
        let secure = extensions.get().copied().unwrap_or_default();
        // `HttpService` has seen to it that there is one that is fit to be returned.
        let id = headers.get(X_REQUEST_ID).and_then(|id| id.to_str().ok()).unwrap_or_default().into();
        let timeout = headers.get("grpc-timeout").and_then(|timeout| parse_timeout(timeout.to_str().ok()?));
        let client_deadline = timeout.and_then(|timeout| arrived.checked_add(timeout));
        let headers = Arc::new(headers);
        (Call { id, arrived, client_deadline, origin, secure, headers, access }, message)
    }

    /// A request in a stream, the `number`th, that arrived just now.
    pub(super) fn part(&self, number: u64) -> Call {
        let id = format!("{}-{number}", self.id).into();
        let access = self.access.as_ref().map(|entry| entry.part());
        Call { id, arrived: Instant::now(), access, ..self.clone() }
    }

    /// Its credentials.
    pub(super) fn credentials(&self) -> Credentials<'_> {
        credentials(&self.headers)
    }

    /// The call as [`serve`](serve::serve) takes it.
    pub(super) fn call<'a>(&self, served: &'a Served) -> serve::Call<'a> {
        let Call { id, arrived, client_deadline, .. } = self;
        serve::Call { client_deadline: *client_deadline, ..serve::Call::new(served, id.clone(), *arrived) }
    }

    /// Its head, `path` being the method's.
    pub(super) fn head<Q, A>(&self, path: &'static str) -> GrpcHead<Q, A> {
        let (headers, opaque) = (self.headers.clone(), OpaqueFields::default());
        let access = self.access.clone();
        GrpcHead { path, secure: self.secure, headers, opaque, access, messages: PhantomData }
    }
}

/// The head of a call of one method, which takes a `Q` and answers with an `A`.
pub(super) struct GrpcHead<Q, A> {
    path: &'static str,
    secure: Secure,
    headers: Arc<HeaderMap>,
    opaque: OpaqueFields,
    access: Option<Arc<AccessEntry>>,
    messages: PhantomData<fn(Q) -> A>,
}

/// The message is there before its request is served: [`intake`](super::intake) has watched over it.
impl<Q: Send + 'static, A: 'static> Transport for GrpcHead<Q, A> {
    type Body = Q;
    type Message = Q;
    type Answer = Result<Response<A>, Status>;

    fn credentials(&self) -> Credentials<'_> {
        credentials(&self.headers)
    }

    fn origin(&self) -> Origin {
        Origin::default()
    }

    fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    fn take_access(&mut self) -> Option<Arc<AccessEntry>> {
        self.access.take()
    }

    fn operation(&self, _: Option<&EndpointConfig>) -> Operation {
        Operation::Grpc { path: self.path }
    }

    async fn receive(&mut self, message: Q, _: Bounds) -> Result<Option<Q>, RequestError> {
        Ok(Some(message))
    }

    fn is_debug(&self) -> bool {
        false
    }

    fn into_head(self) -> Box<dyn Head> {
        Box::new(self)
    }

    fn encode_error(error: RequestError, call: &serve::Call<'_>, endpoint: Option<&str>) -> Self::Answer {
        Err(failure::status(error, call, endpoint))
    }

    fn status(answer: &Self::Answer) -> AnswerStatus {
        AnswerStatus::Grpc(answer.as_ref().err().map_or(0, |status| status.code().into()))
    }

    /// [`intake`](super::intake) puts it to the body.
    fn hold(answer: &mut Self::Answer, charge: Charge) {
        if let Ok(response) = answer {
            response.extensions_mut().insert(Held(Arc::new(Mutex::new(Some(charge)))));
        }
    }

    fn sign(answer: &mut Self::Answer, signature: &Signature<'_>) {
        let metadata = match answer {
            Ok(response) => response.metadata_mut(),
            Err(status) => status.metadata_mut(),
        };
        failure::sign(metadata, signature);
    }
}

impl<Q, A> Head for GrpcHead<Q, A> {
    /// Every gRPC call is one of these to HTTP.
    fn method(&self) -> &str {
        "POST"
    }

    fn path(&self) -> &str {
        self.path
    }

    fn query(&self) -> &str {
        ""
    }

    fn header(&self, name: &str) -> Option<&str> {
        if name == SCHEME {
            return Some(self.secure.scheme());
        }
        // No client calls itself a job.
        if is_job_header(name) { None } else { self.opaque.text(&self.headers, name) }
    }

    fn headers(&self) -> Vec<(&str, &str)> {
        let mut headers = self.opaque.all(&self.headers);
        headers.retain(|(name, _)| !is_job_header(name));
        headers
    }
}

/// `grpc-timeout`: at most eight digits and a unit (gRPC over HTTP2, "Requests").
fn parse_timeout(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let plausible = (1..=8).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit());
    let number: u64 = if plausible { number.parse().ok()? } else { return None };
    Some(match unit {
        "H" => Duration::from_secs(number * 3600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_call_says_that_it_is_a_job() {
        let mut request = Request::new(());
        for name in ["x-modelhost-job", "x-mine"] {
            request.metadata_mut().insert(name, "1".parse().unwrap());
        }
        let head: GrpcHead<(), ()> = Call::of(request).0.head("/x");
        assert_eq!((head.header("x-modelhost-job"), head.header("x-mine")), (None, Some("1")));
    }

    #[test]
    fn timeouts_are_read() {
        let milliseconds = |text| parse_timeout(text).map(|timeout| timeout.as_millis());
        assert_eq!(milliseconds("2S"), Some(2_000));
        assert_eq!(milliseconds("1500m"), Some(1_500));
        assert_eq!(milliseconds("7000u"), Some(7));
        assert_eq!(milliseconds("8000000n"), Some(8));
        assert_eq!(milliseconds("1M"), Some(60_000));
        assert_eq!(milliseconds("99999999H"), Some(99_999_999 * 3_600_000));
        for nonsense in ["", "S", "1", "1s", "-1S", "+1S", "123456789S", "1 S", "é", "1é"] {
            assert_eq!(parse_timeout(nonsense), None, "{nonsense}");
        }
    }
}
