//! What the script is given, as it reads it.
//!
//! Place in the flow: beside [`reply`](super::reply). In: jobs, numbers, times. Out: arguments of
//! `script.lua`.

use std::time::Duration;

use crate::jobs::Job;
use crate::time::milliseconds;

pub(super) fn encoded<T: serde::Serialize>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}

/// A number that the script can hold: those of Lua have 53 bits.
pub(super) fn number(number: u64) -> String {
    number.min(1 << 52).to_string()
}

/// The fields of a job that is new, as far as the script has to know them: names and values.
pub(super) fn fields(job: &Job, delay: Duration) -> Vec<String> {
    let mut fields = vec![
        ("priority", job.priority.to_string()),
        ("attempts", job.attempts.to_string()),
        ("keep", number(job.keep)),
        ("delay", number(milliseconds(delay))),
    ];
    let wait = job.start_by.map(|time| number(time.saturating_sub(job.submitted)));
    let pauses = job.pauses.map(|pauses| (number(pauses.first), number(pauses.longest)));
    let (first, longest) = pauses.unzip();
    let has_key = job.idempotency_key.as_ref();
    let optional = [
        ("wait", wait),
        ("first", first),
        ("longest", longest),
        ("origin", job.webhook.as_ref().map(|webhook| webhook.origin.clone())),
        ("key", has_key.cloned()),
        ("digest", has_key.map(|_| job.digest.clone())),
    ];
    fields.extend(optional.into_iter().filter_map(|(name, value)| Some((name, value?))));
    fields.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect()
}
