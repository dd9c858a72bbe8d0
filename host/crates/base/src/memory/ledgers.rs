//! The ledgers of endpoints: one for each name, for as long as there is an endpoint of the name or something
//! is held of it.
//!
//! Place in the flow: an endpoint opens its account when it is made, and closes it when it is gone. In: its
//! name. Out: an [`Account`].
//! Invariant: ledgers are leaked, so that an account is copied without counting a reference, and used again:
//! they do not grow with the names that were served.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use super::{Account, Budget, Ledger, PROCESS};

static ENDPOINTS: Ledgers = Ledgers::new(&PROCESS);

/// As many as there were endpoints, and names of which something was held, at once.
#[derive(Debug)]
struct Ledgers {
    budget: &'static Budget,
    all: Mutex<AllLedgers>,
}

#[derive(Debug)]
struct AllLedgers {
    /// Of endpoints that there are, and of those that are gone and of which something is held.
    by_name: BTreeMap<String, Named>,
    /// Of no endpoint.
    free: Vec<&'static Ledger>,
}

#[derive(Debug)]
struct Named {
    ledger: &'static Ledger,
    /// The endpoints of the name: while one replaces another there are two.
    endpoints: usize,
}

impl Ledgers {
    const fn new(budget: &'static Budget) -> Ledgers {
        Ledgers { budget, all: Mutex::new(AllLedgers { by_name: BTreeMap::new(), free: Vec::new() }) }
    }

    fn open(&'static self, name: &str) -> EndpointAccount {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let AllLedgers { by_name, free } = &mut *all;
        if !by_name.contains_key(name) {
            by_name.retain(|_, named| {
                named.endpoints > 0 || !named.ledger.is_empty() || {
                    free.push(named.ledger);
                    false
                }
            });
        }
        let new = || Named {
            ledger: free.pop().unwrap_or_else(|| Box::leak(Box::new(Ledger::new(self.budget)))),
            endpoints: 0,
        };
        let named = by_name.entry(name.to_owned()).or_insert_with(new);
        if named.endpoints == 0 {
            self.budget.endpoints.fetch_add(1, Ordering::Relaxed);
        }
        named.endpoints += 1;
        EndpointAccount { ledgers: self, name: name.to_owned(), account: Account(named.ledger) }
    }

    fn close(&self, name: &str) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(named) = all.by_name.get_mut(name) {
            named.endpoints -= 1;
            if named.endpoints == 0 {
                self.budget.endpoints.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}

/// The account of an endpoint, for as long as there is the endpoint. An account that is used beyond that is
/// the next endpoint's, once nothing is held of it.
#[derive(Debug)]
pub struct EndpointAccount {
    ledgers: &'static Ledgers,
    name: String,
    account: Account,
}

impl EndpointAccount {
    /// That of the endpoint of this name; those of one name share one.
    pub fn open(name: &str) -> EndpointAccount {
        ENDPOINTS.open(name)
    }

    /// The account that its requests are charged to.
    pub fn account(&self) -> Account {
        self.account
    }
}

impl Drop for EndpointAccount {
    fn drop(&mut self) {
        self.ledgers.close(&self.name);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::Exhausted;
    use super::*;

    const MIB: usize = 1 << 20;

    fn ledgers(budget: usize) -> &'static Ledgers {
        let process: &'static Budget = Box::leak(Box::new(Budget::new()));
        process.most.store(budget, Ordering::Relaxed);
        Box::leak(Box::new(Ledgers::new(process)))
    }

    #[test]
    fn ledgers_do_not_grow_with_the_names_that_were_served() {
        let ledgers = ledgers(64 * MIB);
        let used = || ledgers.budget.used.0.load(Ordering::Relaxed);
        let stays = ledgers.open("stays");
        let gone = ledgers.open("gone");
        let held = gone.account().take(MIB).unwrap();
        drop(gone);
        let mut seen = BTreeSet::new();
        for number in 0..1000 {
            let endpoint = ledgers.open(&format!("name {number}"));
            assert_eq!(endpoint.account().held(), 0);
            endpoint.account().take(MIB).unwrap();
            seen.insert(std::ptr::from_ref(endpoint.account().0).addr());
        }
        assert_eq!(seen.len(), 1, "a ledger of which nothing is held is used again");
        let of = |name| ledgers.all.lock().unwrap().by_name.contains_key(name);
        assert!(of("stays") && of("gone"));
        // What was left is charged where it was taken, and the endpoint that comes back has it.
        let again = ledgers.open("gone");
        assert_eq!((again.account().held(), stays.account().held(), used()), (MIB, 0, MIB));
        drop((again, held));
        let last = ledgers.open("last");
        assert!(!of("gone") && of("last"));
        assert_eq!((last.account().held(), used()), (0, 0));
        assert_eq!(ledgers.all.lock().unwrap().by_name.len(), 2);
    }

    /// Half of the budget is left to others only while there are some.
    #[test]
    fn an_endpoint_that_is_alone_again_has_all_of_the_budget() {
        let ledgers = ledgers(8 * MIB);
        // One that replaces another of its name is not one more.
        let (only, again) = (ledgers.open("only"), ledgers.open("only"));
        assert!(only.account().take(8 * MIB).is_ok());
        drop(again);
        let other = ledgers.open("other");
        assert_eq!(only.account().take(8 * MIB).err(), Some(Exhausted));
        drop(other);
        assert!(only.account().take(8 * MIB).is_ok());
    }
}
