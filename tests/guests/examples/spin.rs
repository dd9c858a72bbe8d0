//! An application as Spin 4's template for Rust makes it: `spin-sdk`, with the last draft of `wasi:http` 0.3.

// Natively its exports have names that no linker takes.
#![cfg(target_family = "wasm")]
#![allow(clippy::print_stdout, reason = "as in the template")]

use spin_sdk::http::{IntoResponse, Request, Response};
use spin_sdk::http_service;

/// A simple component.
#[http_service]
async fn handle_spin(req: Request) -> anyhow::Result<impl IntoResponse> {
    println!("handling a request to {}", req.uri());
    Ok(Response::builder()
        .status(200)
        .header("content-type", "text/plain")
        .body(format!("hello from {}", req.uri().path())))
}
