//! Room for answers that clients may be slow to take: results, and lists of jobs.
//!
//! Place in the flow: `jobs.rs` asks for it before it reads what it answers with. In: how much that is at
//! the most. Out: a permit, which the bytes of the response keep.
//! Invariant: an endpoint's results and lists in memory are bounded together, as long as any client takes.

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Collected};
use tokio::sync::OwnedSemaphorePermit;

use super::answers::failed;
use crate::error::{Code, RequestError, Stage};
use crate::jobs::{Job, JobStore, Page};

/// Bytes of a job in a list, about the most.
const LISTED: u64 = 8 << 10;

/// A job, its result if there is one, and the room that this has; `None` if there is no such job.
pub(super) async fn with_result(
    store: &JobStore,
    endpoint: &str,
    id: &str,
) -> Result<Option<(Job, Option<Bytes>, OwnedSemaphorePermit)>, RequestError> {
    let Some(job) = store.job(endpoint, id).await.map_err(failed)? else { return Ok(None) };
    let size = job.answer.as_ref().map(|answer| answer.size);
    let room = room(store, endpoint, size.unwrap_or(0)).await?;
    if size.is_none() {
        return Ok(Some((job, None, room)));
    }
    let found = store.result(endpoint, id, usize::MAX).await.map_err(failed)?;
    Ok(found.map(|(job, body)| (job, body, room)))
}

/// Room for a page of jobs.
pub(super) async fn room_for_list(
    store: &JobStore,
    endpoint: &str,
    page: &Page,
) -> Result<OwnedSemaphorePermit, RequestError> {
    room(store, endpoint, page.limit as u64 * LISTED).await
}

/// Room for an answer, which a client may be slow to take.
async fn room(store: &JobStore, endpoint: &str, bytes: u64) -> Result<OwnedSemaphorePermit, RequestError> {
    let message = "clients take the answers about jobs too slowly: there is no room for another one";
    let room = store.queue(endpoint).room(bytes).await;
    room.ok_or_else(|| RequestError::new(Code::Overloaded, Stage::Admit, message))
}

/// The response, whose bytes keep their room until the last of them is sent.
pub(super) async fn keeping(response: Response, room: OwnedSemaphorePermit) -> Response {
    struct Held {
        bytes: Bytes,
        _room: OwnedSemaphorePermit,
    }

    impl AsRef<[u8]> for Held {
        fn as_ref(&self) -> &[u8] {
            &self.bytes
        }
    }

    let (parts, body) = response.into_parts();
    // It is in memory: this neither waits nor fails.
    let bytes = body.collect().await.map(Collected::to_bytes).unwrap_or_default();
    Response::from_parts(parts, Body::from(Bytes::from_owner(Held { bytes, _room: room })))
}
