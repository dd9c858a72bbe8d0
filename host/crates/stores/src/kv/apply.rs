//! One operation that writes, done to the tables of a transaction.
//!
//! Place in the flow: `embedded.rs` calls it for every operation of a transaction. In: the tables, the
//! bucket, the operation. Out: its answer.
//! Invariants: an operation that is refused has changed nothing; for every value with an end there is one
//! entry in `ends`, and none else; `usage` is the sum of what is stored, those among it whose time is over
//! and that are not removed yet.

use std::collections::HashMap;

use redb::{ReadableTable as _, StorageError, Table, TableDefinition, WriteTransaction};

use super::{Bucket, KvAnswer, KvError, KvOp, KvOutcome, KvValue, Quota, end, now, number, sum};

/// The values by their places, [`encoded`].
pub(super) const VALUES: TableDefinition<'static, &[u8], &[u8]> = TableDefinition::new("values");
/// The places of values that have an end, each behind the eight bytes of its end.
const ENDS: TableDefinition<'static, &[u8], ()> = TableDefinition::new("ends");
/// Bytes and entries of each owner.
const USAGE: TableDefinition<'static, &[u8], (u64, u64)> = TableDefinition::new("usage");

/// Most values removed at once because their time is over.
const SWEEP: usize = 2000;

/// The tables of one transaction.
pub(super) struct Tables<'t> {
    values: Table<'t, &'static [u8], &'static [u8]>,
    ends: Table<'t, &'static [u8], ()>,
    usage: Table<'t, &'static [u8], (u64, u64)>,
}

/// A stored value.
struct Stored {
    data: Vec<u8>,
    end: Option<u64>,
}

/// An operation that was not done, or a store that has failed.
pub(super) enum Failure {
    /// The rest of the transaction goes on.
    Refused(KvError),
    /// The transaction is lost.
    Store(StorageError),
}

impl From<StorageError> for Failure {
    fn from(error: StorageError) -> Failure {
        Failure::Store(error)
    }
}

impl From<KvError> for Failure {
    fn from(error: KvError) -> Failure {
        Failure::Refused(error)
    }
}

/// A value with its end before it, 0 for none.
fn encoded(data: &[u8], end: Option<u64>) -> Vec<u8> {
    [&end.unwrap_or(0).to_be_bytes(), data].concat()
}

/// The value and its end.
pub(super) fn decoded(stored: &[u8]) -> (&[u8], Option<u64>) {
    match stored.split_first_chunk() {
        Some((end, data)) => (data, Some(u64::from_be_bytes(*end)).filter(|end| *end > 0)),
        None => (&[], None),
    }
}

/// Whether a value with this end is over.
pub(super) fn is_over(end: Option<u64>, now: u64) -> bool {
    end.is_some_and(|end| end <= now)
}

