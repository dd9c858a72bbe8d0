//! Jobs that a stop cuts off, callers who leave, and writes that are stored though they fail.

use std::future::poll_fn;
use std::path::Path;
use std::pin::{Pin, pin};
use std::task::Poll;

use super::*;

/// Polls once, and forgets.
async fn begun(mut future: Pin<&mut impl Future>) {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_ready())).await;
}

/// Claims a job that has to begin within a second, and waits until that is over.
async fn claimed_and_late(store: &JobStore, number: &'static str) -> Job {
    submit(store, Submission { wait: Some(Duration::from_secs(1)), ..of(number, 1) }).await;
    let job = claim(store).await.unwrap().0;
    let left = job.start_by.unwrap().saturating_sub(now());
    tokio::time::sleep(Duration::from_millis(left + 20)).await;
    job
}

#[tokio::test]
async fn a_job_that_a_stop_cut_off_is_run_again_however_long_ago_it_was_to_begin() {
    for opened in all().await {
        let store = &opened.store;
        let cut_off = claimed_and_late(store, "x").await;
        store.end("it", &cut_off.current(), Outcome::CutOff).await.unwrap();
        // What a sweep would have failed is failed with the next change of a file, the next beat of a Redis.
        submit(store, of("y", 2)).await;
        opened.until_queued(2).await;
        let again = claim(store).await.unwrap().0;
        assert_eq!((&again.id, again.attempt, again.start_by), (&cut_off.id, 1, None));
        claim(store).await.unwrap();
        // One that was not let in has still to begin in time.
        let late = claimed_and_late(store, "z").await;
        let not_tried = Outcome::NotTried { delay: Duration::ZERO };
        store.end("it", &late.current(), not_tried).await.unwrap();
        assert!(claim(store).await.is_none());
        assert_eq!(store.job("it", &late.id).await.unwrap().unwrap().state, JobState::Failed);
    }
}

#[tokio::test]
async fn a_worker_is_woken_though_the_submission_was_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let store = in_file(&folder.path().join("jobs")).await.unwrap();
    let queue = store.queue("it");
    // Sent to the writer, and dropped.
    begun(pin!(store.submit("it", of("x", 1), QUOTA))).await;
    tokio::time::timeout(Duration::from_secs(5), queue.wait()).await.expect("a worker is woken");
    // The same of a job that is cancelled while it runs.
    let job = claim(&store).await.unwrap().0;
    let mut running = queue.begin(&job.id);
    begun(pin!(store.cancel("it", &job.id))).await;
    tokio::time::timeout(Duration::from_secs(5), running.stopped()).await.expect("it is stopped");
}

/// Has the next write be stored, and say that it has failed.
fn lose_an_answer(store: &JobStore) {
    let Backend::Embedded(embedded) = &store.0 else { unreachable!() };
    embedded.lose_an_answer();
}

/// A store with one job, of this id, that was claimed by a write which says that it has failed.
async fn with_a_lost_claim(path: &Path) -> (JobStore, String) {
    let store = in_file(path).await.unwrap();
    let id = submit(&store, of("x", 1)).await.id;
    lose_an_answer(&store);
    assert!(matches!(store.claim("it").await, Err(JobError::Unavailable(_))));
    (store, id)
}

#[tokio::test]
async fn a_claim_that_is_stored_though_its_write_has_failed_is_no_attempt() {
    let folder = tempfile::tempdir().unwrap();
    let (store, id) = with_a_lost_claim(&folder.path().join("jobs")).await;
    assert_eq!(store.job("it", &id).await.unwrap().unwrap().state, JobState::Running);
    // No change is made meanwhile: there is nothing to run.
    let begun = std::time::Instant::now();
    while store.job("it", &id).await.unwrap().unwrap().state != JobState::Queued {
        assert!(begun.elapsed() < Duration::from_secs(10), "it seems to run");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let (job, body) = claim(&store).await.unwrap();
    assert_eq!((&job.id, job.attempt, &*body), (&id, 1, b"x".as_slice()));
    assert_eq!(store.queue("it").numbers(), (0, 1, None));
    // One that was answered stays with its worker.
    submit(&store, of("y", 2)).await;
    assert_eq!(store.job("it", &id).await.unwrap().unwrap().state, JobState::Running);
}

#[tokio::test]
async fn a_claim_that_is_stored_though_its_write_has_failed_is_no_attempt_though_the_store_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs");
    let (store, id) = with_a_lost_claim(&path).await;
    store.close();
    let store = in_file(&path).await.unwrap();
    let job = claim(&store).await.unwrap().0;
    assert_eq!((&job.id, job.attempt, &job.error), (&id, 1, &None));
}

#[tokio::test]
async fn an_end_that_is_stored_though_its_write_has_failed_ends_no_later_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs");
    let store = in_file(&path).await.unwrap();
    let id = submit(&store, of("x", 1)).await.id;
    let not_tried = Outcome::NotTried { delay: Duration::ZERO };
    let mut last = claim(&store).await.unwrap().0.current();
    for outcome in [not_tried, Outcome::CutOff] {
        lose_an_answer(&store);
        let ended = store.end("it", &last, outcome.clone()).await;
        assert!(matches!(ended, Err(JobError::Unavailable(_))));
        // Another worker takes it, and the first says once more how its run has ended.
        let next = claim(&store).await.unwrap().0.current();
        assert_eq!((next.number, next.claim), (last.number, last.claim + 1));
        store.end("it", &last, outcome).await.unwrap();
        assert_eq!(store.job("it", &id).await.unwrap().unwrap().state, JobState::Running);
        last = next;
    }
    // The claims are counted on after a start.
    store.close();
    let store = in_file(&path).await.unwrap();
    let next = claim(&store).await.unwrap().0.current();
    assert_eq!((next.number, next.claim), (last.number + 1, last.claim + 1));
}
