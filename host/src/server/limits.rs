//! What a connection may cost, and how many the system lets the process have.
//!
//! Place in the flow: part of the configuration; `listen` holds each connection to it.

use std::time::Duration;

/// How long a kept-alive connection may stay silent once the process is stopping.
pub const LINGER: Duration = Duration::from_secs(1);
/// Files that are no connection of the endpoints: the operator's connections, models, handlers, their
/// projects.
const OTHER_FILES: usize = 512;

/// The limits of a connection. The defaults are in `config/settings/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Longest head of a request in bytes.
    pub header_size: usize,
    /// Most headers of a request.
    pub headers: usize,
    /// How long a client may take for a head, the TLS handshake before the first one likewise.
    pub header_timeout: Duration,
    /// How long a connection may be without a request, or with a response of which the client takes nothing.
    pub idle_timeout: Duration,
    /// Connections of one listener at the same time; more wait until one ends.
    pub max_connections: usize,
    /// Requests in flight on one connection of HTTP/2.
    pub http2_streams: u32,
}

impl Limits {
    /// These, with no more connections than there can be files for so many listeners. Asks the system for as
    /// many files as it allows.
    pub fn affordable(&self, listeners: usize) -> Limits {
        let files = (most_files().saturating_sub(OTHER_FILES) / listeners.max(1)).max(1);
        if files < self.max_connections {
            tracing::info!(
                "at most {files} connections: the system allows this process no more files (`ulimit -Hn`)"
            );
        }
        Limits { max_connections: self.max_connections.min(files), ..self.clone() }
    }
}

/// How many files the process may have open, sockets among them.
fn most_files() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let allowed = if raised.is_ok() { maximum } else { current };
    allowed.and_then(|files| usize::try_from(files).ok()).unwrap_or(usize::MAX)
}
