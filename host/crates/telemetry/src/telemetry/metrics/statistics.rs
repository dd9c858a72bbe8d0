//! An endpoint's requests in the terms of the Open Inference Protocol's statistics.
//!
//! In: the counters of `requests.rs`. Out: what the answer to a request for statistics says.

/// The outcomes of an endpoint's requests since the start, in the terms of the Open Inference Protocol's
/// statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Requests that were answered.
    pub inference_count: u64,
    /// Runs of the model, each for one request or several; of a handler alone, its answers.
    pub execution_count: u64,
    /// When the last request ended, in milliseconds since 1970; 0 if there was none.
    pub last_inference: u64,
    /// Requests that were answered, from arrival to answer.
    pub success: Timing,
    /// Requests that failed. Those that were refused at once have no duration.
    pub fail: Timing,
    /// This and the ones below: counted are the requests that were answered, because clients take them to be
    /// as many of each, also of requests that are just being counted. The time is that of all requests. Until
    /// the request had arrived and had its turn, and in the model's line.
    pub queue: Timing,
    /// The stage `pre_inference`.
    pub compute_input: Timing,
    /// The stage `infer`.
    pub compute_infer: Timing,
    /// The stage `post_inference`.
    pub compute_output: Timing,
}

/// How often something happened, and how long it took in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(missing_docs, reason = "the names are the protocol's own; `ns` is nanoseconds")]
pub struct Timing {
    pub count: u64,
    pub ns: u64,
}
