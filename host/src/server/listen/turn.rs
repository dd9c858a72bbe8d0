//! Lets the answers of requests that came together leave together.
//!
//! Place in the flow: `connection`, between an answer that is made and hyper writing it.
//! In:   when the request came. Out: nothing; the answer waits until the tasks that are ready now have had
//! their turn.
//!
//! A worker finds many connections readable at once. If it answers and writes one after the other, every
//! request begins with the processor's caches full of the kernel's way to the network, and every write wakes
//! a client that then takes the core from under the next request. So a worker first makes the answers of all
//! that are ready, then writes them: the same work in an order that costs less (Larus and Parkes, "Using
//! Cohort Scheduling to Enhance Server Performance", USENIX ATC 2002). docs/decisions has what was measured.
//!
//! Invariants: an answer waits for tasks that are in the worker's line already, never for one that is still
//! to come, so a worker with one request writes at once; it waits once; one that took long does not wait at
//! all, since waiting for others like it would cost its caller more than it saves.

use std::future::poll_fn;
use std::task::Poll;
use std::time::{Duration, Instant};

/// Answers that were made in less time wait for each other.
const SHORT: Duration = Duration::from_micros(200);

/// Goes to the end of the worker's line, if the request that came at `arrived` was answered in a short time.
pub(super) async fn pass(arrived: Instant) {
    if arrived.elapsed() >= SHORT {
        return;
    }
    let mut has_passed = false;
    poll_fn(|context| {
        if has_passed {
            return Poll::Ready(());
        }
        has_passed = true;
        // Not Tokio's `yield_now`: that waits until the line is empty, and asks the kernel for more work
        // first.
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// The steps of three tasks that are ready at the same time, in the order in which they take them.
    async fn order(arrived: Instant) -> String {
        let events = Arc::new(Mutex::new(String::new()));
        let tasks: Vec<_> = (0..3)
            .map(|task| {
                let events = events.clone();
                tokio::spawn(async move {
                    events.lock().unwrap().push_str(&format!("make {task}, "));
                    pass(arrived).await;
                    events.lock().unwrap().push_str(&format!("write {task}, "));
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        let events = events.lock().unwrap();
        events.clone()
    }

    #[tokio::test]
    async fn answers_that_were_made_quickly_leave_together() {
        // As if they had come just now, however long the machine pauses.
        let arrived = Instant::now() + Duration::from_secs(60);
        assert_eq!(order(arrived).await, "make 0, make 1, make 2, write 0, write 1, write 2, ");
    }

    #[tokio::test]
    async fn an_answer_that_took_long_leaves_at_once() {
        let arrived = Instant::now() - SHORT;
        assert_eq!(order(arrived).await, "make 0, write 0, make 1, write 1, make 2, write 2, ");
    }
}
