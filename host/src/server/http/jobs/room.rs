//! Room for answers that clients may be slow to take: results, and lists of jobs.
//!
//! Place in the flow: `jobs.rs` asks for it before it reads what it answers with. In: how much that is at
//! the most. Out: a permit, which the bytes of the response keep.
//! Invariants: an endpoint's results and lists in memory are bounded together, as long as any client takes,
//! and charged to its account before they are read; what has no room yet is refused when the drain begins,
//! which it would hold up.

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Collected};
use tokio::sync::OwnedSemaphorePermit;

use super::answers::failed;
use crate::drain::Drain;
use crate::error::{Code, RequestError, Stage};
use crate::jobs::{Job, JobStore, Page};
use crate::memory::{Account, Charge};

/// Bytes of a job in a list, about the most.
const LISTED: u64 = 8 << 10;

/// A job, its result if there is one and `is_wanted`, and the room that this has; `None` if there is no such
/// job.
pub(super) async fn with_result(
    store: &JobStore,
    drain: &Drain,
    endpoint: &str,
    id: &str,
    is_wanted: bool,
    memory: Account,
) -> Result<Option<(Job, Option<Bytes>, Room)>, RequestError> {
    let Some(job) = store.job(endpoint, id).await.map_err(failed)? else { return Ok(None) };
    let size = job.answer.as_ref().filter(|_| is_wanted).map(|answer| answer.size);
    let room = room(store, drain, endpoint, size.unwrap_or(0), memory).await?;
    if size.is_none() {
        return Ok(Some((job, None, room)));
    }
    let found = store.result(endpoint, id, usize::MAX).await.map_err(failed)?;
    Ok(found.map(|(job, body)| (job, body, room)))
}

/// Room for a page of jobs.
pub(super) async fn room_for_list(
    store: &JobStore,
    drain: &Drain,
    endpoint: &str,
    page: &Page,
    memory: Account,
) -> Result<Room, RequestError> {
    room(store, drain, endpoint, page.limit as u64 * LISTED, memory).await
}

/// The room of an answer, until it is dropped.
#[derive(Debug)]
pub(super) struct Room {
    _permit: OwnedSemaphorePermit,
    _charge: Charge,
}

/// Room for an answer, which a client may be slow to take.
async fn room(
    store: &JobStore,
    drain: &Drain,
    endpoint: &str,
    bytes: u64,
    memory: Account,
) -> Result<Room, RequestError> {
    let message = "clients take the answers about jobs too slowly: there is no room for another one";
    let queue = store.queue(endpoint);
    let permit = tokio::select! {
        biased;
        room = queue.room(bytes) => {
            room.ok_or_else(|| RequestError::new(Code::Overloaded, Stage::Admit, message))?
        }
        () = drain.begun() => return Err(RequestError::shutting_down(Stage::Admit)),
    };
    let charge = memory.take(usize::try_from(bytes).unwrap_or(usize::MAX));
    Ok(Room { _permit: permit, _charge: charge.map_err(|full| full.at(Stage::Admit))? })
}

/// The response, whose bytes keep their room until the last of them is sent.
pub(super) async fn keeping(response: Response, room: Room) -> Response {
    struct Held {
        bytes: Bytes,
        _room: Room,
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;
    use crate::jobs::{Answer, Outcome, Quota, Submission};
    use crate::stores::Place;

    /// Large enough to go with the large ones.
    const RESULT: usize = 2 << 20;

    async fn ended(folder: &std::path::Path) -> (JobStore, String) {
        let store = JobStore::open(&Place::File(folder.join("jobs"))).await.unwrap();
        let submission = Submission { attempts: 1, keep: Duration::from_secs(60), ..Submission::default() };
        let quota = Quota { queue: 1, bytes: 1 << 30 };
        let id = store.submit("it", submission, quota).await.unwrap().0.id;
        let attempt = store.claim("it").await.unwrap().unwrap().0.current();
        let answer = Answer { status: 200, headers: Vec::new(), size: RESULT as u64 };
        let outcome = Outcome::Answered { is_ok: true, answer, body: vec![7; RESULT].into() };
        store.end("it", &attempt, outcome).await.unwrap();
        (store, id)
    }

    #[tokio::test]
    async fn a_result_waits_for_room_unless_only_its_head_is_wanted_and_never_for_a_drain() {
        let folder = tempfile::tempdir().unwrap();
        let (store, id) = ended(folder.path()).await;
        let drain = Drain::default();
        let memory = Account::alone(RESULT);
        let ask = |is_wanted| with_result(&store, &drain, "it", &id, is_wanted, memory);
        let (_, body, room) = ask(true).await.unwrap().unwrap();
        assert_eq!((body.map(|body| body.len()), memory.held()), (Some(RESULT), RESULT));
        // Its head takes none of the budget.
        assert!(
            ask(true).await.is_err_and(|error| error.code == Code::Overloaded) && ask(false).await.is_ok()
        );
        drop(room);
        let taken = store.queue("it").room(u64::MAX).await.unwrap();
        let (job, body, _) = ask(false).await.unwrap().unwrap();
        assert_eq!((job.answer.unwrap().size, body), (RESULT as u64, None));
        assert!(timeout(Duration::from_millis(50), ask(true)).await.is_err(), "it waits");
        let (waited, ()) = tokio::join!(ask(true), async { drain.begin() });
        assert_eq!(waited.unwrap_err().code, Code::ShuttingDown);
        // What has room is answered still.
        drop(taken);
        assert!(ask(true).await.unwrap().is_some());
    }
}
