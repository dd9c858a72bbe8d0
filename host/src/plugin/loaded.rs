//! Components that are loaded, so that endpoints with the same handler share its code.
//!
//! Place in the flow: before the compiler and its cache. In: a component's digest, and how to get its code.
//! Out: the code, loaded now or before. Never on the request path.
//! Invariants: of one component there is one copy while anything is made from it, and none after; what
//! several ask for at once is compiled once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use wasmtime::component::Component;

/// The components of the process.
#[derive(Default)]
pub(super) struct Loaded(Mutex<HashMap<Arc<str>, Slot>>);

/// Held while its component is compiled.
type Slot = Arc<Mutex<Weak<Component>>>;

impl Loaded {
    /// The component with this digest; `load` brings it if it is not there.
    ///
    /// # Errors
    /// Those of `load`.
    pub(super) fn get(
        &self,
        digest: &Arc<str>,
        load: impl FnOnce() -> wasmtime::Result<Component>,
    ) -> wasmtime::Result<Arc<Component>> {
        let slot = {
            let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // Now and then, so that it costs nothing on the average.
            if slots.len().is_power_of_two() {
                slots.retain(|_, slot| Arc::strong_count(slot) > 1 || is_in_use(slot));
            }
            slots.entry(digest.clone()).or_default().clone()
        };
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(component) = slot.upgrade() {
            return Ok(component);
        }
        let component = Arc::new(load()?);
        *slot = Arc::downgrade(&component);
        Ok(component)
    }
}

/// For a slot that is held here only, so the lock is free.
fn is_in_use(slot: &Slot) -> bool {
    slot.try_lock().is_ok_and(|component| component.strong_count() > 0)
}
