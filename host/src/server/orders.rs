//! The operator's orders that are being carried out.
//!
//! Place in the flow: an order takes a place when it begins and holds it to its end, also if its client has
//! gone; a stop takes no more and waits for those that have begun.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// More than there are connections to the operator's address.
const MOST: u32 = 4096;

/// The orders at work.
#[derive(Debug, Clone)]
pub struct Orders(Arc<Semaphore>);

impl Default for Orders {
    fn default() -> Orders {
        Orders(Arc::new(Semaphore::new(MOST as usize)))
    }
}

impl Orders {
    /// A place for an order. `None`: the process goes away.
    pub(super) fn begin(&self) -> Option<OwnedSemaphorePermit> {
        self.0.clone().try_acquire_owned().ok()
    }

    /// Takes no more, from the first poll on, and waits for those that have begun.
    pub async fn end(&self) {
        if let Ok(all) = self.0.acquire_many(MOST).await {
            all.forget();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[test]
    fn the_end_waits_for_what_has_begun_and_lets_nothing_begin() {
        let orders = Orders::default();
        let place = orders.begin();
        assert!(place.is_some());
        let mut end = std::pin::pin!(orders.end());
        let mut context = Context::from_waker(Waker::noop());
        assert!(end.as_mut().poll(&mut context).is_pending());
        assert!(orders.begin().is_none());
        drop(place);
        assert_eq!(end.as_mut().poll(&mut context), Poll::Ready(()));
        assert!(orders.begin().is_none());
    }
}
