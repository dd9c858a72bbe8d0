//! A request and a response, free of any protocol.
//!
//! Place in the flow: `server` builds a [`Request`] from what arrived, the pipeline and the handler read it,
//! the pipeline returns an [`Output`]. Neither knows HTTP's types, so that all protocols meet here.
//! Invariant: a request is immutable and shared; its body is copied at most once on the host's side, and only
//! if it arrived in pieces.

pub mod dependencies;
pub mod exchange;
pub mod socket;

use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Instant;

use bytes::Bytes;

use self::exchange::Exchange;
use self::socket::Socket;
use crate::blocking;
use crate::error::{Code, RequestError, Stage};
use crate::json::serving::Serving;
use crate::json::{special, write};
use crate::memory::{Account, Exhausted};
use crate::tensor::Tensor;
use crate::text;
use crate::trace::RequestTrace;

/// The protocol of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// The endpoint's own path.
    Http,
    /// KServe's and TensorFlow Serving's `/v1/models`.
    V1,
    /// The Open Inference Protocol over HTTP.
    V2,
    /// The same over gRPC.
    Grpc,
}

impl Protocol {
    /// All of them, and as they are configured.
    pub const ALL: [(&str, Protocol); 4] =
        [("http", Protocol::Http), ("v1", Protocol::V1), ("v2", Protocol::V2), ("grpc", Protocol::Grpc)];
}

/// The parts of a request only a handler asks for, read from the protocol's own types when it does.
pub trait Head: Send + Sync {
    /// Upper case: `POST`.
    fn method(&self) -> &str;
    /// Without the query.
    fn path(&self) -> &str;
    /// Without the question mark; empty if there is none.
    fn query(&self) -> &str;
    /// A header's value: that of several lines is a list. Bytes above 0x7F are characters of ISO-8859-1.
    /// `name` matches in any case. `:scheme` is that of the request's address.
    fn header(&self, name: &str) -> Option<&str>;
    /// Every header, in the order they came.
    fn headers(&self) -> Vec<(&str, &str)>;

    /// Whether the content type is JSON, or absent, which is taken for JSON.
    fn is_json(&self) -> bool {
        is_json_or_absent(self.header("content-type").unwrap_or_default())
    }

    /// The same as an exchange has it, if it came by HTTP.
    fn as_exchange(&self) -> Option<exchange::Head> {
        None
    }

    /// The same; without a header of this name, of the first one whose name differs in `-` and `_` alone.
    fn header_or_similar(&self, name: &str) -> Option<&str> {
        self.header(name).or_else(|| {
            let headers = name.contains(['-', '_']).then(|| self.headers())?;
            headers.into_iter().find(|(own, _)| text::is_similar(own, name)).map(|(_, value)| value)
        })
    }
}

/// A head that did not come by any protocol: of an example, a sample, or a request that is kept.
#[derive(Debug, Clone, Default)]
pub struct PlainHead {
    /// Upper case.
    pub method: String,
    /// Without the query.
    pub path: String,
    /// Without the question mark.
    pub query: String,
    /// Names in any case.
    pub headers: Vec<(String, String)>,
}

impl PlainHead {
    /// The same as another head.
    pub fn of(head: &dyn Head) -> PlainHead {
        let headers = head.headers().into_iter();
        PlainHead {
            method: head.method().to_owned(),
            path: head.path().to_owned(),
            query: head.query().to_owned(),
            headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        }
    }

    /// Of a `POST` with a body of this type.
    pub fn post(path: &str, content_type: &str) -> PlainHead {
        PlainHead {
            method: "POST".to_owned(),
            path: path.to_owned(),
            query: String::new(),
            headers: vec![("content-type".to_owned(), content_type.to_owned())],
        }
    }
}

impl Head for PlainHead {
    fn method(&self) -> &str {
        &self.method
    }

    fn path(&self) -> &str {
        &self.path
    }

    fn query(&self) -> &str {
        &self.query
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    fn headers(&self) -> Vec<(&str, &str)> {
        self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }

    fn as_exchange(&self) -> Option<exchange::Head> {
        Some(exchange::head(self))
    }
}

/// Headers that name a request and its answer: the server's own, and that of banana's clients.
pub const ID_HEADERS: [&str; 2] = ["x-request-id", "x-banana-request-id"];

/// Headers that the request of a job has: its id, and the number of the attempt, from 1.
pub const JOB_HEADERS: [&str; 2] = ["x-modelhost-job", "x-modelhost-job-attempt"];

/// Whether handlers take a header of this name for one of [`JOB_HEADERS`], which no client's request has.
#[inline]
pub fn is_job_header(name: &str) -> bool {
    JOB_HEADERS.iter().any(|own| own.len() == name.len() && text::is_similar(own, name))
}

/// The origin of a request. No protocol can say it: a request of a listener is a client's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Caller {
    /// A client, or the server itself beside its clients' requests.
    #[default]
    Client,
    /// A job.
    Job {
        /// How many jobs are behind it, each submitted by the next: 0 if a client has submitted it.
        depth: u32,
    },
}

