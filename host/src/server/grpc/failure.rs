//! Failures as gRPC statuses.
//!
//! Place in the flow: every failure of every method leaves through [`status`], but those of
//! [`intake`](super::intake) and [`codec`](super::codec), which know no more of a request than that it is
//! [refused].
//! Out: a status of the table in `server/status.rs`, with `modelhost-code` and `modelhost-stage` as metadata.
//! `x-request-id` is on every response, see `HttpService`; which handler had the request, [`sign`] says.

use tonic::metadata::{AsciiMetadataValue, MetadataMap, MetadataValue};
use tonic::{Code as Grpc, Status};

use crate::error::{Code, RequestError};
use crate::request::Response;
use crate::server::serve::{Call, Signature};
use crate::server::status as table;
use crate::telemetry::failure::{log_failure, shortened};
use crate::text::beginning;

/// Longest message of a status, in bytes: it travels percent-encoded as a header, and clients take 8 KiB of
/// those.
const LONGEST: usize = 2048;

/// The code's name.
pub(super) const CODE: &str = "modelhost-code";
/// The stage's name.
pub(super) const STAGE: &str = "modelhost-stage";
/// SHA-256 of the handler that had the request.
pub(super) const HANDLER_DIGEST: &str = "x-handler-digest";
/// The stage from which on that had no part in the answer.
pub(super) const HANDLER_BYPASSED: &str = "x-handler-bypassed";
/// Whether the answer was kept (RFC 9211), and for how many seconds.
pub(super) const CACHE_STATUS: &str = "cache-status";
const AGE: &str = "age";

/// Logs a failed request and makes its status.
pub(super) fn status(error: RequestError, call: &Call<'_>, endpoint: Option<&str>) -> Status {
    let mut error = shortened(error);
    // How long a caller is willing to wait is up to the caller: no failure of the server's.
    let gave_up = error.code == Code::RequestTimeout
        && call.client_deadline.is_some_and(|deadline| deadline <= std::time::Instant::now());
    log_failure(&error, &call.id, endpoint, call.trace.as_deref(), call.arrived, gave_up);
    match &error.detail {
        Some(detail) if call.served.config.debug => {
            error.message = format!("{}\n{detail}", error.message);
            refused(&error)
        }
        _ => refused(&error),
    }
}

/// A failure's status.
pub(super) fn refused(error: &RequestError) -> Status {
    let (_, code) = table::of(error.code);
    let mut status = Status::new(code, beginning(&error.message, LONGEST));
    let metadata = status.metadata_mut();
    metadata.insert(CODE, name(error.code.name()));
    metadata.insert(STAGE, name(error.stage.name()));
    status
}

/// A handler's own answer that is no success: the status that means the same, its text as message.
pub(super) fn answered(response: &Response) -> Status {
    Status::new(table::of_http(response.status), beginning(&String::from_utf8_lossy(&response.body), LONGEST))
}

/// Says in an answer's metadata which handler gave it, from which stage on it had no part in it, and whether
/// it was kept.
pub(super) fn sign(metadata: &mut MetadataMap, signature: &Signature<'_>) {
    let Signature { digest, bypassed, cached, .. } = signature;
    if let Some(digest) = digest.and_then(|digest| AsciiMetadataValue::try_from(digest).ok()) {
        metadata.insert(HANDLER_DIGEST, digest);
    }
    if let Some(stage) = bypassed {
        metadata.insert(HANDLER_BYPASSED, name(stage.name()));
    }
    if let Some(cached) = cached {
        metadata.insert(CACHE_STATUS, name(cached.status()));
        if let Some(age) = cached.age() {
            metadata.insert(AGE, AsciiMetadataValue::from(age));
        }
    }
}

fn name(name: &'static str) -> AsciiMetadataValue {
    MetadataValue::from_static(name)
}

/// The text of a failure in the middle of a stream: all but the status.
pub(super) fn message(status: &Status) -> String {
    match status.message() {
        // Empty would mean that there was no failure.
        "" => Grpc::description(&status.code()).to_owned(),
        message => message.to_owned(),
    }
}
