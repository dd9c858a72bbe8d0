//! Cortex's BatchAPI, where an endpoint's own path takes lists of inputs.
//!
//! Place in the flow: `http/jobs/batches.rs` has the batch; here are paths and words. Source:
//! cortexlabs/cortex v0.42, its documentation of batch jobs, `job_submission.go` and `job_status.go`.

use std::fmt;
use std::time::Duration;

use axum::Json;
use axum::http::Method;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::cortex::AsyncApi;
use super::job_dialect::{BatchDialect, JobDialect, Orders};
use super::job_operations;
use crate::endpoint::config::EndpointConfig;
use crate::error::{RequestError, Stage};
use crate::jobs::{Batch, BatchState, BatchSubmission, Job, JobForm, MOST_PARTS, time_text};
use crate::json::object::{Object, told};
use crate::json::special;
use crate::rollout::deployment::Deployment;
use crate::server::http::jobs::order::{JobOrder, is_read, names};
use crate::server::http::openapi::answers::Path;

/// The header of a part's request that has its batch's id, in lower case.
const JOB_ID: &str = "x-cortex-job-id";
/// The path that an application is told at when all parts have ended.
const ON_COMPLETE: &str = "/on-job-complete";

/// Longest that a batch may take.
const LONGEST: u64 = 30 * 24 * 60 * 60;

/// The body of a submission.
#[derive(Deserialize)]
struct JobSubmission<'a> {
    /// Kept, and said again: `limits.job_concurrency` is how many run at a time.
    workers: u32,
    /// The inputs.
    #[serde(borrow, default)]
    item_list: Option<Object<ItemList<'a>>>,
    /// In seconds.
    #[serde(default)]
    timeout: Option<u64>,
    /// The client's own.
    #[serde(default)]
    config: Option<Map<String, Value>>,
    #[serde(default)]
    file_path_lister: Option<IgnoredAny>,
    #[serde(default)]
    delimited_files: Option<IgnoredAny>,
}

/// The inputs of a submission.
#[derive(Deserialize)]
struct ItemList<'a> {
    #[serde(borrow)]
    items: Vec<&'a RawValue>,
    /// How many of them a request gets, as a list.
    batch_size: usize,
}

impl JobSubmission<'_> {
    /// The part of it that is kept, to be said again.
    fn spec(&self) -> String {
        json!({ "workers": self.workers, "config": self.config, "timeout": self.timeout }).to_string()
    }
}

/// As endpoints are configured with it.
pub(super) const FORM: JobForm = JobForm { name: "batch", below: &[] };

/// The dialect. Its single jobs have the words of the AsyncAPI.
pub(super) struct BatchApi;

impl JobDialect for BatchApi {
    fn form(&self) -> &'static JobForm {
        &FORM
    }

    fn paths(&self, config: &EndpointConfig, _: bool) -> Vec<(String, Orders)> {
        vec![(config.path.trim_end_matches('/').to_owned(), order)]
    }

    fn operations(&self, endpoint: &Deployment) -> Vec<Path> {
        job_operations::batches(endpoint)
    }

    fn submitted(&self, job: &Job) -> Response {
        AsyncApi.submitted(job)
    }

    fn looked(&self, endpoint: &str, job: &Job, result: Option<Bytes>) -> Response {
        AsyncApi.looked(endpoint, job, result)
    }

    fn batches(&self) -> Option<&dyn BatchDialect> {
        Some(self)
    }
}

impl BatchDialect for BatchApi {
    fn read(&self, body: &Bytes) -> Result<BatchSubmission, RequestError> {
        read(body)
    }

    fn submitted(&self, config: &EndpointConfig, batch: &Batch) -> Response {
        Json(job(&config.name, batch)).into_response()
    }

    fn looked(&self, config: &EndpointConfig, batch: &Batch) -> Response {
        looked(&config.name, &config.path, batch)
    }

    fn stopped(&self, batch: &Batch) -> Response {
        Json(json!({ "message": format!("stopped job {}", batch.id) })).into_response()
    }
}

fn order(method: &Method, rest: &str, query: &str) -> Option<JobOrder> {
    let (None, ..) = names(rest) else { return None };
    if *method == Method::POST {
        return Some(JobOrder::SubmitBatch);
    }
    let id = query.split('&').find_map(|pair| pair.strip_prefix("jobID="))?.to_owned();
    match is_read(method) {
        true => Some(JobOrder::LookBatch(id)),
        false => (*method == Method::DELETE).then_some(JobOrder::StopBatch(id)),
    }
}

