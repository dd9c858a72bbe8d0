//! An application on the bare contract that asks for its request by `request`, and answers with what it was told.

// Natively its exports have names that no linker takes.
#![cfg(target_family = "wasm")]
#![allow(unsafe_code, reason = "in the generated half")]

mod bindings {
    wit_bindgen::generate!({ path: "../../wit", world: "application", generate_all });
}

use bindings::exports::modelhost::handler::respond::Guest;
use bindings::modelhost::handler::request;
use bindings::modelhost::handler::streaming::Output;
use bindings::modelhost::handler::types::{Context, Error, Response, Sample};

struct Asked;

bindings::export!(Asked with_types_in bindings);

impl Guest for Asked {
    fn respond(_: Sample, context: &Context, _: Output) -> Result<Option<Response>, Error> {
        let body = serde_json::json!({
            "same_id": request::id() == context.request_id(),
            "metadata": request::metadata(),
            "has_time": request::remaining().is_some_and(|left| left > 0),
            "is_disconnected": request::is_disconnected(),
            "disconnects": request::on_disconnect().ready(),
        });
        Ok(Some(Response {
            status: 200,
            content_type: "application/json".to_owned(),
            headers: Vec::new(),
            body: body.to_string().into_bytes(),
        }))
    }
}
