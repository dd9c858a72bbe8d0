//! Bodies that have begun and not come to their end.
//!
//! Place in the flow: an endpoint's admission queue and gRPC's intake keep a list each of what is arriving.
//! In: an [`Origin`] and the wait for the rest. Out: that wait's result; or, when all places are taken and
//! another request comes, the end of one of these waits. Who has most of them waiting loses the oldest: first
//! the address that has most, and of it the connection. So bodies that never come take no place from requests
//! that are there, and a client with many takes none from a client with few.
//! Invariant: a body that is there at once, the usual case, never comes here.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// Whose a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// The client's address.
    pub address: IpAddr,
    /// One of its connections: no two that are open have the same.
    pub connection: usize,
}

impl Default for Origin {
    fn default() -> Origin {
        Origin { address: IpAddr::V4(Ipv4Addr::UNSPECIFIED), connection: 0 }
    }
}

/// The least rate of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyRate {
    /// The time that a body of any length may take.
    pub timeout: Duration,
    /// Bytes a second that it has to come with beyond that.
    pub rate: u64,
}

impl BodyRate {
    /// When more has to have come of a body that began at `begun`, if `received` bytes are there.
    #[inline]
    pub fn deadline(&self, begun: Instant, received: usize) -> Instant {
        begun
            + self.timeout
            + Duration::from_secs(received as u64) / u32::try_from(self.rate.max(1)).unwrap_or(u32::MAX)
    }
}

/// The bodies that are arriving, in the order in which their waits began.
/// Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Arrivals(Arc<Mutex<Vec<Waiting>>>);

/// A body whose rest is waited for, and what ends the wait.
type Waiting = (Origin, Arc<Notify>);

impl Arrivals {
    /// Waits for `rest`; `None` if another request needs its place more.
    pub async fn wait<F: Future>(&self, origin: Origin, rest: F) -> Option<F::Output> {
        let arrival = self.begin(origin);
        tokio::select! {
            biased;
            output = rest => Some(output),
            () = arrival.ended() => None,
        }
    }

    /// Enters one, until it is dropped. For what cannot be a future; others [wait](Arrivals::wait).
    pub fn begin(&self, origin: Origin) -> Arrival {
        let ended = Arc::new(Notify::new());
        self.list().push((origin, ended.clone()));
        Arrival { arrivals: self.clone(), ended }
    }

    /// Ends one wait in favour of a request; `false` if there is none.
    pub fn end_one(&self) -> bool {
        let mut list = self.list();
        let Some(first) = first_to_end(list.iter().map(|(origin, _)| *origin)) else { return false };
        list.remove(first).1.notify_one();
        true
    }

    fn list(&self) -> MutexGuard<'_, Vec<(Origin, Arc<Notify>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Of these, the oldest first: the oldest of the address that has most, and of it of the connection.
pub fn first_to_end(all: impl Iterator<Item = Origin> + Clone) -> Option<usize> {
    let (mut addresses, mut connections) = (HashMap::new(), HashMap::new());
    for origin in all.clone() {
        *addresses.entry(origin.address).or_insert(0usize) += 1;
        *connections.entry(origin.connection).or_insert(0usize) += 1;
    }
    let of = |origin: Origin| (addresses.get(&origin.address), connections.get(&origin.connection));
    let most = all.clone().map(of).max()?;
    all.clone().position(|origin| of(origin) == most)
}

/// One body that is arriving.
#[derive(Debug)]
pub struct Arrival {
    arrivals: Arrivals,
    ended: Arc<Notify>,
}

impl Arrival {
    /// Waits until another request gets its place.
    pub fn ended(&self) -> impl Future<Output = ()> + Send + use<> {
        let ended = self.ended.clone();
        async move { ended.notified().await }
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        self.arrivals.list().retain(|(_, ended)| !Arc::ptr_eq(ended, &self.ended));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(address: u8, connection: usize) -> Origin {
        Origin { address: IpAddr::V4(Ipv4Addr::new(127, 0, 0, address)), connection }
    }

    #[test]
    fn the_oldest_of_those_with_most_is_ended_first() {
        let arrivals = Arrivals::default();
        let few = [arrivals.begin(origin(1, 1)), arrivals.begin(origin(1, 2))];
        let many: Vec<_> = [3, 4, 4, 5, 4].into_iter().map(|n| arrivals.begin(origin(2, n))).collect();
        let ended =
            |arrival: &Arrival| !arrivals.list().iter().any(|(_, it)| Arc::ptr_eq(it, &arrival.ended));
        for expected in [&many[1], &many[2], &many[0], &few[0]] {
            assert!(!ended(expected));
            assert!(arrivals.end_one());
            assert!(ended(expected));
        }
        drop((few, many));
        assert!(!arrivals.end_one());
    }

    #[tokio::test]
    async fn a_wait_ends_by_itself_or_for_another() {
        let arrivals = Arrivals::default();
        assert_eq!(arrivals.wait(Origin::default(), async { 1 }).await, Some(1));
        let waiting = arrivals.wait(Origin::default(), std::future::pending::<()>());
        let (waited, ended) = tokio::join!(waiting, async { arrivals.end_one() });
        assert_eq!((waited, ended), (None, true));
        let later = arrivals.wait(Origin::default(), tokio::task::yield_now());
        assert_eq!(later.await, Some(()));
        assert!(arrivals.list().is_empty());
    }

    #[test]
    fn a_body_gains_time_as_it_comes() {
        let body_rate = BodyRate { timeout: Duration::from_secs(5), rate: 1024 };
        let begun = Instant::now();
        assert_eq!(body_rate.deadline(begun, 0), begun + Duration::from_secs(5));
        assert_eq!(body_rate.deadline(begun, 10 << 10), begun + Duration::from_secs(15));
    }
}
