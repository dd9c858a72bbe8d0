//! Listeners: everything that speaks HTTP.
//!
//! Place in the flow: the edge. [`listen`] accepts connections, [`tls`] encrypts them if wanted; `head` is a
//! request without its body; [`switch`] leads to a few lines until everything is loaded, then to [`http`],
//! the table of contents of what is answered, or to [`grpc`], the same for the listener of that name; both
//! have their requests served by the one `serve`. [`admin`] is the operator's own listener, on its own
//! thread; [`models`] is what protocols that know models share, `classification` and
//! `shared_memory` what two of them do with outputs and inputs, `triton_settings` what they tell of the log;
//! `readiness` asks applications, `metrics_text` bounds the texts of the metrics; [`split`] is a path of
//! several endpoints; [`compat`] is what single vendors' clients expect besides; [`configuration`] takes the
//! operator's orders to serve another one.
//! In: sockets. Out: requests free of HTTP for `endpoint`, responses back on the wire.
//! Invariant: no other module names axum, hyper or an HTTP type.

pub mod listen;
pub mod switch;
pub mod admin;
pub mod grpc;
pub mod http;
pub mod models;
mod classification;
mod shared_memory;
mod triton_settings;
mod readiness;
mod metrics_text;
mod serve;
mod access;
mod websocket;
mod body;
mod charged_body;
mod browser;
mod head;
mod field_text;
pub mod compat;
mod served;
pub mod configuration;
pub mod development;
mod spans;
mod request_telemetry;
pub mod split;
mod limits;
mod orders;
pub mod tls;
mod status;

pub use self::metrics_text::MetricsTexts;
pub use self::orders::Orders;
pub use self::served::{Config, Served};
pub use self::shared_memory::SharedMemory;
