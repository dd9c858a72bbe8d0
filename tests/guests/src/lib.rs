//! What the guests in `examples/` share. Each of them is a component with one habit, for one test of the host.
//!
//! The guests need no model unless their file says so: on an endpoint without one, what `pre_inference` returns
//! is what `post_inference` gets.

#[cfg(target_family = "wasm")]
pub mod calls;

use modelhost_guest::{Context, Response, Result, Sample, Tensor, invalid};
use serde::Serialize;

/// The body as one `UINT8` tensor `body` of shape `[bytes]`.
pub fn body_tensor(sample: Sample) -> Vec<Tensor> {
    let shape = vec![sample.body.len() as u64];
    vec![Tensor {
        name: "body".into(),
        datatype: modelhost_guest::Datatype::Uint8,
        shape,
        // Moved, not copied: a byte is its own little-endian form.
        data: sample.body,
    }]
}

/// The text in the first tensor, as [`body_tensor`] put it there.
pub fn body_text(prediction: &[Tensor]) -> Result<String> {
    let body = prediction.first().ok_or_else(|| invalid("no tensor came through"))?;
    Ok(String::from_utf8_lossy(&body.values::<u8>()?).into_owned())
}

/// All that a handler can learn of a request.
#[derive(Serialize)]
struct Echo<'a> {
    request_id: String,
    method: String,
    path: String,
    query: String,
    /// The header `x-test`.
    header: Option<String>,
    /// The headers that may carry a key.
    credentials: [Option<String>; 2],
    content_type: String,
    body: &'a str,
}

/// Everything the context says of the request, and `body`, as JSON.
pub fn echo(body: &str, context: &Context) -> Result<Response> {
    Response::json(&Echo {
        request_id: context.request_id(),
        method: context.method(),
        path: context.path(),
        query: context.query(),
        header: context.header("x-test"),
        credentials: ["Authorization", "x-banana-api-key"].map(|name| context.header(name)),
        content_type: context.sample().content_type,
        body,
    })
}

/// `version_a` and `version_b`: each stage of each version signs what it makes, so that an answer of two
/// versions shows.
pub mod version {
    use modelhost_guest::{Response, Result, Tensor, internal};
    use serde_json::json;

    /// What `pre_inference` of this version returns: both inputs of the model `add`, whose sum is `number`
    /// again, so that the signature survives with that model and without one.
    pub fn sign(number: f32) -> Vec<Tensor> {
        vec![Tensor::new("a", [2], &[number; 2]), Tensor::new("b", [2], &[0f32; 2])]
    }

    /// `{"pre": "a", "post": "b"}`: the version that signed, and the one that read it.
    pub fn report(prediction: &[Tensor], post: &str) -> Result<Response> {
        let first = prediction.first().ok_or_else(|| internal("no tensor came through"))?;
        let pre = match first.values::<f32>()?.as_ref() {
            [1.0, ..] => "a",
            [2.0, ..] => "b",
            other => return Err(internal(format!("nobody signs with {other:?}"))),
        };
        Response::json(&json!({"pre": pre, "post": post}))
    }
}
