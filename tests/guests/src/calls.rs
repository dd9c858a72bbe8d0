//! What `caller` and `call_responder` share: a request that calls models and another server.
//!
//! In: `{"a": [1, 2], "b": [3, 4], "url": "http://…"}`. Out: `{"sum", "again", "reply"}`; with `"draws": true` also
//! what it got of the clock and of chance. How it deviates from that is a mark in the component, which tests
//! write over.

#![allow(clippy::indexing_slicing, reason = "a guest of tests, which sees what it is sent")]

use std::hash::{BuildHasher, Hasher, RandomState};
use std::hint::black_box;
use std::time::{SystemTime, UNIX_EPOCH};

use modelhost_guest::Tensor;
use modelhost_guest::models::{self, Resident};
use serde_json::{Value, json};
use wasip2::http::outgoing_handler;
use wasip2::http::types::{Fields, IncomingBody, Method, OutgoingBody, OutgoingRequest, Scheme};
use wasip2::io::streams::StreamError;

/// Its mark, which tests look for, and the mode.
static MODE: [u8; 20] = *b"call-mode:good......";

/// The mode of the component.
pub fn mode() -> String {
    let mode = String::from_utf8_lossy(&black_box(&MODE)[10..]).into_owned();
    mode.trim_end_matches('.').to_owned()
}

/// Does all of it.
///
/// # Errors
/// Text that says what could not be done.
pub fn all(body: &[u8]) -> Result<Value, String> {
    let order: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let (mode, pair) = (mode(), |name: &str| [0, 1].map(|at| order[name][at].as_f64().unwrap_or(0.0) as f32));
    let tensor = |name: &str, values: [f32; 2]| Tensor::new(name, [2], &values);
    let [first, second] = pair("a");
    let a = if mode == "model" { [first + 1.0, second] } else { [first, second] };
    let failed = |error: models::ModelError| format!("{error:?}");
    let sum = models::infer("", &[tensor("a", a), tensor("b", pair("b"))]).map_err(failed)?;
    let sum = sum.first().ok_or("no output")?.values::<f32>().map_err(|_| "no numbers")?.into_owned();

    let held = |name: &str| Resident::new(&tensor(name, pair(name))).map_err(failed);
    let (a, b) = (held("a")?, held("b")?);
    let inputs = [[("a", &a), ("b", &a)], [("a", &b), ("b", &b)]];
    let begun: Vec<_> =
        inputs.iter().map(|inputs| models::start("add", inputs)).collect::<Result<_, _>>().map_err(failed)?;
    let mut again = Vec::new();
    for pending in begun {
        let sum = pending.wait().and_then(|mut outputs| outputs.take("sum")).map_err(failed)?;
        again
            .extend(sum.read("sum").map_err(failed)?.values::<f32>().map_err(|_| "no numbers")?.into_owned());
    }

    let mut answer = json!({"sum": sum, "again": again});
    if order["draws"] == true {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|error| error.to_string())?;
        answer["clock"] = json!(now.as_nanos().to_string());
        answer["random"] = json!(RandomState::new().build_hasher().finish().to_string());
    }
    if let Some(url) = order["url"].as_str().filter(|_| mode != "silent") {
        let sent = match mode.as_str() {
            "outbound" => json!({"sum": sum, "more": true}),
            _ => json!({"sum": sum}),
        };
        for _ in 0..if mode == "twice" { 2 } else { 1 } {
            answer["reply"] = post(url, sent.to_string().as_bytes(), order["header"].as_str());
        }
    }
    if mode == "answer" {
        answer["extra"] = json!(true);
    }
    Ok(answer)
}

/// Posts a body: the status and the text of the answer, or the error.
pub fn post(url: &str, body: &[u8], header: Option<&str>) -> Value {
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let fields = Fields::new();
    let _ = fields.append("content-type", b"application/json");
    if let Some(name) = header {
        let _ = fields.append(name, b"hush-0f-the-caller");
    }
    let request = OutgoingRequest::new(fields);
    let scheme = if scheme == "https" { Scheme::Https } else { Scheme::Http };
    let (path, method) = (format!("/{path}"), Method::Post);
    let set = request.set_method(&method).and_then(|()| request.set_scheme(Some(&scheme)));
    let set = set.and_then(|()| request.set_authority(Some(authority)));
    if set.and_then(|()| request.set_path_with_query(Some(&path))).is_err() {
        return json!("no request");
    }
    let Ok(out) = request.body() else { return json!("no body") };
    let response = match outgoing_handler::handle(request, None) {
        Ok(response) => response,
        Err(error) => return json!(format!("{error:?}")),
    };
    if let Ok(stream) = out.write() {
        let _ = stream.blocking_write_and_flush(body);
    }
    let _ = OutgoingBody::finish(out, None);
    response.subscribe().block();
    match response.get() {
        Some(Ok(Ok(response))) => {
            let text = response.consume().map(|body| read(&body)).unwrap_or_default();
            json!([response.status(), String::from_utf8_lossy(&text)])
        }
        Some(Ok(Err(error))) => json!(format!("{error:?}")),
        _ => json!("nothing"),
    }
}

/// A body to its end, or as far as it comes.
pub fn read(body: &IncomingBody) -> Vec<u8> {
    let mut all = Vec::new();
    let Ok(stream) = body.stream() else { return all };
    loop {
        match stream.blocking_read(64 << 10) {
            Ok(piece) => all.extend(piece),
            Err(StreamError::Closed | StreamError::LastOperationFailed(_)) => return all,
        }
    }
}
