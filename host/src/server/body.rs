//! A request's body, read whole.
//!
//! Place in the flow: for every listener that takes bodies over HTTP: calls, components, orders.
//! Invariants: at most [`Bounds::longest`] bytes are read, and held once: a body that arrives in one piece is
//! never copied, any other once; one that comes too slowly is given up.

use std::error::Error;
use std::io::{self, ErrorKind};
use std::time::Instant;

use axum::body::{Body, HttpBody as _};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;

use crate::arrivals::BodyRate;
use crate::error::{Code, RequestError, Stage};
use crate::request::{soon, until};

/// Most that is set aside for a body on the strength of its announced length; a longer one has to come first.
const SET_ASIDE: usize = 1 << 20;

/// Limits of one body.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Bytes.
    pub(super) longest: usize,
    /// How fast it has to come.
    pub(super) body_rate: BodyRate,
    /// When its request's head came.
    pub(super) arrived: Instant,
    /// When its request ends.
    pub(super) deadline: Instant,
}

/// The whole body as it comes; `None` if the client went away before its end.
pub(super) async fn read_body(mut body: Body, bounds: Bounds) -> Result<Option<Bytes>, RequestError> {
    let limit = bounds.longest;
    let too_large = || {
        RequestError::new(Code::BodyTooLarge, Stage::Admit, format!("the body is longer than {limit} bytes"))
    };
    // Announced length first: nothing is read of a body that cannot be taken.
    if body.size_hint().lower() > limit as u64 {
        return Err(too_large());
    }
    // One frame, the usual case, is passed on as it is. More are copied together: a client decides how small
    // they are, and each keeps far more memory than its bytes.
    let (mut first, mut all) = (Bytes::new(), BytesMut::new());
    loop {
        let due = bounds.body_rate.deadline(bounds.arrived, first.len() + all.len());
        let mut next = body.frame();
        let frame = match soon(&mut next).await {
            Some(frame) => Some(frame),
            None => until(due.min(bounds.deadline), next).await,
        };
        let Some(frame) = frame else {
            return Err(too_slow(&bounds, due));
        };
        let Some(frame) = frame else { break };
        let data = match frame {
            Ok(frame) => frame.into_data().unwrap_or_default(),
            Err(error) if is_malformed(&error) => {
                let text = "the body could not be read";
                return Err(RequestError::invalid(Stage::Admit, text).with_detail(error));
            }
            Err(_) => return Ok(None),
        };
        if first.len() + all.len() + data.len() > limit {
            return Err(too_large());
        }
        if first.is_empty() && all.is_empty() {
            first = data;
        } else {
            if all.is_empty() {
                let rest = usize::try_from(body.size_hint().lower()).unwrap_or(limit);
                all.reserve((first.len() + data.len()).saturating_add(rest).min(SET_ASIDE));
            }
            all.extend_from_slice(&std::mem::take(&mut first));
            all.extend_from_slice(&data);
        }
    }
    Ok(Some(if all.is_empty() { first } else { all.freeze() }))
}

fn too_slow(bounds: &Bounds, due: Instant) -> RequestError {
    if due > bounds.deadline {
        let message = "the body took longer than a request may";
        return RequestError::new(Code::RequestTimeout, Stage::Admit, message);
    }
    let BodyRate { timeout, rate } = bounds.body_rate;
    let message = format!("the body came too slowly, expected {rate} bytes a second after {timeout:?}");
    RequestError::new(Code::BodyTimeout, Stage::Admit, message)
}

/// Whether a body ended because its client sent nonsense, not because it went away.
fn is_malformed(error: &(dyn Error + 'static)) -> bool {
    std::iter::successors(Some(error), |&error| error.source())
        .filter_map(|error| error.downcast_ref::<io::Error>())
        .any(|error| matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::InvalidData))
}
