//! What a handler is given: limits, grants, and what it may know of its endpoint.
//!
//! Place in the flow: `config/` and `rollout/load.rs` fill [`HandlerConfig`]; every part of the sandbox reads
//! it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::capabilities::Grants;
use super::limits::Limits;
use crate::schema::Schema;
use crate::telemetry::metrics::Instances;

/// CPU time an instance that is kept has for its start functions, within the request's own time. Interpreters
/// need more than a call may take.
pub(super) const START_TIMEOUT: Duration = Duration::from_secs(10);

/// How long an instance lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Isolation {
    /// An instance serves one request after another; its globals persist between them.
    #[default]
    Worker,
    /// Every request gets a fresh instance; nothing survives it.
    Request,
}

impl Isolation {
    /// As it is configured.
    pub fn name(self) -> &'static str {
        match self {
            Isolation::Worker => "worker",
            Isolation::Request => "request",
        }
    }
}

/// The network that a handler sees. None, in either case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Network {
    /// A component that imports sockets is refused.
    #[default]
    None,
    /// Sockets are there, and every call is denied. For language runtimes that import them whether used or
    /// not.
    Stub,
}

impl Network {
    /// As it is configured.
    pub fn name(self) -> &'static str {
        match self {
            Network::None => "none",
            Network::Stub => "stub",
        }
    }
}

/// The settings that all handlers of a process share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Where compiled components are kept; `None` switches the cache off.
    pub cache_dir: Option<PathBuf>,
    /// Most bytes they may take there.
    pub cache_size: u64,
    /// Most instances of all handlers together; `None`: as many as the endpoints may need at once, up to a
    /// bound.
    pub instances: Option<usize>,
}

/// The settings of one handler: what it may know of its endpoint, and what it may use.
#[derive(Clone)]
pub struct HandlerConfig {
    /// The endpoint's name, for logs.
    pub endpoint: Arc<str>,
    /// JSON text.
    pub metadata: Arc<str>,
    /// The network that it sees.
    pub network: Network,
    /// Environment variables.
    pub env: Vec<(String, String)>,
    /// Folder to mount, if any.
    pub project: Option<PathBuf>,
    /// Canonical paths the mount leaves out: models and the config file.
    pub hidden: Arc<[PathBuf]>,
    /// The limits of an instance.
    pub limits: Limits,
    /// How long an instance lives.
    pub isolation: Isolation,
    /// Whether an application on `wasi:http` may keep its instances.
    pub reuse_instances: bool,
    /// Whether the headers that carry keys are kept from it.
    pub hides_credentials: bool,
    /// Headers of a request that are part of its key in the response cache; none without one.
    pub key_headers: Arc<[String]>,
    /// Headers of its responses that need a [grant](super::headers) and have it, in lower case.
    pub response_headers: Arc<[String]>,
    /// The capabilities that it is granted.
    pub grants: Grants,
    /// The inputs that the endpoint takes, as configured; without them the handler is asked.
    pub schema: Option<Arc<Schema>>,
    /// Counts the endpoint's instances.
    pub instances: Instances,
}
