//! The line of a request.
//!
//! In: an [`EndedRequest`]. Out: JSON, or the common log format, each with its newline.
//! Invariant: a line is one line, and nothing in it steers a terminal, with any text of its client.

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::SystemTime;

use serde::Serialize;

use super::Format;
use super::entry::EndedRequest;
use crate::error::Stage;
use crate::time::rounded_milliseconds;
use crate::trace::RunFacts;

/// The months of the common log format.
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
/// In place of a status, as nginx has it: the client went away before there was one.
const NO_STATUS: u16 = 499;

/// Adds the line of a request to `lines`.
pub(super) fn write(format: Format, request: &EndedRequest, lines: &mut Vec<u8>) {
    match format {
        Format::Json => {
            // Neither a writer in memory nor plain fields can fail.
            let _ = serde_json::to_writer(&mut *lines, &Line::of(request));
            lines.push(b'\n');
        }
        Format::Common => common(request, lines),
    }
}

/// A line of JSON. What is not known is left out.
#[derive(Serialize)]
struct Line<'a> {
    timestamp: String,
    #[serde(rename = "request.id", skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_id: Option<String>,
    client: String,
    protocol: &'static str,
    method: String,
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    grpc_status: Option<i32>,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    endpoint: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    generation: Option<u64>,
    duration_ms: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    stages_ms: Option<StageTimes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    batch: Option<usize>,
    #[serde(skip_serializing_if = "is_false")]
    cached: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    bypassed: Option<&'static str>,
    received_bytes: u64,
    sent_bytes: u64,
    #[serde(skip_serializing_if = "is_false")]
    broken_off: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_agent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    referer: Option<String>,
}

/// The times of the stages that have ended, in milliseconds.
#[derive(Serialize)]
struct StageTimes {
    #[serde(skip_serializing_if = "Option::is_none")]
    admit: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pre_inference: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    infer: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    post_inference: Option<f64>,
}

impl StageTimes {
    fn of(run: &RunFacts) -> StageTimes {
        let [admit, pre_inference, queue, infer, post_inference] =
            run.stages.map(|took| took.map(rounded_milliseconds));
        StageTimes { admit, pre_inference, queue, infer, post_inference }
    }
}

impl<'a> Line<'a> {
    fn of(request: &'a EndedRequest) -> Line<'a> {
        let EndedRequest { head, served, .. } = request;
        let run = served.as_ref().and_then(|served| served.trace.run());
        let trace = served.as_ref().and_then(|served| served.trace.id());
        Line {
            timestamp: humantime::format_rfc3339_micros(request.ended).to_string(),
            id: served.as_ref().map(|served| &*served.id).or(request.id.as_deref()),
            trace_id: trace.map(|trace| trace.to_string()),
            client: head.client().to_string(),
            protocol: head.protocol(),
            method: plain(head.method()),
            path: plain(head.path()),
            status: request.status,
            grpc_status: request.grpc,
            outcome: request.outcome,
            endpoint: served.as_ref().and_then(|served| served.endpoint.as_deref()),
            key: served.as_ref().and_then(|served| served.key.as_deref()),
            digest: run.and_then(|run| run.digest.as_deref()),
            generation: run.map(|run| run.generation),
            duration_ms: rounded_milliseconds(request.took),
            stages_ms: run.map(StageTimes::of),
            batch: run.and_then(|run| run.batch),
            cached: run.is_some_and(|run| run.is_cached),
            bypassed: run.and_then(|run| run.bypassed).map(Stage::name),
            received_bytes: request.received,
            sent_bytes: request.sent,
            broken_off: request.is_broken_off,
            user_agent: head.user_agent().map(plain),
            referer: head.referer().map(plain),
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_false(value: &bool) -> bool {
    !value
}

/// A client's text without control characters that JSON leaves as they are.
fn plain(text: &str) -> String {
    let shown = |letter: char| if letter.is_control() && letter >= ' ' { '\u{fffd}' } else { letter };
    text.chars().map(shown).collect()
}

/// `CLIENT - KEY [TIME] "METHOD PATH PROTOCOL" STATUS BYTES`.
fn common(request: &EndedRequest, lines: &mut Vec<u8>) {
    let EndedRequest { head, served, .. } = request;
    let key = served.as_ref().and_then(|served| served.key.as_deref());
    let mut key = key.map(quoted).unwrap_or_else(|| "-".to_owned());
    // A field ends at a space.
    key.retain(|letter| letter != ' ');
    let sent = match request.sent {
        0 => "-".to_owned(),
        sent => sent.to_string(),
    };
    let (client, time, status) =
        (head.client(), clf_time(request.ended), request.status.unwrap_or(NO_STATUS));
    let (method, path, protocol) = (quoted(head.method()), quoted(head.path()), head.protocol());
    // Memory takes everything.
    let _ = writeln!(lines, "{client} - {key} [{time}] \"{method} {path} {protocol}\" {status} {sent}");
}

/// `29/Nov/2026:10:17:00 +0000`.
fn clf_time(time: SystemTime) -> String {
    let text = humantime::format_rfc3339_seconds(time).to_string();
    let part = |from: usize, to: usize| text.get(from..to).unwrap_or_default();
    let month = part(5, 7).parse::<usize>().ok().and_then(|month| MONTHS.get(month.checked_sub(1)?));
    let month = month.copied().unwrap_or_default();
    format!("{}/{month}/{}:{} +0000", part(8, 10), part(0, 4), part(11, 19))
}

/// A client's text between quotation marks, as Apache escapes it: `\"`, `\\`, and `\xHH` for what is not
/// visible ASCII.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => quoted.extend(['\\', char::from(byte)]),
            b' '..=b'~' => quoted.push(char::from(byte)),
            _ => {
                let _ = write!(quoted, "\\x{byte:02x}");
            }
        }
    }
    quoted
}
