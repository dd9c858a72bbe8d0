//! The budget of the process for what clients send and get: bodies, tensors and answers.
//!
//! Place in the flow: wherever bytes of a request or an answer come into being. In: how many there will be,
//! and whose they are, an [`Account`]. Out: a [`Charge`], mostly inside the [`Bytes`] themselves, or
//! `overloaded`.
//! Invariants: all charges together are at most the budget; each is taken before its bytes are there, where
//! their length is known, and given back with the last reference to them. Where there are several endpoints,
//! each may hold as much as is free then (dynamic thresholds, Choudhury and Hahne 1998): one that is flooded
//! takes half, and what is left is for those that hold less. Less than [`COUNTED`] bytes cost nothing and are
//! not counted: the places for requests and connections bound them.

mod huge_pages;
mod ledgers;
mod machine;

use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

pub use self::ledgers::EndpointAccount;
pub use self::machine::budget as of_machine;
use crate::blocking;
use crate::error::{Code, RequestError, Stage};
use crate::tensor::Tensor;

/// Fewer bytes in one piece are not counted.
pub const COUNTED: usize = 4 << 10;
/// Charges that grow do it by this much.
const STEP: usize = 64 << 10;
/// Bytes from this length on are freed off the workers.
const LONG: usize = 4 << 20;
/// A budget from which on it is speed that matters, and not what huge pages take besides.
const AMPLE: usize = 4 << 30;
/// The part of the budget that an endpoint may keep beyond its requests: one in so many.
const KEPT: usize = 8;

/// The budget of this process; without a bound until [`set_budget`].
static PROCESS: Budget = Budget::new();
/// Of requests that no endpoint has yet.
static UNKNOWN: Ledger = Ledger::new(&PROCESS);
/// Of requests that no client has sent.
static UNBOUND: Ledger = Ledger::new(&NO_BOUND);
static NO_BOUND: Budget = Budget::new();

/// On a cache line of its own.
#[derive(Debug)]
#[repr(align(128))]
struct Count(AtomicUsize);

#[derive(Debug)]
struct Budget {
    most: AtomicUsize,
    /// Endpoints that there are now.
    endpoints: AtomicUsize,
    used: Count,
}

impl Budget {
    const fn new() -> Budget {
        Budget {
            most: AtomicUsize::new(usize::MAX),
            endpoints: AtomicUsize::new(0),
            used: Count(AtomicUsize::new(0)),
        }
    }
}

#[derive(Debug)]
struct Ledger {
    budget: &'static Budget,
    held: Count,
}

impl Ledger {
    const fn new(budget: &'static Budget) -> Ledger {
        Ledger { budget, held: Count(AtomicUsize::new(0)) }
    }

    fn is_empty(&self) -> bool {
        self.held.0.load(Ordering::Relaxed) == 0
    }
}

/// Sets the budget of the process, in bytes. One that is small is held without huge pages.
pub fn set_budget(bytes: usize) {
    if bytes < AMPLE {
        huge_pages::avoid();
    }
    PROCESS.most.store(bytes, Ordering::Relaxed);
}

/// There is no room for so many bytes now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exhausted;

impl Exhausted {
    /// The caller's error: 503, and another try helps.
    pub fn at(self, stage: Stage) -> RequestError {
        let message = "bodies, tensors and answers take all memory that there is for them";
        RequestError::new(Code::Overloaded, stage, message)
    }
}

