//! Admission to an endpoint: which requests are taken on, which of them run, which are refused.
//!
//! Place in the flow: twice. A request reserves a place when its head is there, before anything of its body
//! is read; it acquires a permit when the body is there, before a sandbox is taken for it.
//! In: nothing. Out: a [`Reservation`], then a [`Permit`]; each is given back when dropped, on every path.
//! Invariants: at most `concurrency + queue` requests have a reservation, so there are never more bodies in
//! memory; a request whose body is still arriving yields its place to one that comes, and so does an answer
//! that its client does not take; at most `concurrency` permits are out, and requests without one wait in
//! order of arrival. Taking and giving back either without
//! waiting is one atomic operation each. A queue that is closed ends every wait.

use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::{Mutex, Notify};

use super::departures::Departures;
use crate::arrivals::{Arrivals, Origin};
use crate::error::{Code, RequestError, Stage};
use crate::request::soon;
use crate::shard;

/// While a request waits for a permit, how often is looked for an answer that its client does not take.
const SWEEP_INTERVAL: Duration = Duration::from_millis(250);

/// The queue of one endpoint.
#[derive(Debug)]
pub struct AdmissionQueue {
    concurrency: usize,
    queue: usize,
    reserved: AtomicUsize,
    in_flight: AtomicUsize,
    waiting: AtomicUsize,
    /// Jobs that wait until no request does.
    behind: AtomicUsize,
    is_closed: AtomicBool,
    /// Wakes every wait when the queue is closed; by thread, so that requests do not contend.
    closed: Box<[Notify]>,
    arrivals: Arrivals,
    departures: Departures,
    /// Held by the request that is served next, and waited for by the others.
    line: Mutex<()>,
    /// Wakes the head of the line.
    freed: Notify,
    /// Wakes one that waits behind all requests.
    idle: Notify,
}

/// The right to have a body read, and to acquire a permit.
#[derive(Debug)]
pub struct Reservation<'a> {
    queue: &'a AdmissionQueue,
}

/// The right to be in flight.
#[derive(Debug)]
pub struct Permit<'a> {
    queue: &'a AdmissionQueue,
}

impl AdmissionQueue {
    /// A queue of `queue` places before `concurrency` permits.
    pub fn new(concurrency: usize, queue: usize) -> AdmissionQueue {
        AdmissionQueue {
            concurrency,
            queue,
            reserved: AtomicUsize::new(0),
            in_flight: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            behind: AtomicUsize::new(0),
            is_closed: AtomicBool::new(false),
            closed: (0..shard::count()).map(|_| Notify::new()).collect(),
            arrivals: Arrivals::default(),
            departures: Departures::default(),
            line: Mutex::new(()),
            freed: Notify::new(),
            idle: Notify::new(),
        }
    }

    /// Most reservations.
    fn places(&self) -> usize {
        self.concurrency.saturating_add(self.queue)
    }

