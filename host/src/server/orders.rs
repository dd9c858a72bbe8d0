//! The operator's orders that are being carried out.
//!
//! Place in the flow: an order takes a place when it begins and holds it to its end, also if its client has
//! gone; a stop takes no more and waits for those that have begun.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;

/// More than there can be.
const MOST: u32 = 1 << 28;

/// The orders at work.
#[derive(Debug, Clone)]
pub struct Orders {
    places: Arc<Semaphore>,
    is_closed: Arc<AtomicBool>,
}

impl Default for Orders {
    fn default() -> Orders {
        Orders { places: Arc::new(Semaphore::new(MOST as usize)), is_closed: Arc::default() }
    }
}

impl Orders {
    /// Carries an order out on a runtime, to its end. `None`: the process goes away.
    pub(super) fn spawn<T: Send + 'static>(
        &self,
        runtime: &Handle,
        order: impl Future<Output = T> + Send + 'static,
    ) -> Option<JoinHandle<T>> {
        let place = self.begin()?;
        Some(runtime.spawn(async move {
            let _place = place;
            order.await
        }))
    }

    fn begin(&self) -> Option<OwnedSemaphorePermit> {
        let place = self.places.clone().try_acquire_owned().ok()?;
        // Looked at with the place in hand: the end waits for it, or it is given back.
        (!self.is_closed.load(Ordering::SeqCst)).then_some(place)
    }

    /// Takes no more.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
    }

    /// Waits for those that have begun before the close.
    pub async fn ended(&self) {
        if let Ok(all) = self.places.acquire_many(MOST).await {
            all.forget();
            self.places.close();
        }
    }

    /// Says in the log that some are cut off, if they are.
    pub fn tell_of_unended(&self) {
        if !self.have_ended() {
            tracing::warn!("an order of the operator's has not come to its end in time, and is cut off");
        }
    }

    fn have_ended(&self) -> bool {
        self.places.is_closed()
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
        orders.close();
        assert!(orders.begin().is_none());
        let mut end = std::pin::pin!(orders.ended());
        let mut context = Context::from_waker(Waker::noop());
        assert!(end.as_mut().poll(&mut context).is_pending());
        assert!(!orders.have_ended());
        drop(place);
        assert_eq!(end.as_mut().poll(&mut context), Poll::Ready(()));
        assert!(orders.have_ended() && orders.begin().is_none());
    }
}
