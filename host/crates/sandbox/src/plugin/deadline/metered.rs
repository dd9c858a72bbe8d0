//! A guest call while it is polled: its turn before, its time during, its end.
//!
//! Place in the flow: around every call of a guest's function. In: the future of the call, and its
//! [`Meter`]. Out: the output of the call.
//! Invariant: a turn ends with the poll that has it, however that ends.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use super::long_calls::{Kind, LongCallTracker};
use super::{Meter, blocking};
use crate::plugin::turns::Ticket;
use crate::request::until;

/// Waits for a guest call, while `meter` measures it, until `deadline` at the latest: what waits outside of
/// guest code is not looked at by anything else. `None` if it did not make it.
pub(in crate::plugin) async fn metered<F: Future>(
    meter: Arc<Meter>,
    deadline: Instant,
    call: Pin<&mut F>,
) -> Option<F::Output> {
    until(deadline, stream_metered(meter, call)).await
}

/// The same of a call whose waits other clocks limit.
pub(in crate::plugin) fn stream_metered<F: Future>(
    meter: Arc<Meter>,
    call: Pin<&mut F>,
) -> impl Future<Output = F::Output> + Unpin {
    Metered { call, meter, is_resumed: false, ticket: None, waits_since: None }
}

struct Metered<'a, F> {
    call: Pin<&'a mut F>,
    meter: Arc<Meter>,
    is_resumed: bool,
    /// Its place among calls that wait for a turn.
    ticket: Option<Ticket>,
    /// The tick from which on it has waited for one.
    waits_since: Option<u64>,
}

impl<F: Future> Future for Metered<'_, F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        let meter = &*this.meter;
        let kind = meter.long_calls.kind().or(this.ticket.as_ref().map(|_| Kind::Short));
        if let Some(kind) = kind {
            let since = *this.waits_since.get_or_insert_with(|| meter.scheduler.now());
            ready!(meter.poll_begin_turn(kind, &mut this.ticket, context));
            this.waits_since = None;
            meter.waited(since);
        }
        let has_turn = kind.is_some();
        let _turn = EndsTurn(meter);
        meter.scheduler.wake();
        if meter.long_calls.of_host.is_large(0) {
            blocking::leave_worker();
        }
        if this.is_resumed {
            meter.resume();
        }
        let sample = LongCallTracker::sample(has_turn);
        let poll = this.call.as_mut().poll(context);
        if let Some(begun) = sample {
            let charged = has_turn.then(|| meter.charged.swap(0, Ordering::Relaxed));
            meter.long_calls.polled(begun, charged);
        }
        if poll.is_pending() {
            meter.look_at_host();
            this.is_resumed = true;
            meter.pause();
        }
        poll
    }
}

impl<F> Drop for Metered<'_, F> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.meter.scheduler.turns().leave(&ticket);
        }
    }
}

/// Ends the turn of a poll, if it has one.
struct EndsTurn<'a>(&'a Meter);

impl Drop for EndsTurn<'_> {
    fn drop(&mut self) {
        self.0.end_turn();
    }
}