    /// Reserves a place. Never waits.
    ///
    /// # Errors
    /// `overloaded` if `concurrency + queue` requests are here already, with their bodies.
    pub fn try_reserve(&self) -> Result<Reservation<'_>, RequestError> {
        let most = self.concurrency.saturating_add(self.queue);
        match self
            .reserved
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| (n < most).then_some(n + 1))
        {
            Ok(_) => Ok(Reservation { queue: self }),
            // It takes the place of one that is not here yet, or that its client does not take, which goes in
            // a moment.
            Err(_) if self.arrivals.end_one() || self.departures.end_one() => {
                self.reserved.fetch_add(1, Ordering::Relaxed);
                Ok(Reservation { queue: self })
            }
            Err(_) => Err(RequestError::new(Code::Overloaded, Stage::Admit, "too many requests are waiting")),
        }
    }

    /// Waits for the body of a request with a [`Reservation`].
    ///
    /// # Errors
    /// `shutting_down` if the queue is closed before it is there, `overloaded` if another request gets its
    /// place.
    pub async fn arrive<F: Future + Unpin>(
        &self,
        origin: Origin,
        mut body: F,
    ) -> Result<F::Output, RequestError> {
        // The usual case: a body that is here is neither listed nor timed. Where places are scarce there is
        // no time to see whether it is: one that is not listed cannot yield its place.
        if self.reserved() <= self.places() / 2
            && let Some(output) = soon(&mut body).await
        {
            return Ok(output);
        }
        let arrived = pin!(self.arrivals.wait(origin, body));
        self.while_open(arrived).await.ok_or_else(|| RequestError::shutting_down(Stage::Admit))?.ok_or_else(
            || {
                let message = "the body was still arriving, and others need its place";
                RequestError::new(Code::Overloaded, Stage::Admit, message)
            },
        )
    }

    /// The answers that are under way to clients.
    pub fn departures(&self) -> &Departures {
        &self.departures
    }

    /// Reservations that are out now: requests that are here and have no answer yet.
    pub fn reserved(&self) -> usize {
        self.reserved.load(Ordering::Relaxed)
    }

    /// Requests in flight and requests waiting, now.
    pub fn load(&self) -> (usize, usize) {
        (self.in_flight.load(Ordering::Relaxed), self.waiting.load(Ordering::Relaxed))
    }

    /// A permit, after waiting if need be; for requests with a [`Reservation`]. Dropping the future leaves
    /// the queue. When the queue is closed, those that wait get none: [`AdmissionQueue::while_open`] ends
    /// them.
    pub async fn acquire(&self) -> Permit<'_> {
        // Others that wait come first.
        if self.waiting.load(Ordering::SeqCst) == 0
            && let Some(permit) = self.try_acquire()
        {
            return permit;
        }
        let _waiting = Waiting::join(self);
        // First come, first served: the mutex is fair, and its holder is the head of the line.
        let _head = self.line.lock().await;
        loop {
            // Registered before the attempt: a permit freed in between wakes the head.
            let freed = self.freed.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            if let Some(permit) = self.try_acquire() {
                // Looked at with the permit in hand: one that was freed because the queue was closed may be
                // here before the word of it.
                if self.is_closed() {
                    drop(permit);
                    return std::future::pending().await;
                }
                return permit;
            }
            if self.departures.is_empty() {
                freed.await;
            } else {
                self.departures.make_room(self.waiting.load(Ordering::SeqCst));
                // A client may be seen to be slow later; then there is another look.
                let _ = tokio::time::timeout(SWEEP_INTERVAL, freed).await;
            }
        }
    }

    /// A permit for work that no client waits for: taken only while no request waits for one. `None` if the
    /// queue is closed first.
    pub async fn acquire_behind(&self) -> Option<Permit<'_>> {
        let _behind = Behind::join(self);
        let acquired = pin!(async {
            loop {
                let idle = self.idle.notified();
                tokio::pin!(idle);
                // Registered before the attempt, as in `acquire`.
                idle.as_mut().enable();
                if self.waiting.load(Ordering::SeqCst) == 0
                    && let Some(permit) = self.try_acquire()
                {
                    return permit;
                }
                idle.await;
            }
        });
        self.while_open(acquired).await.filter(|_| !self.is_closed())
    }

    /// Wakes one that waits behind all requests, if there is any.
    fn wake_behind(&self) {
        if self.behind.load(Ordering::SeqCst) > 0 {
            self.idle.notify_one();
        }
    }

    /// Ends every [`AdmissionQueue::while_open`], and those to come.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        self.closed.iter().for_each(Notify::notify_waiters);
    }

    /// Waits for `future` until the queue is closed; `None` if it is closed first. A future that is ready at
    /// once costs nothing.
    pub async fn while_open<F: Future + Unpin>(&self, mut future: F) -> Option<F::Output> {
        let at_once = std::future::poll_fn(|context| Poll::Ready(Pin::new(&mut future).poll(context)));
        if let Poll::Ready(output) = at_once.await {
            return Some(output);
        }
        let closed = self.closed.get(shard::current(self.closed.len()))?;
        let mut closed = pin!(closed.notified());
        // Registered before the look: a queue that is closed in between wakes this.
        closed.as_mut().enable();
        if self.is_closed.load(Ordering::SeqCst) {
            return None;
        }
        tokio::select! {
            biased;
            () = closed => None,
            output = future => Some(output),
        }
    }

    /// Whether it is closed.
    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }

    fn try_acquire(&self) -> Option<Permit<'_>> {
        self.in_flight
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| (n < self.concurrency).then_some(n + 1))
            .ok()
            .map(|_| Permit { queue: self })
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.queue.reserved.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.queue.in_flight.fetch_sub(1, Ordering::SeqCst);
        // Sequentially consistent with `acquire`: either the waiter's attempt sees the free place, or this
        // sees the waiter.
        if self.queue.waiting.load(Ordering::SeqCst) > 0 {
            self.queue.freed.notify_one();
        } else {
            self.queue.wake_behind();
        }
    }
}

