//! What a stop, or a caller who leaves, does to jobs.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;

use super::*;

/// Polls once.
async fn is_ready(mut future: Pin<&mut impl Future>) -> bool {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_ready())).await
}

#[tokio::test]
async fn a_job_that_a_stop_cut_off_is_run_again_however_long_ago_it_was_to_begin() {
    for opened in all().await {
        let store = &opened.store;
        let late = Submission { wait: Some(Duration::from_millis(50)), ..of("x", 1) };
        let id = submit(store, late.clone()).await.id;
        let cut_off = claim(store).await.unwrap().0.current();
        tokio::time::sleep(Duration::from_millis(60)).await;
        store.end("it", &cut_off, Outcome::CutOff).await.unwrap();
        // What a sweep would have failed is failed with the next change.
        submit(store, of("y", 2)).await;
        let again = claim(store).await.unwrap().0;
        assert_eq!((again.id.as_str(), again.attempt, again.start_by), (id.as_str(), 1, None));
        claim(store).await.unwrap();
        // One that was not let in has still to begin in time.
        let id = submit(store, late).await.id;
        let not_tried = claim(store).await.unwrap().0.current();
        tokio::time::sleep(Duration::from_millis(60)).await;
        store.end("it", &not_tried, Outcome::NotTried { delay: Duration::ZERO }).await.unwrap();
        assert!(claim(store).await.is_none());
        assert_eq!(store.job("it", &id).await.unwrap().unwrap().state, JobState::Failed);
    }
}

#[tokio::test]
async fn a_worker_is_woken_though_the_submission_was_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let store = in_file(&folder.path().join("jobs")).await.unwrap();
    let queue = store.queue("it");
    {
        let mut submission = pin!(store.submit("it", of("x", 1), QUOTA));
        // Sent to the writer, and dropped.
        assert!(!is_ready(submission.as_mut()).await);
    }
    tokio::time::timeout(Duration::from_secs(5), queue.wait()).await.expect("a worker is woken");
    // The same of a job that is cancelled while it runs.
    let job = claim(&store).await.unwrap().0;
    let mut running = queue.begin(&job.id);
    {
        let mut cancelled = pin!(store.cancel("it", &job.id));
        assert!(!is_ready(cancelled.as_mut()).await);
    }
    tokio::time::timeout(Duration::from_secs(5), running.stopped()).await.expect("it is stopped");
}
