//! A list of inputs that becomes a batch.
//!
//! Place in the flow: `POST` on an endpoint's own path in the form of Cortex's BatchAPI. In: the body of a
//! submission. Out: the batch, stored with a job for each part of its list.
//! Invariant: a batch is stored whole or not at all.

use std::fmt;
use std::time::{Duration, Instant};

use axum::body::Body;
use bytes::Bytes;

use super::super::route::EndpointRoute;
use super::answers::failed;
use super::submission::{copied, receive};
use crate::blocking;
use crate::error::{RequestError, Stage};
use crate::jobs::{Batch, BatchSubmission, JobStore, MOST_PARTS};
use crate::json::object::{Object, told};
use crate::json::special;
use crate::server::compat::cortex_batch::{ItemList, JOB_ID, JobSubmission, ON_COMPLETE};
use crate::server::head::Head;
use crate::telemetry::metrics::Submitted;

/// Longest that a batch may take.
const LONGEST: u64 = 30 * 24 * 60 * 60;

/// Stores the batch that this request is.
///
/// # Errors
/// Why it is none, counted already.
pub(super) async fn submit(
    route: &EndpointRoute,
    store: &JobStore,
    head: Box<Head>,
    body: Body,
    arrived: Instant,
) -> Result<Batch, RequestError> {
    let metrics = &route.endpoint.metrics;
    let stored = stored(route, store, head, body, arrived).await;
    metrics.jobs.submitted(if stored.is_ok() { Submitted::Stored } else { Submitted::Refused });
    stored.inspect_err(|error| metrics.error(error.code))
}

async fn stored(
    route: &EndpointRoute,
    store: &JobStore,
    mut head: Box<Head>,
    body: Body,
    arrived: Instant,
) -> Result<Batch, RequestError> {
    let config = &route.endpoint.config;
    // It holds the place of the body until that is stored.
    let (_admitted, body) = receive(route, &mut head, body, arrived).await?;
    let mut submission = blocking::if_large(body.len(), || {
        let _copied = copied(route, &body)?;
        read(&body)
    })?;
    submission.attempts = config.jobs.attempts;
    submission.keep = config.jobs.keep;
    let is_application = route.endpoint.is_application();
    submission.on_complete = is_application.then(|| ON_COMPLETE.to_owned());
    store.submit_batch(&config.name, submission, config.jobs.quota).await.map_err(failed)
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
        ..BatchSubmission::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