/// A place in the queue, left when dropped.
struct Waiting<'a>(&'a AdmissionQueue);

impl<'a> Waiting<'a> {
    fn join(queue: &'a AdmissionQueue) -> Waiting<'a> {
        queue.waiting.fetch_add(1, Ordering::SeqCst);
        Waiting(queue)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        // The last one may leave a permit that it was woken for.
        if self.0.waiting.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.wake_behind();
        }
    }
}

/// A place behind all requests, left when dropped.
struct Behind<'a>(&'a AdmissionQueue);

impl<'a> Behind<'a> {
    fn join(queue: &'a AdmissionQueue) -> Behind<'a> {
        queue.behind.fetch_add(1, Ordering::SeqCst);
        Behind(queue)
    }
}

impl Drop for Behind<'_> {
    fn drop(&mut self) {
        // A permit that this one was woken for may be another's, and there may be more of them than one.
        if self.0.behind.fetch_sub(1, Ordering::SeqCst) > 1 {
            self.0.idle.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn turns_away_whoever_comes_when_every_place_is_taken() {
        let queue = AdmissionQueue::new(2, 1);
        let mut reserved = [(); 3].map(|()| Some(queue.try_reserve().unwrap()));
        assert_eq!(queue.try_reserve().unwrap_err().code, Code::Overloaded);
        reserved[1] = None;
        let _fourth = queue.try_reserve().unwrap();
        assert_eq!(queue.try_reserve().unwrap_err().code, Code::Overloaded);
        assert_eq!((queue.reserved(), queue.load()), (3, (0, 0)));
        drop(reserved);
        assert_eq!(queue.reserved(), 1);
    }

    #[tokio::test]
    async fn lets_in_and_queues() {
        let queue = AdmissionQueue::new(1, 1);
        let first = queue.acquire().await;
        let second = queue.acquire();
        tokio::pin!(second);
        assert!(futures_poll(second.as_mut()).await.is_none());
        assert_eq!(queue.load(), (1, 1));
        drop(first);
        let _second = second.await;
        assert_eq!(queue.load(), (1, 0));
    }

    /// Work without a client gets a permit when no request waits for one, and none of those that wait is
    /// forgotten.
    #[tokio::test]
    async fn work_without_a_client_comes_last() {
        let queue = AdmissionQueue::new(1, 2);
        let first = queue.acquire().await;
        let (mut job, mut other) = (pin!(queue.acquire_behind()), pin!(queue.acquire_behind()));
        assert!(futures_poll(job.as_mut()).await.is_none());
        assert!(futures_poll(other.as_mut()).await.is_none());
        {
            let mut second = pin!(queue.acquire());
            assert!(futures_poll(second.as_mut()).await.is_none());
            drop(first);
            assert!(futures_poll(job.as_mut()).await.is_none(), "the request comes first");
            // It leaves the queue, and the permit with it.
        }
        let permit = job.await.unwrap();
        assert!(futures_poll(other.as_mut()).await.is_none());
        assert_eq!(queue.load(), (1, 0));
        drop(permit);
        drop(other.await.unwrap());
        let _busy = queue.acquire().await;
        let mut last = pin!(queue.acquire_behind());
        assert!(futures_poll(last.as_mut()).await.is_none());
        queue.close();
        assert!(last.await.is_none());
    }

    #[tokio::test]
    async fn closing_ends_all_waiting_and_nothing_else() {
        let queue = AdmissionQueue::new(1, 2);
        let first = queue.while_open(pin!(queue.acquire())).await;
        assert!(first.is_some());
        let wait = async || queue.while_open(pin!(queue.acquire())).await.is_none();
        let (second, third, ()) = tokio::join!(wait(), wait(), async { queue.close() });
        assert_eq!((second, third, queue.load()), (true, true, (1, 0)));
        assert!(wait().await, "one that comes later");
        drop(first);
        assert!(!wait().await, "one that need not wait");
    }

    /// The runs that a closed queue ends free their permits before all that wait have been told.
    #[tokio::test]
    async fn a_permit_freed_by_closing_is_not_for_those_that_wait() {
        let queue = AdmissionQueue::new(1, 2);
        let first = queue.acquire().await;
        let mut second = pin!(queue.acquire());
        assert!(futures_poll(second.as_mut()).await.is_none());
        queue.close();
        drop(first);
        assert!(futures_poll(second.as_mut()).await.is_none());
        assert_eq!(queue.load().0, 0);
    }

    #[tokio::test]
    async fn a_body_that_came_with_its_head_is_not_listed_unless_places_are_scarce() {
        for (others, listed) in [(0, false), (1, false), (2, true), (3, true)] {
            let queue = AdmissionQueue::new(2, 2);
            let _reservations: Vec<_> = (0..=others).map(|_| queue.try_reserve().unwrap()).collect();
            let (body, arrives) = tokio::sync::oneshot::channel();
            let arriving = queue.arrive(Origin::default(), arrives);
            let (arrived, ended) = tokio::join!(arriving, async {
                let ended = queue.arrivals.end_one();
                match ended {
                    true => std::mem::forget(body),
                    false => body.send(()).unwrap(),
                }
                ended
            });
            assert_eq!((arrived.is_err(), ended), (listed, listed), "{others}");
        }
        let queue = AdmissionQueue::new(1, 0);
        let waiting = queue.arrive(Origin::default(), std::future::pending::<()>());
        let end = async {
            while !queue.arrivals.end_one() {
                tokio::task::yield_now().await;
            }
        };
        assert_eq!(tokio::join!(waiting, end).0.unwrap_err().code, Code::Overloaded);
    }

    #[tokio::test]
    async fn a_waiter_that_leaves_frees_its_place() {
        let queue = AdmissionQueue::new(1, 1);
        let first = queue.acquire().await;
        {
            let leaver = queue.acquire();
            tokio::pin!(leaver);
            assert!(futures_poll(leaver.as_mut()).await.is_none());
        }
        assert_eq!(queue.load(), (1, 0));
        drop(first);
        queue.acquire().await;
    }

    /// Many requests, most of them abandoned at a random moment: no permit is lost and no request waits for
    /// ever.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn loses_nothing_under_cancellation() {
        let queue = Arc::new(AdmissionQueue::new(3, 10_000));
        let tasks: Vec<_> = (0..2_000u64)
            .map(|n| {
                let queue = queue.clone();
                tokio::spawn(async move {
                    let patience = Duration::from_micros(n * 7919 % 3000);
                    let work = async {
                        let _permit = queue.acquire().await;
                        assert!(queue.load().0 <= 3);
                        tokio::time::sleep(Duration::from_micros(n % 50)).await;
                    };
                    if n % 3 == 0 { work.await } else { drop(tokio::time::timeout(patience, work).await) }
                })
            })
            .collect();
        for task in tasks {
            tokio::time::timeout(Duration::from_secs(60), task)
                .await
                .expect("a request waits for ever")
                .unwrap();
        }
        assert_eq!(queue.load(), (0, 0));
    }

    /// Polls once.
    async fn futures_poll<F: Future>(mut future: std::pin::Pin<&mut F>) -> Option<F::Output> {
        std::future::poll_fn(|cx| {
            std::task::Poll::Ready(match future.as_mut().poll(cx) {
                std::task::Poll::Ready(output) => Some(output),
                std::task::Poll::Pending => None,
            })
        })
        .await
    }
}