/// The state of a batch, and its counts.
fn looked(endpoint: &str, path: &str, batch: &Batch) -> Response {
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

fn read(body: &Bytes) -> Result<BatchSubmission, RequestError> {
    let refused = |message: String| RequestError::invalid(Stage::Admit, message);
    let no_batch = |why: &dyn fmt::Display| {
        let hint = "hint: `{\"workers\": 1, \"item_list\": {\"items\": […], \"batch_size\": 10}}` is one";
        refused(format!("the body is no batch: {why}; {hint}"))
    };
    let text = special::text(body).map_err(|error| no_batch(&error))?;
    let mut copy = None;
    let found = special::read(text, &mut copy, serde_json::from_str::<Object<JobSubmission<'_>>>);
    let (Object(wanted), document) = found.map_err(|error| no_batch(&told(&error)))?;
    if wanted.file_path_lister.is_some() || wanted.delimited_files.is_some() {
        let message = "`file_path_lister` and `delimited_files` are not supported; hint: give an `item_list`";
        return Err(refused(message.to_owned()));
    }
    let Some(Object(ItemList { items, batch_size })) = &wanted.item_list else {
        return Err(refused("the batch has no `item_list`".to_owned()));
    };
    document
        .check(items.iter().map(|item| document.written(item.get())))
        .map_err(|error| no_batch(&error))?;
    if wanted.workers == 0 || *batch_size == 0 || items.is_empty() {
        let message = "`workers`, `item_list.batch_size` and the number of `item_list.items` are 1 at least";
        return Err(refused(message.to_owned()));
    }
    let count = items.len().div_ceil(*batch_size);
    if count > MOST_PARTS {
        let hint = "hint: a larger `item_list.batch_size` makes fewer";
        return Err(refused(format!("the list makes {count} batches, and {MOST_PARTS} are allowed; {hint}")));
    }
    if wanted.timeout.is_some_and(|timeout| timeout == 0 || timeout > LONGEST) {
        return Err(refused(format!("`timeout` is not a number of seconds from 1 to {LONGEST}")));
    }
    let part = |items: &[&serde_json::value::RawValue]| {
        let items: Vec<&str> = items.iter().map(|item| document.written(item.get())).collect();
        Bytes::from(format!("[{}]", items.join(",")))
    };
    Ok(BatchSubmission {
        parts: items.chunks(*batch_size).map(part).collect(),
        header: JOB_ID,
        timeout: wanted.timeout.map(Duration::from_secs),
        spec: wanted.spec(),
        on_complete: Some(ON_COMPLETE.to_owned()),
        ..BatchSubmission::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_endpoints_own_path_takes_lists() {
        let id = "0193".to_owned();
        let of = |method: Method, query: &str| order(&method, "", query);
        assert_eq!(of(Method::POST, ""), Some(JobOrder::SubmitBatch));
        assert_eq!(of(Method::GET, "a=b&jobID=0193"), Some(JobOrder::LookBatch(id.clone())));
        assert_eq!(of(Method::DELETE, "jobID=0193"), Some(JobOrder::StopBatch(id)));
        assert_eq!((of(Method::GET, ""), of(Method::PUT, "jobID=0193")), (None, None));
    }

    #[test]
    fn a_list_is_cut_into_parts() {
        let of = |text: &str| read(&Bytes::copy_from_slice(text.as_bytes()));
        let batch = of(r#"{"workers": 2, "config": {"a": 1},
            "item_list": {"items": [1, {"b": "c"}, [3]], "batch_size": 2}, "timeout": 5}"#)
        .unwrap();
        assert_eq!(batch.parts, [r#"[1,{"b": "c"}]"#, "[[3]]"]);
        assert_eq!(batch.timeout, Some(Duration::from_secs(5)));
        assert_eq!(batch.spec, r#"{"config":{"a":1},"timeout":5,"workers":2}"#);
        let special =
            of("\u{feff}{\"workers\":1,\"item_list\":{\"items\":[[NaN],2],\"batch_size\":2}}").unwrap();
        assert_eq!(special.parts, ["[[NaN],2]"]);
        for (text, why) in [
            (
                r#"{"workers":1,"item_list":{"items":[1],"batch_size":1},"config":{"a":NaN}}"#,
                "the body is no batch: NaN at",
            ),
            ("[]", "the body is no batch: "),
            (r#"{"item_list": {"items": [1], "batch_size": 1}}"#, "the body is no batch: missing field"),
            (r#"{"workers": 1}"#, "the batch has no `item_list`"),
            (r#"{"workers": 1, "item_list": {"items": [], "batch_size": 1}}"#, "`workers`, "),
            (r#"{"workers": 1, "item_list": {"items": [1], "batch_size": 0}}"#, "`workers`, "),
            (r#"{"workers": 1, "delimited_files": {"s3_paths": []}}"#, "`file_path_lister` and"),
            (r#"{"workers": 1, "item_list": {"items": [1], "batch_size": 1}, "timeout": 0}"#, "`timeout`"),
        ] {
            let error = of(text).unwrap_err().message.clone();
            assert!(error.starts_with(why), "{text}: {error}");
        }
        let many = format!(
            "{{\"workers\":1,\"item_list\":{{\"items\":[1{}],\"batch_size\":1}}}}",
            ",1".repeat(10_000)
        );
        assert!(of(&many).unwrap_err().message.starts_with("the list makes 10001 batches"));
    }
}
