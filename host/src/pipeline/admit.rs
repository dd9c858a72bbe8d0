//! The door of an endpoint: who may start now, who waits, who is turned away.
//!
//! Place in the flow: twice. A request knocks when its head is there, before anything of its body is read; it enters when
//! the body is there, before a sandbox is taken for it.
//! In: nothing but the wish. Out: a [`Guest`], then a [`Permit`]; each is given back when dropped, on whatever path.
//! Invariants: at most `concurrency + queue` requests are guests, so there are never more bodies in memory; a request whose body
//! is still arriving yields its place to one that comes; at most
//! `concurrency` permits are out, and guests without one wait in order of arrival. Taking and giving back either without
//! waiting is one atomic operation each. A door that is closed ends everything that waits behind it, for whatever it waits.

use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;

use tokio::sync::{Mutex, Notify};

use crate::arrivals::{Arrivals, Origin};
use crate::error::{Code, RequestError, Stage};
use crate::request::soon;
use crate::shard;

/// One endpoint's door.
#[derive(Debug)]
pub struct Door {
    concurrency: usize,
    queue: usize,
    guests: AtomicUsize,
    in_flight: AtomicUsize,
    waiting: AtomicUsize,
    is_closed: AtomicBool,
    /// Wakes what waits when the door is closed; by thread, so that requests do not contend.
    closed: Box<[Notify]>,
    arrivals: Arrivals,
    /// Held by the request that is served next, and waited for by the others.
    line: Mutex<()>,
    /// Wakes the head of the line.
    freed: Notify,
}

/// The right to have a body read, and to enter.
#[derive(Debug)]
pub struct Guest<'a> {
    door: &'a Door,
}

/// The right to be in flight.
#[derive(Debug)]
pub struct Permit<'a> {
    door: &'a Door,
}

impl Door {
    /// A door that lets `concurrency` requests in and lets `queue` more wait.
    pub fn new(concurrency: usize, queue: usize) -> Door {
        Door {
            concurrency,
            queue,
            guests: AtomicUsize::new(0),
            in_flight: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            is_closed: AtomicBool::new(false),
            closed: (0..shard::count()).map(|_| Notify::new()).collect(),
            arrivals: Arrivals::default(),
            line: Mutex::new(()),
            freed: Notify::new(),
        }
    }

    /// Comes to the door. Never waits.
    ///
    /// # Errors
    /// `overloaded` if `concurrency + queue` requests are here already, with their bodies.
    pub fn knock(&self) -> Result<Guest<'_>, RequestError> {
        let most = self.concurrency.saturating_add(self.queue);
        match self.guests.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| (n < most).then_some(n + 1))
        {
            Ok(_) => Ok(Guest { door: self }),
            // It takes the place of one that is not here yet, which goes in a moment.
            Err(_) if self.arrivals.end_one() => {
                self.guests.fetch_add(1, Ordering::Relaxed);
                Ok(Guest { door: self })
            }
            Err(_) => Err(RequestError::new(Code::Overloaded, Stage::Admit, "too many requests are waiting")),
        }
    }

    /// Waits for a guest's body.
    ///
    /// # Errors
    /// `shutting_down` if the door is closed before it is there, `overloaded` if another request gets its place.
    pub async fn arrive<F: Future>(&self, origin: Origin, body: F) -> Result<F::Output, RequestError> {
        let mut body = pin!(body);
        // The usual case: a body that is here is neither listed nor timed.
        if let Some(output) = soon(body.as_mut()).await {
            return Ok(output);
        }
        let arrived = pin!(self.arrivals.wait(origin, body));
        let refused = |code, message: &str| RequestError::new(code, Stage::Admit, message);
        self.while_open(arrived)
            .await
            .ok_or_else(|| refused(Code::ShuttingDown, "the server is shutting down"))?
            .ok_or_else(|| {
                refused(Code::Overloaded, "the body was still arriving, and others need its place")
            })
    }

    /// Requests that have knocked and are still here, now.
    pub fn guests(&self) -> usize {
        self.guests.load(Ordering::Relaxed)
    }

    /// Requests in flight and requests waiting, now.
    pub fn load(&self) -> (usize, usize) {
        (self.in_flight.load(Ordering::Relaxed), self.waiting.load(Ordering::Relaxed))
    }

    /// Enters, after waiting if it must; who may is [`Door::knock`]'s business. Dropping the future leaves the queue.
    pub async fn enter(&self) -> Permit<'_> {
        // Whoever comes while others wait queues behind them.
        if self.waiting.load(Ordering::SeqCst) == 0
            && let Some(permit) = self.try_enter()
        {
            return permit;
        }
        let _waiting = Waiting::join(self);
        // First come, first served: the mutex is fair, and whoever holds it is the head of the line.
        let _head = self.line.lock().await;
        loop {
            // Registered before the attempt: a permit freed in between wakes the head.
            let freed = self.freed.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            if let Some(permit) = self.try_enter() {
                return permit;
            }
            freed.await;
        }
    }

    /// Ends every [`Door::while_open`], and those to come.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        self.closed.iter().for_each(Notify::notify_waiters);
    }

    /// Waits for `future`, but not behind a closed door; `None` if it has to. A future that is ready at once costs nothing.
    pub async fn while_open<F: Future + Unpin>(&self, mut future: F) -> Option<F::Output> {
        let at_once = std::future::poll_fn(|context| Poll::Ready(Pin::new(&mut future).poll(context)));
        if let Poll::Ready(output) = at_once.await {
            return Some(output);
        }
        let closed = self.closed.get(shard::current(self.closed.len()))?;
        let mut closed = pin!(closed.notified());
        // Registered before the look: a door that is closed in between wakes this.
        closed.as_mut().enable();
        if self.is_closed.load(Ordering::SeqCst) {
            return None;
        }
        tokio::select! {
            // What is freed because the door was closed is not for those who wait.
            biased;
            () = closed => None,
            output = future => Some(output),
        }
    }

    /// Whether it is closed.
    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }

    fn try_enter(&self) -> Option<Permit<'_>> {
        self.in_flight
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| (n < self.concurrency).then_some(n + 1))
            .ok()
            .map(|_| Permit { door: self })
    }
}