impl Caller {
    /// How deep the job is that the request is; `None` if it is none.
    #[inline]
    pub fn job_depth(self) -> Option<u32> {
        match self {
            Caller::Client => None,
            Caller::Job { depth } => Some(depth),
        }
    }
}

/// One request to an endpoint.
pub struct Request {
    /// Stands in every log line and error of this request.
    pub id: Arc<str>,
    /// Its origin.
    pub caller: Caller,
    /// The trace that it is part of, if tracing is on.
    pub trace: Option<Arc<RequestTrace>>,
    /// The head that a handler may ask for.
    pub head: Box<dyn Head>,
    /// The input for handler and model.
    pub input: Input,
    /// Which of the endpoint's models it goes to, if its protocol says so; else the query may.
    pub model: Option<ModelChoice>,
    /// When it arrived.
    pub arrived: Instant,
    /// When the request's time is up (monotonic wall clock).
    pub deadline: Instant,
    /// Whether every stage's objects go to the log (`?debug=true`).
    pub debug: bool,
    /// The endpoint's `limits.body`, which also holds for tensors as JSON.
    pub body_limit: usize,
    /// The account that its tensors and its answer are charged to.
    pub memory: Account,
}

/// One of an endpoint's models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelChoice {
    /// Its name within the endpoint.
    pub name: Arc<str>,
    /// The version that is asked for; `None`: the one that requests go to by themselves.
    pub version: Option<u64>,
}

/// The input of a request. At most `limits.body` bytes.
pub enum Input {
    /// Bytes, for the handler, or for the built-in conversion from JSON in its place.
    Body(Bytes, Form),
    /// Tensors: the protocol already says what they are.
    Tensors(TensorInput),
    /// A request to an application, which reads its body and sends its response by itself.
    Exchange(Box<Exchange>),
    /// A WebSocket that is to be opened.
    Socket(Box<Socket>),
}

/// How the built-in conversion reads a body and writes the answer, where the handler has no say in it.
#[derive(Debug, Default)]
pub enum Form {
    /// An object of inputs, or a bare value for a single input; outputs as a list.
    #[default]
    Plain,
    /// TensorFlow Serving's: `instances` or `inputs`; `predictions` or `outputs`. The body is known to be
    /// JSON.
    Serving(Serving),
}

/// Tensors in place of a body.
#[derive(Default)]
pub struct TensorInput {
    /// Named as the caller names them; each is as long as its shape says, nothing else is checked.
    pub tensors: Vec<Tensor>,
    /// The protocol's parameters: the text of a JSON object.
    pub parameters: Option<Box<str>>,
    /// The same as a JSON object; `None` if that is too long.
    sample: OnceLock<Option<Bytes>>,
}

impl TensorInput {
    /// Tensors, and parameters as the text of a JSON object.
    pub fn new(tensors: Vec<Tensor>, parameters: Option<Box<str>>) -> TensorInput {
        TensorInput { tensors, parameters, sample: OnceLock::new() }
    }
}

impl Request {
    /// The body, for a handler that reads bytes. Of tensors it is the JSON object of them, made when first
    /// asked for; empty if that [does not fit](Request::body_fits).
    pub fn body(&self) -> &[u8] {
        match &self.input {
            Input::Body(body, _) => body,
            Input::Tensors(input) => self.sample(input).map_or(&[], |sample| sample),
            Input::Exchange(exchange) => exchange.body(),
            Input::Socket(_) => &[],
        }
    }

    /// Whether there is a body within `limits.body`: of tensors, their JSON may be several times as long as
    /// they are.
    ///
    /// # Errors
    /// There is no memory for that JSON.
    pub fn body_fits(&self) -> Result<bool, Exhausted> {
        match &self.input {
            Input::Body(..) | Input::Exchange(_) | Input::Socket(_) => Ok(true),
            Input::Tensors(input) if input.sample.get().is_some() => Ok(self.sample(input).is_some()),
            Input::Tensors(input) => {
                let bytes = input.tensors.iter().map(|tensor| tensor.data.len()).sum();
                let charge = self.memory.take(write::most(&input.tensors).min(self.body_limit))?;
                let json = blocking::if_large(bytes, || self.written(input));
                // Another may have come first: it has the same.
                let _ = input.sample.set(json.map(|json| charge.own(json)));
                Ok(self.sample(input).is_some())
            }
        }
    }