impl<'t> Tables<'t> {
    pub(super) fn open(transaction: &'t WriteTransaction) -> Result<Tables<'t>, redb::TableError> {
        Ok(Tables {
            values: transaction.open_table(VALUES)?,
            ends: transaction.open_table(ENDS)?,
            usage: transaction.open_table(USAGE)?,
        })
    }

    /// Does an operation.
    pub(super) fn apply(&mut self, bucket: &Bucket, op: &KvOp, quota: Quota) -> Result<KvAnswer, Failure> {
        let now = now();
        match op {
            KvOp::Set { key, value, ttl } => {
                self.put(bucket, &[(bucket.place(key), &value.0, end(*ttl))], quota)?;
                Ok(KvAnswer::Done)
            }
            KvOp::Add { key, value, ttl } => {
                let place = bucket.place(key);
                if self.live(&place, now)?.is_some() {
                    return Ok(KvAnswer::Was(false));
                }
                self.put(bucket, &[(place, &value.0, end(*ttl))], quota)?;
                Ok(KvAnswer::Was(true))
            }
            KvOp::Increment { key, by, ttl } => {
                let place = bucket.place(key);
                let (before, end) = match self.live(&place, now)? {
                    Some(stored) => (number(&stored.data)?, stored.end),
                    None => (0, end(*ttl)),
                };
                let after = sum(before, *by)?;
                self.put(bucket, &[(place, after.to_string().as_bytes(), end)], quota)?;
                Ok(KvAnswer::Number(after))
            }
            KvOp::Swap { key, current, value } => {
                let place = bucket.place(key);
                let stored = self.live(&place, now)?;
                let (found, end) = stored.map_or((None, None), |it| (Some(KvValue(it.data)), it.end));
                if found != *current {
                    return Ok(KvAnswer::Was(false));
                }
                self.put(bucket, &[(place, &value.0, end)], quota)?;
                Ok(KvAnswer::Was(true))
            }
            KvOp::SetMany { pairs } => {
                // The last one of a key wins.
                let last: HashMap<&str, &[u8]> =
                    pairs.iter().map(|(key, value)| (key.as_str(), value.0.as_slice())).collect();
                let put = |(key, value): (&str, _)| (bucket.place(key), value, None);
                let puts: Vec<_> = last.into_iter().map(put).collect();
                self.put(bucket, &puts, quota)?;
                Ok(KvAnswer::Done)
            }
            KvOp::Delete { key } => {
                self.remove(&bucket.place(key))?;
                Ok(KvAnswer::Done)
            }
            KvOp::DeleteMany { keys } => {
                for key in keys {
                    self.remove(&bucket.place(key))?;
                }
                Ok(KvAnswer::Done)
            }
            KvOp::Get { .. } | KvOp::Keys { .. } => {
                Err(KvError::Invalid("it writes nothing".to_owned()).into())
            }
        }
    }

    fn stored(&self, place: &[u8]) -> Result<Option<Stored>, StorageError> {
        Ok(self.values.get(place)?.map(|stored| {
            let (data, end) = decoded(stored.value());
            Stored { data: data.to_vec(), end }
        }))
    }

    fn live(&self, place: &[u8], now: u64) -> Result<Option<Stored>, StorageError> {
        Ok(self.stored(place)?.filter(|stored| !is_over(stored.end, now)))
    }

    fn used(&self, owner: &[u8]) -> Result<(u64, u64), StorageError> {
        Ok(self.usage.get(owner)?.map_or((0, 0), |used| used.value()))
    }

    /// Puts all of these, or none if they are too much together.
    fn put(
        &mut self,
        bucket: &Bucket,
        puts: &[(Vec<u8>, &[u8], Option<u64>)],
        quota: Quota,
    ) -> Result<(), Failure> {
        let own = bucket.prefix.len();
        let size = |place: &[u8], data: usize| (place.len().saturating_sub(own) + data) as u64;
        let mut swept = false;
        let (used, old) = loop {
            let mut used = self.used(bucket.owner.as_bytes())?;
            let mut old = Vec::with_capacity(puts.len());
            for (place, data, _) in puts {
                let stored = self.stored(place)?;
                let before = stored.as_ref().map_or((0, 0), |it| (size(place, it.data.len()), 1));
                used.0 = (used.0 + size(place, data.len())).saturating_sub(before.0);
                used.1 = (used.1 + 1).saturating_sub(before.1);
                old.push(stored.and_then(|it| it.end));
            }
            let beyond = if used.0 > quota.bytes {
                format!("more than {} bytes, `limits.kv_bytes`", quota.bytes)
            } else if used.1 > quota.entries {
                format!("more than {} keys, `limits.kv_entries`", quota.entries)
            } else {
                break (used, old);
            };
            // What is over makes room first.
            if swept || self.sweep(now())? == 0 {
                return Err(KvError::Limit(format!("the buckets would hold {beyond}")).into());
            }
            swept = true;
        };
        for ((place, data, end), old) in puts.iter().zip(old) {
            if let Some(old) = old {
                self.ends.remove(dated(old, place).as_slice())?;
            }
            if let Some(end) = end {
                self.ends.insert(dated(*end, place).as_slice(), ())?;
            }
            self.values.insert(place.as_slice(), encoded(data, *end).as_slice())?;
        }
        self.usage.insert(bucket.owner.as_bytes(), used)?;
        Ok(())
    }

    fn remove(&mut self, place: &[u8]) -> Result<(), StorageError> {
        let Some(Stored { data, end }) = self.stored(place)? else { return Ok(()) };
        self.values.remove(place)?;
        if let Some(end) = end {
            self.ends.remove(dated(end, place).as_slice())?;
        }
        // `OWNER NUL BUCKET NUL KEY`
        let mut parts = place.splitn(3, |byte| *byte == 0);
        let owner = parts.next().unwrap_or_default();
        let key = parts.nth(1).unwrap_or_default();
        let (bytes, entries) = self.used(owner)?;
        let left = (bytes.saturating_sub((key.len() + data.len()) as u64), entries.saturating_sub(1));
        if left.1 == 0 {
            self.usage.remove(owner)?;
        } else {
            self.usage.insert(owner, left)?;
        }
        Ok(())
    }

    /// Removes values whose time is over; gives how many.
    pub(super) fn sweep(&mut self, now: u64) -> Result<usize, StorageError> {
        let mut over = Vec::new();
        for entry in self.ends.iter()?.take(SWEEP) {
            let (dated, ()) = entry.map(|(dated, _)| (dated.value().to_vec(), ()))?;
            match dated.split_first_chunk() {
                Some((end, place)) if u64::from_be_bytes(*end) <= now => over.push(place.to_vec()),
                _ => break,
            }
        }
        for place in &over {
            self.remove(place)?;
        }
        Ok(over.len())
    }

    /// When the next value is over.
    pub(super) fn next_end(&self) -> Result<Option<u64>, StorageError> {
        let first = self.ends.first()?;
        Ok(first.and_then(|(dated, _)| dated.value().first_chunk().copied().map(u64::from_be_bytes)))
    }
}

fn dated(end: u64, place: &[u8]) -> Vec<u8> {
    [&end.to_be_bytes(), place].concat()
}

/// The outcome for the handler; of a failed store none.
pub(super) fn outcome(applied: Result<KvAnswer, Failure>) -> Result<KvOutcome, StorageError> {
    match applied {
        Ok(answer) => Ok(Ok(answer)),
        Err(Failure::Refused(error)) => Ok(Err(error)),
        Err(Failure::Store(error)) => Err(error),
    }
}
