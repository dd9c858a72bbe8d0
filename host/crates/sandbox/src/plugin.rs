//! A loaded handler component: what the pipeline sees of the sandbox.
//!
//! Place in the flow: `rollout` loads a [`Plugin`] (compile → check → first instance); the pipeline borrows
//! an instance for each request with [`Plugin::checkout`] and calls both stages on it.
//! In: a component's bytes and the endpoint's config. Out: tensors and responses in the crate's own types.
//! Invariants: everything of wasmtime stays below this module; a handler never runs before [`grants::check`]
//! has passed; a [`Lease`] that is not finished takes its instance with it.

mod batch;
mod batch_state;
mod binary;
mod bindings;
mod cache;
pub mod capabilities;
pub mod capability;
pub mod capability_list;
mod compiled;
mod compiler;
mod component;
mod context;
mod convert;
mod deadline;
mod engine;
mod exchange;
mod exports;
mod fault;
mod grants;
mod handler;
mod handler_context;
pub mod headers;
pub mod host_call_log;
mod idle;
mod init;
mod inspect;
mod instance;
mod lease;
mod limits;
mod linkers;
mod load_error;
mod loaded;
mod names;
mod nondeterminism;
mod operations;
mod outline;
mod output;
mod pool;
mod project;
mod runtime;
mod settings;
mod snapshot;
mod source;
mod staged;
mod stages;
mod start_error;
mod state;
mod streaming;
mod streaming_state;
mod turns;
mod versions;
mod wasi_async;
mod wasi_http;
mod wasi_http_bindings;
mod wasi_http_state;
mod wasi_sockets;
mod websocket;
mod websocket_state;

pub use self::batch::Answers;
pub use self::binary::Binary;
pub use self::cache::{CacheContents, Files as CachedFiles, Shelf};
pub use self::engine::Sandbox;
pub use self::handler::Plugin;
pub use self::inspect::{Inspection, inspect};
pub use self::lease::{InstanceSource, Lease};
pub use self::limits::Limits;
pub use self::load_error::LoadError;
pub use self::operations::Operation;
pub use self::project::ProjectError;
pub use self::runtime::SandboxError;
pub use self::settings::{Config, HandlerConfig, Isolation, Network};
pub use self::staged::{Outcome, StagedCall};
pub use self::stages::{Application, Stages};

/// The version of the handler contract that this host speaks.
pub const CONTRACT: &str = bindings::VERSION;

/// The version of wasmtime that runs handlers.
pub const WASMTIME: &str = wasmtime_environ::VERSION;

#[cfg(test)]
mod tests;
