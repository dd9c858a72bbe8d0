//! The limits of an instance: memory, time, output, tensors.
//!
//! Place in the flow: a part of an endpoint's configuration; the parts of the sandbox that hold a guest to
//! them read it.

use std::time::Duration;

/// The limits of one instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Linear memory of one instance, in bytes.
    pub memory: usize,
    /// Most bytes one call may return, tensors or response together.
    pub output: usize,
    /// CPU time of `pre-inference`; of an instance for one request, with its start functions.
    pub pre_timeout: Duration,
    /// CPU time of `post-inference`.
    pub post_timeout: Duration,
    /// CPU time of `init`.
    pub init_timeout: Duration,
    /// How long any of them may take, waits included; `None` is five times its CPU time.
    pub wall_timeout: Option<Duration>,
    /// Most bytes of project files an endpoint may mount.
    pub project: u64,
    /// Of an application: how long nothing of its response may be taken by the client.
    pub stream_timeout: Duration,
    /// Of an application: how long it may work after its response.
    pub background_timeout: Duration,
    /// Tensors that the host may hold for one request.
    pub tensors: usize,
    /// Bytes of them together.
    pub tensor_memory: usize,
    /// How often one request may run models.
    pub model_runs: u32,
    /// The handler's part of the processors among those whose calls compute for long.
    pub weight: u32,
}

impl Limits {
    /// How long a call may take that may use so much CPU time. On a busy machine the two are far apart.
    pub fn wall(&self, cpu: Duration) -> Duration {
        self.wall_timeout.unwrap_or(cpu.saturating_mul(5))
    }
}
