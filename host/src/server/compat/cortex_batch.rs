//! The words of Cortex's BatchAPI, where an endpoint's own path takes lists of inputs.
//!
//! Place in the flow: `http/jobs/batches.rs` has the batch; here are the words. Source: cortexlabs/cortex
//! v0.42, its documentation of batch jobs, `job_submission.go` and `job_status.go`.

use axum::Json;
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::jobs::{Batch, BatchState, time_text};
use crate::json::object::Object;

/// The header of a part's request that has its batch's id, in lower case.
pub(in crate::server) const JOB_ID: &str = "x-cortex-job-id";
/// The path that an application is told at when all parts have ended.
pub(in crate::server) const ON_COMPLETE: &str = "/on-job-complete";

/// The body of a submission.
#[derive(Deserialize)]
pub(in crate::server) struct JobSubmission<'a> {
    /// Kept, and said again: `limits.job_concurrency` is how many run at a time.
    pub(in crate::server) workers: u32,
    /// The inputs.
    #[serde(borrow, default)]
    pub(in crate::server) item_list: Option<Object<ItemList<'a>>>,
    /// In seconds.
    #[serde(default)]
    pub(in crate::server) timeout: Option<u64>,
    /// The client's own.
    #[serde(default)]
    pub(in crate::server) config: Option<Map<String, Value>>,
    #[serde(default)]
    pub(in crate::server) file_path_lister: Option<IgnoredAny>,
    #[serde(default)]
    pub(in crate::server) delimited_files: Option<IgnoredAny>,
}

/// The inputs of a submission.
#[derive(Deserialize)]
pub(in crate::server) struct ItemList<'a> {
    #[serde(borrow)]
    pub(in crate::server) items: Vec<&'a RawValue>,
    /// How many of them a request gets, as a list.
    pub(in crate::server) batch_size: usize,
}

impl JobSubmission<'_> {
    /// The part of it that is kept, to be said again.
    pub(in crate::server) fn spec(&self) -> String {
        json!({ "workers": self.workers, "config": self.config, "timeout": self.timeout }).to_string()
    }
}

/// A batch was stored.
pub(in crate::server) fn submitted(endpoint: &str, batch: &Batch) -> Response {
    Json(job(endpoint, batch)).into_response()
}

/// The state of a batch, and its counts.
pub(in crate::server) fn looked(endpoint: &str, path: &str, batch: &Batch) -> Response {
    let mut status = job(endpoint, batch);
    let state = match batch.state {
        BatchState::Running => "running",
        BatchState::Succeeded => "succeeded",
        BatchState::CompletedWithFailures => "completed_with_failures",
        BatchState::Stopped => "stopped",
        BatchState::TimedOut => "timed_out",
    };
    let is_running = batch.state == BatchState::Running;
    let left = batch.total.saturating_sub(batch.succeeded + batch.failed);
    status.insert("status".to_owned(), json!(state));
    status.insert("batches_in_queue".to_owned(), json!(if is_running { left } else { 0 }));
    if let Some(ended) = batch.ended {
        status.insert("end_time".to_owned(), json!(time_text(ended)));
    }
    let average = (batch.succeeded > 0).then(|| batch.time as f64 / 1000.0 / batch.succeeded as f64);
    Json(json!({
        "job_status": status,
        "endpoint": path,
        "metrics": {
            "succeeded": batch.succeeded,
            "failed": batch.failed,
            "average_time_per_batch": average,
        },
    }))
    .into_response()
}

/// A batch was stopped, or had ended.
pub(in crate::server) fn stopped(batch: &Batch) -> Response {
    Json(json!({ "message": format!("stopped job {}", batch.id) })).into_response()
}

fn job(endpoint: &str, batch: &Batch) -> Map<String, Value> {
    let mut job: Map<String, Value> = serde_json::from_str(&batch.spec).unwrap_or_default();
    let time = time_text(batch.submitted);
    for (name, value) in [
        ("job_id", json!(batch.id)),
        ("api_name", json!(endpoint)),
        ("api_id", json!(endpoint)),
        ("kind", json!("BatchAPI")),
        ("total_batch_count", json!(batch.total)),
        ("created_time", json!(time)),
        ("start_time", json!(time)),
    ] {
        job.insert(name.to_owned(), value);
    }
    job
}
