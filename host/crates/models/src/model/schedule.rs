//! Decides which of the requests that wait for a model run next, and together: the policy of dynamic
//! batching.
//!
//! Flow: `queue` asks for a runner that has nothing to do.
//! In:   the queue of requests, oldest first; the limits; the time. Out: who runs now, or when to ask again.
//!
//! # When a batch closes
//! - It is **full**: `max_batch` rows, or the next request that fits would exceed them.
//! - Its oldest member has waited for `max_delay`.
//! - The model is **idle**: a runner asks, so waiting would only cost time. Not under [`Wait::Always`].
//!
//! Invariants: a pure function of what goes in. A batch begins with the oldest of its group and the oldest
//! group comes first, so no request is overtaken for ever; a group that waits holds up no other; a request
//! that cannot share a run never waits for others.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How requests of one endpoint share runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batching {
    /// Most rows of one run; 1 switches batching off.
    pub max_batch: usize,
    /// Longest that a request waits for others.
    pub max_delay: Duration,
    /// When it waits.
    pub wait: Wait,
    /// Whether a model may batch although a trial shows that a row's answer depends on the other rows.
    pub trust_rows: bool,
}

/// When a batch that is not full waits for more requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wait {
    /// While all sessions of the model are running: an idle server adds no delay.
    #[default]
    Busy,
    /// Always, for fuller batches at the price of `max_delay` for a single caller.
    Always,
}

/// A request that waits.
pub trait Waiting {
    /// Since when.
    fn arrived(&self) -> Instant;
    /// Its rows; `None` if it cannot share a run.
    fn rows(&self) -> Option<usize>;
    /// Whether it can share a run with `other`, given that both have rows.
    fn fits(&self, other: &Self) -> bool;
}

/// The next step for a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Run these together: places in the queue, ascending.
    Run(Vec<usize>),
    /// Nothing yet; ask again at this time, or when something changes.
    At(Instant),
    /// The queue is empty.
    Nothing,
}

/// Looks at one queue, for a session that is free.
pub fn next<J: Waiting>(queue: &VecDeque<J>, batching: &Batching, now: Instant) -> Next {
    let mut due: Option<Instant> = None;
    // Groups of requests that fit each other, that of the oldest first. One that has to wait does not hold up
    // others.
    let mut seen: Vec<&J> = Vec::new();
    for (place, job) in queue.iter().enumerate() {
        if seen.iter().any(|oldest| oldest.rows().is_some() && job.rows().is_some() && job.fits(oldest)) {
            continue;
        }
        match group(queue, place, job, batching, now) {
            Next::At(time) => due = Some(due.map_or(time, |due| due.min(time))),
            run => return run,
        }
        seen.push(job);
    }
    due.map_or(Next::Nothing, Next::At)
}

