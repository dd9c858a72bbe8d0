#![doc = include_str!("../README.md")]
//!
//! # Reading this crate
//!
//! [`Handler`] is what an author writes; [`#[handler]`](macro@handler), in `macros/`, puts it into a
//! component by [`export!`]. `tensor.rs` turns bytes into
//! typed values and back, `message.rs` has the request's body and the response (`multipart.rs` and
//! `media_type.rs` read forms), `context.rs` the request around them, `input.rs` declares what it takes,
//! `models.rs` has the models that it calls by itself, `kv.rs` the values and `blobs.rs` the objects that it
//! keeps, `jobs.rs` the jobs that it submits, `metrics.rs` the metrics that it makes, `image.rs` the library
//! for pictures, `tokenizer.rs` the one for texts, `outbound.rs` its requests to others, `app.rs` the
//! requests and responses of an application and its routes (`app/`), `socket.rs` WebSockets, `error.rs` what
//! `?` does.
//! `bindings.rs` is generated from the contract in `wit/`; `libc.rs` makes what `init` leaves fit to be
//! copied.
#![deny(missing_docs)]

#[cfg(target_endian = "big")]
compile_error!("tensors are little-endian; views of them on a big-endian machine would be wrong");

#[cfg(any(all(feature = "allocator", target_family = "wasm"), test))]
#[allow(unsafe_code, reason = "an allocator is")]
mod allocator;
#[allow(
    missing_docs,
    unsafe_code,
    reason = "generated; what an author uses is re-exported with its documents"
)]
#[doc(hidden)]
pub mod bindings;
pub mod app;
mod context;
mod error;
#[doc(hidden)]
pub mod export;
pub mod image;
mod input;
pub mod jobs;
#[cfg(target_family = "wasm")]
mod libc;
mod media_type;
mod message;
pub mod blobs;
pub mod kv;
pub mod metrics;
pub mod models;
mod multipart;
pub mod outbound;
pub mod socket;
mod tensor;
pub mod tokenizer;

// Enumerated, so that what an author may rely on is decided here and not by a code generator.
pub use bindings::Input;
pub use bindings::types::{Datatype, Response, Sample, Signature, Tensor, TensorSpec};
#[cfg(not(target_family = "wasm"))]
pub use context::ContextBuilder;
pub use context::{Context, Metadata};
pub use error::{Error, Result, internal, invalid};
pub use half::{bf16, f16};
pub use modelhost_guest_macros::handler;
pub use multipart::Part;
pub use tensor::{Element, Rows, TensorError};

#[cfg(all(feature = "allocator", target_family = "wasm"))]
#[global_allocator]
static ALLOCATOR: allocator::Recycler = allocator::Recycler::new();

