//! What a stage of a handler comes to.
//!
//! Place in the flow: the calls of [`Instance`](super::instance::Instance) make it, the pipeline goes on with it.

use crate::request::Response;

/// The outcome of a stage.
#[derive(Debug)]
pub enum Outcome<T> {
    /// Go on with this.
    Next(T),
    /// The handler answers the caller at once.
    Respond(Response),
}
