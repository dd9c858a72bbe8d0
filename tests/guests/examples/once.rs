//! An application on `wasi:http` whose instance cannot serve twice, as with some toolchains.

// Natively its exports have names that no linker takes.
#![cfg(target_family = "wasm")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a guest that fails, as it is meant to")]

use std::sync::atomic::{AtomicBool, Ordering};

use wasip2::exports::http::incoming_handler::Guest;
use wasip2::http::types::{Fields, IncomingRequest, OutgoingBody, OutgoingResponse, ResponseOutparam};

struct Once;

wasip2::http::proxy::export!(Once);

static HAS_SERVED: AtomicBool = AtomicBool::new(false);

impl Guest for Once {
    fn handle(_: IncomingRequest, out: ResponseOutparam) {
        assert!(!HAS_SERVED.swap(true, Ordering::Relaxed), "a second request");
        let response = OutgoingResponse::new(Fields::new());
        let body = response.body().unwrap();
        ResponseOutparam::set(out, Ok(response));
        let stream = body.write().unwrap();
        stream.blocking_write_and_flush(b"first").unwrap();
        drop(stream);
        OutgoingBody::finish(body, None).unwrap();
    }
}