/// The bytes that one endpoint holds of the budget; see [`EndpointAccount`].
#[derive(Debug, Clone, Copy)]
pub struct Account(&'static Ledger);

impl Default for Account {
    /// The account of requests that no client has sent: without a bound.
    fn default() -> Account {
        Account(&UNBOUND)
    }
}

impl Account {
    /// That of requests whose endpoint is not known yet.
    #[inline]
    pub fn unknown() -> Account {
        Account(&UNKNOWN)
    }

    /// That of one more endpoint.
    fn opened(budget: &'static Budget) -> Account {
        budget.endpoints.fetch_add(1, Ordering::Relaxed);
        Account(Box::leak(Box::new(Ledger::new(budget))))
    }

    /// The only one of a budget of its own, for tests.
    #[doc(hidden)]
    pub fn alone(budget: usize) -> Account {
        let process: &'static Budget = Box::leak(Box::new(Budget::new()));
        process.most.store(budget, Ordering::Relaxed);
        Account::opened(process)
    }

    /// Bytes that are held.
    #[inline]
    pub fn held(self) -> usize {
        self.0.held.0.load(Ordering::Relaxed)
    }

    /// A charge of nothing yet.
    #[inline]
    pub fn open(self) -> Charge {
        Charge { account: self, bytes: 0 }
    }

    /// Takes so many bytes.
    ///
    /// # Errors
    /// [`Exhausted`].
    pub fn take(self, bytes: usize) -> Result<Charge, Exhausted> {
        let mut charge = self.open();
        charge.grow(bytes).map(|()| charge)
    }

    /// Takes what these bytes are, until the last reference to them is gone.
    ///
    /// # Errors
    /// [`Exhausted`].
    pub fn own(self, bytes: Bytes) -> Result<Bytes, Exhausted> {
        if bytes.len() < COUNTED {
            return Ok(bytes);
        }
        Ok(self.take(bytes.len())?.own(bytes))
    }

    /// The same of the data of tensors.
    ///
    /// # Errors
    /// [`Exhausted`].
    pub fn own_tensors(self, tensors: &mut [Tensor]) -> Result<(), Exhausted> {
        for tensor in tensors {
            if tensor.data.len() >= COUNTED {
                tensor.data = self.own(std::mem::take(&mut tensor.data))?;
            }
        }
        Ok(())
    }

    /// Whether so many bytes may be kept beyond the request that they are of.
    pub fn may_keep(self, bytes: usize) -> bool {
        bytes < COUNTED
            || self.held().saturating_add(bytes) <= self.0.budget.most.load(Ordering::Relaxed) / KEPT
    }

    fn try_take(self, bytes: usize) -> bool {
        let Ledger { budget, held } = self.0;
        let most = budget.most.load(Ordering::Relaxed);
        let own = held.0.load(Ordering::Relaxed).saturating_add(bytes);
        let is_alone = budget.endpoints.load(Ordering::Relaxed) <= 1;
        let take = |used: usize| {
            let used = used.checked_add(bytes)?;
            let free = most.checked_sub(used)?;
            (is_alone || own <= free).then_some(used)
        };
        let is_taken = budget.used.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok();
        if is_taken {
            held.0.fetch_add(bytes, Ordering::Relaxed);
        }
        is_taken
    }

    fn release(self, bytes: usize) {
        self.0.held.0.fetch_sub(bytes, Ordering::Relaxed);
        self.0.budget.used.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Bytes that are taken of the budget until this is dropped.
#[derive(Debug)]
pub struct Charge {
    account: Account,
    bytes: usize,
}

impl Charge {
    /// Bytes that it has taken.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes more, so that there are at least so many bytes; a little ahead, if there is room.
    ///
    /// # Errors
    /// [`Exhausted`]; what was taken before stays.
    pub fn grow(&mut self, bytes: usize) -> Result<(), Exhausted> {
        if bytes <= self.bytes || bytes < COUNTED {
            return Ok(());
        }
        let ahead =
            if self.bytes == 0 { bytes } else { bytes.checked_next_multiple_of(STEP).unwrap_or(bytes) };
        for target in [ahead, bytes] {
            if self.account.try_take(target - self.bytes) {
                self.bytes = target;
                return Ok(());
            }
        }
        Err(Exhausted)
    }

    /// Gives back what is more than so many bytes.
    pub fn shrink(&mut self, bytes: usize) {
        if let Some(more) = self.bytes.checked_sub(bytes).filter(|more| *more > 0) {
            self.bytes = bytes;
            self.account.release(more);
        }
    }

    /// Puts the charge into the bytes that it is for: it ends with the last reference to them.
    pub fn own(mut self, bytes: Bytes) -> Bytes {
        if bytes.len() < COUNTED {
            return bytes;
        }
        self.shrink(bytes.len());
        Bytes::from_owner(Owned { bytes, charge: Some(self) })
    }

    /// Puts the charge into the data of tensors that are made by now. `part_of`: bytes that are charged
    /// already; what is a part of them is not charged again.
    ///
    /// # Errors
    /// [`Exhausted`], if they are more than was taken.
    pub fn own_tensors(mut self, tensors: &mut [Tensor], part_of: &[u8]) -> Result<(), Exhausted> {
        let of = part_of.as_ptr_range();
        for tensor in tensors {
            let length = tensor.data.len();
            if length < COUNTED || of.contains(&tensor.data.as_ptr()) {
                continue;
            }
            if self.bytes < length {
                self.grow(length)?;
            }
            self.bytes -= length;
            let part = Charge { account: self.account, bytes: length };
            tensor.data = part.own(std::mem::take(&mut tensor.data));
        }
        Ok(())
    }
}

/// Bytes and what they are charged.
struct Owned {
    bytes: Bytes,
    /// Until it is dropped.
    charge: Option<Charge>,
}

impl AsRef<[u8]> for Owned {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        let parts = (std::mem::take(&mut self.bytes), self.charge.take());
        // The kernel takes a while to take so many pages back.
        if parts.0.len() >= LONG {
            blocking::in_background(move || drop(parts));
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.account.release(self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::tensor::Datatype;

    const MIB: usize = 1 << 20;

    fn accounts<const N: usize>(budget: usize) -> [Account; N] {
        let process: &'static Budget = Box::leak(Box::new(Budget::new()));
        process.most.store(budget, Ordering::Relaxed);
        [(); N].map(|()| Account::opened(process))
    }

    fn used(account: Account) -> usize {
        account.0.budget.used.0.load(Ordering::Relaxed)
    }

    #[test]
    fn all_charges_together_are_within_the_budget() {
        let [only] = accounts(4 * MIB);
        let first = only.take(3 * MIB).unwrap();
        assert_eq!(only.take(MIB + 1).err(), Some(Exhausted));
        let second = only.take(MIB).unwrap();
        assert_eq!((used(only), only.held()), (4 * MIB, 4 * MIB));
        assert_eq!(only.take(COUNTED).err(), Some(Exhausted));
        assert_eq!(only.take(COUNTED - 1).unwrap().bytes(), 0);
        drop((first, second));
        assert_eq!((used(only), only.held()), (0, 0));
    }

    #[test]
    fn one_flood_leaves_half_to_those_that_hold_less() {
        let [flooded, neighbour, third] = accounts(64 * MIB);
        let mut flood: Vec<_> = std::iter::from_fn(|| flooded.take(MIB).ok()).collect();
        assert_eq!(flood.len(), 32);
        let other: Vec<_> = std::iter::from_fn(|| neighbour.take(MIB).ok()).collect();
        assert_eq!(other.len(), 16);
        third.take(8 * MIB).unwrap();
        // What is given back goes to the one that holds less.
        flood.truncate(24);
        assert_eq!(flooded.take(COUNTED).err(), Some(Exhausted));
        assert!(third.take(12 * MIB).is_ok());
        drop(other);
        assert_eq!(used(flooded), flooded.held());
    }

    #[test]
    fn a_charge_grows_ahead_and_shrinks_to_its_bytes() {
        let [only] = accounts(MIB);
        let mut charge = only.open();
        charge.grow(COUNTED - 1).unwrap();
        assert_eq!(charge.bytes(), 0);
        charge.grow(COUNTED).unwrap();
        charge.grow(COUNTED + 1).unwrap();
        assert_eq!(charge.bytes(), STEP);
        charge.grow(MIB - 1).unwrap();
        let rest = MIB - charge.bytes();
        assert_eq!(charge.grow(MIB + 1), Err(Exhausted));
        assert!(rest < STEP);
        let bytes = charge.own(Bytes::from(vec![0; 2 * COUNTED]));
        assert_eq!(only.held(), 2 * COUNTED);
        let part = bytes.slice(..1);
        drop(bytes);
        assert_eq!(only.held(), 2 * COUNTED);
        drop(part);
        assert_eq!(only.held(), 0);
    }

    #[test]
    fn tensors_are_charged_once() {
        let [only] = accounts(MIB);
        let body = only.own(Bytes::from(vec![0; 4 * COUNTED])).unwrap();
        let tensor = |data: Bytes| {
            Tensor::new(Arc::from("x"), Datatype::Uint8, vec![data.len() as u64], data).unwrap()
        };
        let mut tensors = [tensor(body.slice(COUNTED..)), tensor(vec![1; 2 * COUNTED].into())];
        only.take(9 * COUNTED).unwrap().own_tensors(&mut tensors, &body).unwrap();
        assert_eq!(only.held(), 6 * COUNTED);
        let [first, second] = tensors;
        drop((body, second));
        assert_eq!(only.held(), 4 * COUNTED);
        drop(first);
        assert_eq!(only.held(), 0);
    }

    #[test]
    fn what_is_kept_is_an_eighth() {
        let [only] = accounts(8 * MIB);
        assert!(only.may_keep(MIB));
        assert!(!only.may_keep(MIB + 1));
        let _charge = only.take(MIB).unwrap();
        assert!(only.may_keep(COUNTED - 1) && !only.may_keep(COUNTED));
    }
}
