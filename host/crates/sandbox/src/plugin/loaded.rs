//! Compiled code that is loaded, so that endpoints with the same handler, or the same interpreter, share it.
//!
//! Place in the flow: before the compiler and its cache. In: the digest of a component or a core module, and
//! how to get its code. Out: the code, loaded now or before. Never on the request path.
//! Invariants: of one component or module there is one copy while anything is made from it, and none after;
//! what several ask for at once is compiled once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Code of one kind that is loaded in the process.
pub(super) struct Loaded<T>(Mutex<HashMap<Arc<str>, Slot<T>>>);

/// Held while its code is compiled.
type Slot<T> = Arc<Mutex<Weak<T>>>;

impl<T> Default for Loaded<T> {
    fn default() -> Loaded<T> {
        Loaded(Mutex::default())
    }
}

impl<T> Loaded<T> {
    /// The code with this digest; `load` brings it if it is not there.
    ///
    /// # Errors
    /// Those of `load`.
    pub(super) fn get(
        &self,
        digest: &Arc<str>,
        load: impl FnOnce() -> wasmtime::Result<T>,
    ) -> wasmtime::Result<Arc<T>> {
        let slot = {
            let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // Now and then, so that it costs nothing on the average.
            if slots.len().is_power_of_two() {
                slots.retain(|_, slot| Arc::strong_count(slot) > 1 || is_in_use(slot));
            }
            slots.entry(digest.clone()).or_default().clone()
        };
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(loaded) = slot.upgrade() {
            return Ok(loaded);
        }
        let loaded = Arc::new(load()?);
        *slot = Arc::downgrade(&loaded);
        Ok(loaded)
    }
}

/// For a slot that is held here only, so the lock is free.
fn is_in_use<T>(slot: &Slot<T>) -> bool {
    slot.try_lock().is_ok_and(|loaded| loaded.strong_count() > 0)
}
