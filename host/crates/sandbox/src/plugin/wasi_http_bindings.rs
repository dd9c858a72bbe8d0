//! The exports of `wasi:http`, as wasmtime generates them beside the contract's.

pub(super) use wasmtime_wasi_http::p2::bindings::exports::wasi::http::incoming_handler;
pub(super) use wasmtime_wasi_http::p3::bindings::exports::wasi::http::handler;