/// A handler: what happens to a request before and after the model.
///
/// One value of it lives in every instance of the component, and an instance serves one request at a time,
/// from [`pre_inference`](Handler::pre_inference) to [`post_inference`](Handler::post_inference). So a field
/// may carry something from the one to the other, and no other request ever sees it in between. Whether a
/// field also survives into the *next* request is the endpoint's choice: it does under
/// `isolation = "worker"`, it does not under `"request"`. Use that for caches only.
///
/// Write any of the functions, under [`#[handler]`](macro@handler), which exports those that are there.
pub trait Handler: 'static {
    /// Makes the value: when the instance gets its first request, or before [`init`](Handler::init).
    fn new() -> Self;

    /// Prepares the value, before the first request: reads files, builds tables.
    ///
    /// The host runs it when the handler is loaded and copies the memory it leaves; every instance begins
    /// with that copy, so that even megabytes of state cost a request nothing. What is not memory cannot be
    /// copied: keep no file open in a field. Random numbers drawn here are the same in all instances; so are
    /// the keys of a `HashMap` made here. Where the copy cannot be taken, every instance runs this for
    /// itself.
    ///
    /// # Errors
    /// Anything wrong with files or `metadata`, of any kind: the text reaches the operator, and the handler
    /// is not served.
    fn init(&mut self, metadata: &Metadata) -> Result<()> {
        let _ = metadata;
        Ok(())
    }

    /// Turns the request's body into the model's inputs.
    ///
    /// A tensor whose name is no input of the model binds to the model's only input; a shape that does not
    /// fit is reshaped if the element count does. On an endpoint without a model the tensors go straight to
    /// [`post_inference`](Handler::post_inference).
    ///
    /// # Errors
    /// [`invalid`] for what the caller has to mend, [`internal`] for the rest; [`Error::Respond`] answers at
    /// once and skips the model.
    fn pre_inference(&mut self, sample: Sample, context: &Context) -> Result<Vec<Tensor>> {
        let _ = (sample, context);
        Err(unwritten("pre_inference"))
    }

    /// Turns the model's outputs, all of them and in the model's order, into the response.
    ///
    /// # Errors
    /// As for [`pre_inference`](Handler::pre_inference).
    fn post_inference(&mut self, prediction: Vec<Tensor>, context: &Context) -> Result<Response> {
        let _ = (prediction, context);
        Err(unwritten("post_inference"))
    }

    /// [`pre_inference`](Handler::pre_inference) for tensors: `sample` is what a caller of the Open Inference
    /// Protocol brings, or a JSON body as the input schema or the model's signature reads it, if there is no
    /// `pre_inference`.
    ///
    /// # Errors
    /// As for [`pre_inference`](Handler::pre_inference).
    fn pre_inference_tensors(&mut self, sample: Vec<Tensor>, context: &Context) -> Result<Vec<Tensor>> {
        let _ = (sample, context);
        Err(unwritten("pre_inference_tensors"))
    }

    /// [`post_inference`](Handler::post_inference) for tensors: what a caller of the Open Inference Protocol
    /// gets.
    ///
    /// # Errors
    /// As for [`pre_inference`](Handler::pre_inference).
    fn post_inference_tensors(&mut self, prediction: Vec<Tensor>, context: &Context) -> Result<Vec<Tensor>> {
        let _ = (prediction, context);
        Err(unwritten("post_inference_tensors"))
    }

    /// The routes of an [application](app): what [`respond`](Handler::respond) serves by itself, and what the
    /// endpoint's OpenAPI document says.
    fn router() -> Option<&'static app::Router<Self>>
    where
        Self: Sized,
    {
        None
    }

    /// Serves a request by itself, of any method and path below the endpoint's: what an [application](app)
    /// has in place of the functions around a model. By itself it follows the [routes](Handler::router).
    ///
    /// # Errors
    /// As for [`pre_inference`](Handler::pre_inference). A response that has begun breaks off.
    fn respond(&mut self, request: app::Request<'_>) -> Result<app::Reply>
    where
        Self: Sized,
    {
        Self::router().ok_or_else(|| unwritten("respond"))?.respond(self, request)
    }

    /// Serves requests together, by one call: what an [application](app) may have beside
    /// [`respond`](Handler::respond). By itself it follows the [routes](app::Router::batch). As many results
    /// as requests, in their order.
    ///
    /// # Errors
    /// As for [`pre_inference`](Handler::pre_inference), and then of all requests of the batch.
    fn respond_all(&mut self, mut requests: Vec<app::Request<'_>>) -> Result<app::Responses>
    where
        Self: Sized,
    {
        Self::router().ok_or_else(|| unwritten("respond_all"))?.respond_all(self, &mut requests)
    }

    /// Serves a [WebSocket](socket), for as long as it is open. When it returns, a socket that is still open
    /// is closed with 1000.
    ///
    /// # Errors
    /// Any. Before the socket is open: the answer to the handshake, as to a request. Then the text is for the
    /// log, and the client is told by a close with 1011.
    fn websocket(&mut self, upgrade: socket::Upgrade<'_>) -> Result<()> {
        let _ = upgrade;
        Err(unwritten("websocket"))
    }

    /// The inputs of the handler, asked for once when it is loaded: checked before the handler runs, and the
    /// endpoint's documentation. An empty list says nothing.
    fn input_schema() -> Vec<Input> {
        Vec::new()
    }
}

/// A default body was called: the export promises a function that is not written.
fn unwritten(function: &str) -> Error {
    internal(format!("`{function}` is exported but not written: write it, or leave it out of `export!`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Bare;

    impl Handler for Bare {
        fn new() -> Self {
            Bare
        }
    }

    export!(Bare);

    #[test]
    fn an_unwritten_function_says_what_to_do() {
        let context = Context::builder().build();
        let sample = Sample::new("", Vec::new());
        let pre = Bare::new().pre_inference(sample, &context).unwrap_err();
        let post = Bare::new().post_inference(Vec::new(), &context).unwrap_err();
        let pre_tensors = Bare::new().pre_inference_tensors(Vec::new(), &context).unwrap_err();
        let post_tensors = Bare::new().post_inference_tensors(Vec::new(), &context).unwrap_err();
        let text = |name: &str| {
            format!("`{name}` is exported but not written: write it, or leave it out of `export!`")
        };
        assert_eq!(pre, Error::Internal(text("pre_inference")));
        assert_eq!(post, Error::Internal(text("post_inference")));
        assert_eq!(pre_tensors, Error::Internal(text("pre_inference_tensors")));
        assert_eq!(post_tensors, Error::Internal(text("post_inference_tensors")));
    }
}
