//! An application on `wasi:http` that calls models and another server for each request (`guests::calls`), and
//! answers in pieces. `GET /metadata?NAME` says what its configuration has; `/after` sends a request when it has answered.

// Natively its exports have names that no linker takes.
#![cfg(target_family = "wasm")]
#![allow(clippy::unwrap_used, reason = "a guest of tests")]

use guests::calls;
use wasip2::exports::http::incoming_handler::Guest;
use wasip2::http::types::{Fields, IncomingRequest, OutgoingBody, OutgoingResponse, ResponseOutparam};

struct Caller;

wasip2::http::proxy::export!(Caller);

impl Guest for Caller {
    fn handle(request: IncomingRequest, out: ResponseOutparam) {
        let path = request.path_with_query().unwrap_or_default();
        let header = request.headers().get("x-kind").pop();
        let body = calls::read(&request.consume().unwrap());
        if path == "/after" {
            answer(out, 200, &[b"begun"], header);
            let url = String::from_utf8_lossy(&body).into_owned();
            let _ = calls::post(&url, b"done", None);
            return;
        }
        match calls::all(&body) {
            Ok(told) => {
                let text = told.to_string();
                let (one, other) = text.as_bytes().split_at(text.len() / 2);
                answer(out, 200, &[one, other], header);
            }
            Err(text) => answer(out, 400, &[text.as_bytes()], header),
        }
    }
}

/// Answers in these pieces; the header `x-kind` comes back.
fn answer(out: ResponseOutparam, status: u16, pieces: &[&[u8]], kind: Option<Vec<u8>>) {
    let mut headers = vec![("content-type".to_owned(), b"application/json".to_vec())];
    headers.extend(kind.map(|kind| ("x-kind".to_owned(), kind)));
    let response = OutgoingResponse::new(Fields::from_list(&headers).unwrap());
    response.set_status_code(status).unwrap();
    let body = response.body().unwrap();
    let stream = body.write().unwrap();
    ResponseOutparam::set(out, Ok(response));
    for piece in pieces {
        let _ = stream.blocking_write_and_flush(piece);
    }
    drop(stream);
    let _ = OutgoingBody::finish(body, None);
}