/// The step for the request at `place`, the oldest of its group, and all that fit it.
fn group<J: Waiting>(
    queue: &VecDeque<J>,
    place: usize,
    oldest: &J,
    batching: &Batching,
    now: Instant,
) -> Next {
    let mut members = vec![place];
    // A request of a batch's size or more fills it alone.
    let Some(mut rows) = oldest.rows().filter(|rows| *rows < batching.max_batch) else {
        return Next::Run(members);
    };
    let mut full = false;
    for (place, job) in queue.iter().enumerate().skip(place + 1) {
        let Some(more) = job.rows().filter(|_| job.fits(oldest)) else { continue };
        match rows.checked_add(more).filter(|rows| *rows <= batching.max_batch) {
            Some(sum) => rows = sum,
            None => {
                full = true;
                break;
            }
        }
        members.push(place);
    }
    full |= rows == batching.max_batch;
    // Arrivals come from the same monotonic clock; a day more than that is beyond any limit.
    let due = oldest.arrived().checked_add(batching.max_delay).unwrap_or(now);
    let idle = batching.wait == Wait::Busy;
    if full || idle || due <= now { Next::Run(members) } else { Next::At(due) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::testing::UNBATCHED;

    /// Rows, or 0 for a request that cannot share; a shape; milliseconds it has waited.
    struct Job(usize, char, u64, Instant);

    impl Waiting for Job {
        fn arrived(&self) -> Instant {
            self.3 - Duration::from_millis(self.2)
        }
        fn rows(&self) -> Option<usize> {
            (self.0 > 0).then_some(self.0)
        }
        fn fits(&self, other: &Self) -> bool {
            self.1 == other.1
        }
    }

    /// The step for `queue` with `max_batch = 4` and `max_delay = 10 ms`: the places that run, or how many
    /// milliseconds are left.
    fn decide(queue: &[(usize, char, u64)], wait: Wait) -> Result<Vec<usize>, u64> {
        // The clock stands still: every age is measured from here.
        let now = Instant::now() + Duration::from_secs(1);
        let queue: VecDeque<Job> =
            queue.iter().map(|(rows, shape, age)| Job(*rows, *shape, *age, now)).collect();
        let batching = Batching { max_batch: 4, max_delay: Duration::from_millis(10), wait, ..UNBATCHED };
        match next(&queue, &batching, now) {
            Next::Run(places) => Ok(places),
            Next::At(time) => Err(u64::try_from((time - now).as_millis()).unwrap()),
            Next::Nothing => Err(u64::MAX),
        }
    }

    #[test]
    fn a_batch_closes_when_full_or_due_or_idle() {
        use Wait::{Always, Busy};
        for (queue, wait, expected) in [
            // No request is there.
            (vec![], Busy, Err(u64::MAX)),
            // A session is free: at once, with all who are there.
            (vec![(1, 'a', 0)], Busy, Ok(vec![0])),
            (vec![(1, 'a', 7), (1, 'a', 2)], Busy, Ok(vec![0, 1])),
            // Asked to wait, until the oldest has waited long enough.
            (vec![(1, 'a', 0)], Always, Err(10)),
            (vec![(1, 'a', 7), (1, 'a', 2)], Always, Err(3)),
            (vec![(1, 'a', 10), (1, 'a', 2)], Always, Ok(vec![0, 1])),
            (vec![(1, 'a', 99)], Always, Ok(vec![0])),
            // Full: to the row, by one who does not fit in any more, and never beyond.
            (vec![(1, 'a', 0); 4], Always, Ok(vec![0, 1, 2, 3])),
            (vec![(1, 'a', 0); 6], Always, Ok(vec![0, 1, 2, 3])),
            (vec![(1, 'a', 0); 6], Busy, Ok(vec![0, 1, 2, 3])),
            (vec![(3, 'a', 0), (2, 'a', 0)], Always, Ok(vec![0])),
            (vec![(2, 'a', 0), (1, 'a', 0), (2, 'a', 0), (1, 'a', 0)], Always, Ok(vec![0, 1])),
            // As large as a batch, or larger: alone.
            (vec![(4, 'a', 0), (1, 'a', 0)], Busy, Ok(vec![0])),
            (vec![(9, 'a', 0), (1, 'a', 0)], Always, Ok(vec![0])),
            (vec![(1, 'a', 0), (9, 'a', 0)], Always, Ok(vec![0])),
            // Other shapes are stepped over, and served when they are the oldest.
            (vec![(1, 'a', 0), (1, 'b', 0), (3, 'a', 0)], Always, Ok(vec![0, 2])),
            (vec![(1, 'a', 0), (1, 'b', 0), (1, 'a', 0)], Busy, Ok(vec![0, 2])),
            (vec![(1, 'b', 10), (3, 'a', 9)], Always, Ok(vec![0])),
            (vec![(1, 'a', 3), (1, 'b', 2)], Always, Err(7)),
            // Those who cannot share run alone, at once, and spoil no batch.
            (vec![(0, 'a', 0), (1, 'a', 0)], Always, Ok(vec![0])),
            (vec![(1, 'a', 10), (0, 'a', 0), (1, 'a', 0)], Always, Ok(vec![0, 2])),
            (vec![(1, 'a', 0), (0, 'b', 0), (1, 'a', 0)], Always, Ok(vec![1])),
            // A request that has to wait holds up no other: a full batch behind, a request of a batch's size.
            (vec![(1, 'a', 0), (2, 'b', 0), (1, 'a', 0), (2, 'b', 0)], Always, Ok(vec![1, 3])),
            (vec![(1, 'a', 0), (9, 'a', 0)], Always, Ok(vec![0])),
            (vec![(1, 'a', 0), (9, 'b', 0)], Always, Ok(vec![1])),
        ] {
            assert_eq!(decide(&queue, wait), expected, "{queue:?}, {wait:?}");
        }
    }

    #[test]
    fn without_batching_requests_run_one_by_one_at_once() {
        let now = Instant::now();
        let queue = VecDeque::from([Job(1, 'a', 0, now), Job(1, 'a', 0, now)]);
        assert_eq!(next(&queue, &UNBATCHED, now), Next::Run(vec![0]));
    }
}