impl Drop for Guest<'_> {
    fn drop(&mut self) {
        self.door.guests.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.door.in_flight.fetch_sub(1, Ordering::SeqCst);
        // Sequentially consistent with `enter`: either the waiter's attempt sees the free place, or this sees the
        // waiter.
        if self.door.waiting.load(Ordering::SeqCst) > 0 {
            self.door.freed.notify_one();
        }
    }
}

/// A place in the queue, left when dropped.
struct Waiting<'a>(&'a Door);

impl<'a> Waiting<'a> {
    fn join(door: &'a Door) -> Waiting<'a> {
        door.waiting.fetch_add(1, Ordering::SeqCst);
        Waiting(door)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn turns_away_whoever_comes_when_every_place_is_taken() {
        let door = Door::new(2, 1);
        let mut guests = [(); 3].map(|()| Some(door.knock().unwrap()));
        assert_eq!(door.knock().unwrap_err().code, Code::Overloaded);
        guests[1] = None;
        let _fourth = door.knock().unwrap();
        assert_eq!(door.knock().unwrap_err().code, Code::Overloaded);
        assert_eq!((door.guests(), door.load()), (3, (0, 0)));
        drop(guests);
        assert_eq!(door.guests(), 1);
    }

    #[tokio::test]
    async fn lets_in_and_queues() {
        let door = Door::new(1, 1);
        let first = door.enter().await;
        let second = door.enter();
        tokio::pin!(second);
        assert!(futures_poll(second.as_mut()).await.is_none());
        assert_eq!(door.load(), (1, 1));
        drop(first);
        let _second = second.await;
        assert_eq!(door.load(), (1, 0));
    }

    #[tokio::test]
    async fn closing_ends_all_waiting_and_nothing_else() {
        let door = Door::new(1, 2);
        let first = door.while_open(pin!(door.enter())).await;
        assert!(first.is_some());
        let wait = async || door.while_open(pin!(door.enter())).await.is_none();
        let (second, third, ()) = tokio::join!(wait(), wait(), async { door.close() });
        assert_eq!((second, third, door.load()), (true, true, (1, 0)));
        assert!(wait().await, "one that comes later");
        drop(first);
        assert!(!wait().await, "one that need not wait");
    }

    #[tokio::test]
    async fn a_body_that_came_with_its_head_is_not_listed() {
        let door = Door::new(1, 0);
        let arriving = door.arrive(Origin::default(), tokio::task::yield_now());
        let (arrived, ended) = tokio::join!(arriving, async { door.arrivals.end_one() });
        assert!(arrived.is_ok());
        assert!(!ended);
        let waiting = door.arrive(Origin::default(), std::future::pending::<()>());
        let end = async {
            while !door.arrivals.end_one() {
                tokio::task::yield_now().await;
            }
        };
        assert_eq!(tokio::join!(waiting, end).0.unwrap_err().code, Code::Overloaded);
    }

    #[tokio::test]
    async fn a_waiter_that_leaves_frees_its_place() {
        let door = Door::new(1, 1);
        let first = door.enter().await;
        {
            let leaver = door.enter();
            tokio::pin!(leaver);
            assert!(futures_poll(leaver.as_mut()).await.is_none());
        }
        assert_eq!(door.load(), (1, 0));
        drop(first);
        door.enter().await;
    }

    /// Many requests, most of them abandoned at a random moment: no permit is lost and nobody waits for ever.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn loses_nothing_under_cancellation() {
        let door = Arc::new(Door::new(3, 10_000));
        let tasks: Vec<_> = (0..2_000u64)
            .map(|n| {
                let door = door.clone();
                tokio::spawn(async move {
                    let patience = Duration::from_micros(n * 7919 % 3000);
                    let work = async {
                        let _permit = door.enter().await;
                        assert!(door.load().0 <= 3);
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
        assert_eq!(door.load(), (0, 0));
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