    fn sample<'a>(&self, input: &'a TensorInput) -> Option<&'a Bytes> {
        input.sample.get_or_init(|| self.written(input)).as_ref()
    }

    fn written(&self, input: &TensorInput) -> Option<Bytes> {
        write::object_within(&input.tensors, self.body_limit).map(Bytes::from)
    }

    /// The type of [`Request::body`]: the `content-type` header, or JSON where there was no body.
    pub fn sample_type(&self) -> &str {
        match &self.input {
            Input::Body(..) | Input::Exchange(_) | Input::Socket(_) => self.content_type(),
            Input::Tensors(_) => "application/json",
        }
    }

    /// Its body is longer than it may be.
    pub fn too_large(&self) -> RequestError {
        let message = format!("the body is longer than {} bytes", self.body_limit);
        RequestError::new(Code::BodyTooLarge, Stage::Admit, message)
    }

    /// Whether it goes to an application, which reads its body by itself.
    #[inline]
    pub fn is_exchange(&self) -> bool {
        matches!(self.input, Input::Exchange(_))
    }

    /// The WebSocket that it opens, if it does.
    #[inline]
    pub fn socket(&self) -> Option<&Socket> {
        match &self.input {
            Input::Socket(socket) => Some(socket),
            Input::Body(..) | Input::Tensors(_) | Input::Exchange(_) => None,
        }
    }

    /// The protocol's parameters, the text of a JSON object: `{}` if it has none.
    #[inline]
    pub fn parameters(&self) -> &str {
        match &self.input {
            Input::Tensors(TensorInput { parameters: Some(parameters), .. }) => parameters,
            _ => "{}",
        }
    }

    /// The `content-type` header, or empty.
    #[inline]
    pub fn content_type(&self) -> &str {
        self.head.header("content-type").unwrap_or_default()
    }

    /// Waits for what `stage` has to wait for, for as long as the request has.
    ///
    /// # Errors
    /// `request_timeout`.
    pub async fn in_time<F: Future + Unpin>(
        &self,
        stage: Stage,
        future: F,
    ) -> Result<F::Output, RequestError> {
        until(self.deadline, future).await.ok_or_else(|| {
            RequestError::new(Code::RequestTimeout, stage, "the request took longer than it may")
        })
    }

    /// Whether the content type is JSON, or absent, which is taken for JSON.
    pub fn is_json(&self) -> bool {
        self.head.is_json()
    }
}

fn is_json_or_absent(content_type: &str) -> bool {
    content_type.split(';').next().unwrap_or_default().trim().is_empty() || is_json_type(content_type)
}

/// Whether a media type is JSON's, or based on it: `Application/JSON; charset=utf-8`, `application/geo+json`.
/// As browsers have it (the MIME Sniffing standard's "JSON MIME type").
pub fn is_json_type(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
        || essence.eq_ignore_ascii_case("text/json")
        || essence.rsplit_once('+').is_some_and(|(_, suffix)| suffix.eq_ignore_ascii_case("json"))
}

/// A body of JSON without the byte order mark that it may begin with, for handlers whose parser takes none.
pub fn without_mark(body: Bytes) -> Bytes {
    let json = special::without_mark(&body);
    if json.len() == body.len() { body } else { body.slice_ref(json) }
}

/// The output of the pipeline for a request.
#[derive(Debug, Clone)]
pub enum Output {
    /// A complete response: from the handler, or the outputs as JSON for a request that had a body.
    Response(Response),
    /// The response of an application, which has sent it by itself, or of a WebSocket.
    Streamed {
        /// Its status.
        status: u16,
    },
    /// Tensors, for a request that brought tensors.
    Tensors(Vec<Tensor>),
}

impl Output {
    /// The status of HTTP that it has, or would have.
    pub fn status(&self) -> u16 {
        match self {
            Output::Response(response) => response.status,
            Output::Streamed { status } => *status,
            Output::Tensors(_) => 200,
        }
    }
}

/// The response to the caller.
#[derive(Debug, Clone)]
pub struct Response {
    /// 200 to 599.
    pub status: u16,
    /// Empty: no `content-type` header.
    pub content_type: String,
    /// Further headers, names and values already checked.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Bytes,
}

impl Response {
    /// A response that has a status and nothing else.
    pub fn bare(status: u16) -> Response {
        Response { status, content_type: String::new(), headers: Vec::new(), body: Bytes::new() }
    }
}

/// The output of `future` if it is ready when it is polled now, or once more after its task has done what it
/// has yet to do. Enough for the body that came with its head: it is handed over after the first poll.
pub async fn soon<F: Future + Unpin>(mut future: F) -> Option<F::Output> {
    let mut is_second = false;
    std::future::poll_fn(|context| match Pin::new(&mut future).poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending if is_second => Poll::Ready(None),
        Poll::Pending => {
            is_second = true;
            context.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await
}

/// Waits for `future`, but not beyond `deadline`; `None` if it did not make it. A future that is ready at
/// once, the usual case on the request path, never costs a timer. It stays pinned where the caller has it:
/// the futures of guest calls are large, and by value each of these layers would copy them.
pub async fn until<F: Future + Unpin>(deadline: Instant, mut future: F) -> Option<F::Output> {
    let at_once = std::future::poll_fn(|context| {
        Poll::Ready(match Pin::new(&mut future).poll(context) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        })
    });
    match at_once.await {
        Some(output) => Some(output),
        None => tokio::time::timeout_at(deadline.into(), future).await.ok(),
    }
}
