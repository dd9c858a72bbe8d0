//! Buckets in the memory of a thread, for unit tests.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::{Duration, Instant};

use super::{KvError, Result};

/// A value, and its end.
type Stored = (Vec<u8>, Option<Instant>);

thread_local! {
    /// By bucket and key.
    static VALUES: RefCell<BTreeMap<(String, String), Stored>> = RefCell::default();
}

#[derive(Debug)]
pub struct Bucket(String);

pub fn open(name: &str) -> Result<Bucket> {
    Ok(Bucket(name.to_owned()))
}

impl Bucket {
    fn place(&self, key: &str) -> (String, String) {
        (self.0.clone(), key.to_owned())
    }

    fn found(&self, key: &str) -> Option<Stored> {
        let found = VALUES.with_borrow(|values| values.get(&self.place(key)).cloned());
        found.filter(|(_, end)| end.is_none_or(|end| end > Instant::now()))
    }

    fn put(&self, key: &str, value: &[u8], end: Option<Instant>) {
        VALUES.with_borrow_mut(|values| values.insert(self.place(key), (value.to_vec(), end)));
    }

    pub fn get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        Ok(self.found(key).map(|(value, _)| value))
    }

    pub fn set(&self, key: &str, value: &[u8], ttl: Option<u64>) -> Result<()> {
        self.put(key, value, end(ttl));
        Ok(())
    }

    pub fn add(&self, key: &str, value: &[u8], ttl: Option<u64>) -> Result<bool> {
        let is_new = self.found(key).is_none();
        if is_new {
            self.put(key, value, end(ttl));
        }
        Ok(is_new)
    }

    pub fn increment(&self, key: &str, by: i64, ttl: Option<u64>) -> Result<i64> {
        let (value, end) = self.found(key).unwrap_or_else(|| (b"0".to_vec(), end(ttl)));
        let number = std::str::from_utf8(&value).ok().and_then(|text| text.parse::<i64>().ok());
        let sum = number.and_then(|number| number.checked_add(by));
        let none = || KvError::Invalid("the value is not a whole number of 64 bits".to_owned());
        let sum = sum.ok_or_else(none)?;
        self.put(key, sum.to_string().as_bytes(), end);
        Ok(sum)
    }

    pub fn swap(&self, key: &str, current: Option<&[u8]>, value: &[u8]) -> Result<bool> {
        let found = self.found(key);
        let is_same = found.as_ref().map(|(value, _)| value.as_slice()) == current;
        if is_same {
            self.put(key, value, found.and_then(|(_, end)| end));
        }
        Ok(is_same)
    }

    pub fn delete(&self, key: &str) -> Result<()> {
        VALUES.with_borrow_mut(|values| values.remove(&self.place(key)));
        Ok(())
    }

    pub fn keys(
        &self,
        prefix: &str,
        cursor: Option<&str>,
        limit: u32,
    ) -> Result<(Vec<String>, Option<String>)> {
        let from = cursor.map_or_else(
            || Bound::Included(self.place(prefix)),
            |cursor| Bound::Excluded(self.place(cursor)),
        );
        let mut keys: Vec<String> = VALUES.with_borrow(|values| {
            let range = values.range((from, Bound::Unbounded)).map(|(place, _)| place);
            let own = range.take_while(|(bucket, key)| *bucket == self.0 && key.starts_with(prefix));
            own.map(|(_, key)| key.clone()).collect()
        });
        keys.retain(|key| self.found(key).is_some());
        let limit = usize::try_from(limit.max(1)).unwrap_or(usize::MAX);
        let has_more = keys.len() > limit;
        keys.truncate(limit);
        let cursor = keys.last().filter(|_| has_more).cloned();
        Ok((keys, cursor))
    }
}

fn end(ttl: Option<u64>) -> Option<Instant> {
    ttl.and_then(|ttl| Instant::now().checked_add(Duration::from_millis(ttl)))
}
