//! Applications: handlers that serve whole requests by themselves.
//!
//! An application exports `respond`. [`Router`] leads each request to a function by method and path; the
//! function's arguments ([`Json`], [`Query`], [`Path`], [`Output`], …) are read from the request, and its
//! result becomes the response. It calls [`models`](crate::models) as often as it likes, streams its
//! response by an [`Output`], and works on after it.
//!
//! ```
//! use std::sync::LazyLock;
//!
//! use modelhost_guest::app::{Event, Json, Output, Path, Router, Sent};
//! use modelhost_guest::{Handler, Result, Tensor, export, models};
//!
//! struct App;
//!
//! static ROUTES: LazyLock<Router<App>> =
//!     LazyLock::new(|| Router::new().post("/double", double).get("/count/{to}", count).summary("Counts"));
//!
//! fn double(_: &mut App, Json(values): Json<Vec<f32>>) -> Result<Json<Vec<f32>>> {
//!     let outputs = models::infer("", &[Tensor::new("x", [values.len() as u64], &values)])?;
//!     Ok(Json(outputs[0].values::<f32>()?.into_owned()))
//! }
//!
//! fn count(_: &mut App, Path(to): Path<u32>, output: Output) -> Result<Sent> {
//!     let mut events = output.events()?;
//!     for number in 0..to {
//!         if !events.send(&Event::new(number.to_string())) {
//!             break; // The client is gone.
//!         }
//!     }
//!     Ok(events.finish())
//! }
//!
//! impl Handler for App {
//!     fn new() -> Self {
//!         App
//!     }
//!
//!     fn router() -> Option<&'static Router<App>> {
//!         Some(&ROUTES)
//!     }
//! }
//!
//! export!(App: respond);
//! # #[cfg(not(target_family = "wasm"))] {
//!
//! // In a unit test, without a host:
//! use modelhost_guest::Context;
//! use modelhost_guest::app::answer;
//!
//! models::answer_with(|_, inputs| {
//!     let doubled: Vec<f32> = inputs[0].values::<f32>().unwrap().iter().map(|it| it * 2.0).collect();
//!     Ok(vec![Tensor::new("y", [doubled.len() as u64], &doubled)])
//! });
//! let request = Context::builder().path("/double").body("application/json", "[1.5]");
//! let doubled = answer(&mut App, request).unwrap();
//! assert_eq!((doubled.status, doubled.text()), (200, "[3.0]"));
//! let counted = answer(&mut App, Context::builder().method("GET").path("/count/2")).unwrap();
//! assert_eq!(counted.text(), "data: 0\n\ndata: 1\n\n");
//! # }
//! ```

mod batch;
mod event;
mod extract;
#[cfg(not(target_family = "wasm"))]
mod native;
mod reply;
mod route;

use crate::{Context, Response, Result, Sample, internal};

#[cfg(target_family = "wasm")]
use crate::bindings::respond::modelhost::handler::streaming::Output as Source;
#[cfg(not(target_family = "wasm"))]
use native::Source;

pub use crate::bindings::Operation;
pub use batch::Responses;
pub use event::{Event, Events};
pub use extract::{Form, FromRequest, Json, Multipart, Path, Query};
#[cfg(not(target_family = "wasm"))]
pub use native::{Answer, answer, answer_all};
pub use reply::{IntoReply, Reply, Sent};
pub use route::{Route, Router, WithContext};

/// A request to an application.
#[derive(Debug)]
pub struct Request<'a> {
    /// The body.
    pub sample: Sample,
    /// The rest of the request.
    pub context: &'a Context,
    output: Option<Output>,
    /// Of its path, in the order of the route's; those that are not taken yet.
    parameters: std::vec::IntoIter<String>,
}

impl<'a> Request<'a> {
    pub(crate) fn new(sample: Sample, context: &'a Context, output: Source) -> Request<'a> {
        Request { sample, context, output: Some(Output(output)), parameters: Vec::new().into_iter() }
    }

    /// One of a batch, whose response is returned.
    pub(crate) fn of_batch(sample: Sample, context: &'a Context) -> Request<'a> {
        Request { sample, context, output: None, parameters: Vec::new().into_iter() }
    }

    /// The response, to be streamed or sent before the function returns.
    ///
    /// # Errors
    /// [`Error::Internal`](crate::Error::Internal) if it was taken before, and in a batch.
    pub fn output(&mut self) -> Result<Output> {
        self.output.take().ok_or_else(|| internal("the output of the request was taken before"))
    }
}

/// Whether the client of the request that is served went away before it had all of the response; natively it
/// never does. A function that works for long asks now and then: a second later its instance goes too.
pub fn is_disconnected() -> bool {
    #[cfg(target_family = "wasm")]
    return crate::bindings::request::modelhost::handler::request::is_disconnected();
    #[cfg(not(target_family = "wasm"))]
    false
}

/// The response of a request: in pieces, or at once with work after it.
#[derive(Debug)]
pub struct Output(Source);

impl Output {
    /// Begins a response in pieces.
    ///
    /// # Errors
    /// [`Error::Internal`](crate::Error::Internal): something of the head cannot be sent.
    pub fn begin(self, status: u16, content_type: &str, headers: &[(String, String)]) -> Result<Pieces> {
        self.0.begin(status, content_type, headers).map_err(internal)?;
        Ok(Pieces(self.0))
    }

    /// Begins a stream of server-sent events.
    ///
    /// # Errors
    /// As [`Output::begin`].
    pub fn events(self) -> Result<Events> {
        let headers = [("cache-control".to_owned(), "no-store".to_owned())];
        Ok(Events::new(self.begin(200, "text/event-stream", &headers)?))
    }

    /// Sends a whole response. What the function does after it, the client does not wait for; the host does,
    /// for as long as `limits.background_timeout` says.
    ///
    /// # Errors
    /// As [`Output::begin`].
    pub fn send(self, response: impl Into<Response>) -> Result<Sent> {
        Source::send(self.0, &response.into()).map_err(internal)?;
        Ok(Sent::new())
    }
}

/// The body of a response in pieces. Dropped before [`finish`](Pieces::finish), it breaks off, and the client
/// knows.
#[derive(Debug)]
pub struct Pieces(Source);

impl Pieces {
    /// Sends bytes; waits while the client does not read. False: the client is gone.
    #[must_use = "there may be no client any more"]
    pub fn write(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.0.write(bytes.as_ref())
    }

    /// Ends the response.
    pub fn finish(self) -> Sent {
        Source::finish(self.0);
        Sent::new()
    }
}
