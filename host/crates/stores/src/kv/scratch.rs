//! What a run writes that must not write: values that are seen by itself alone, and gone with it.
//!
//! Place in the flow: between a handler and its buckets, in every run that is not a client's request: the
//! smoke test, the gate, a shadow, `host run`. In: its operations. Out: answers as if they had been done.
//! Invariants: nothing of it reaches the store; it holds no more than its [`Allowance`].

use std::collections::BTreeMap;

use super::{
    Bucket, EndpointKv, KvAnswer, KvError, KvOp, KvOutcome, KvValue, MOST_KEYS, end, now, number, sum,
};
use crate::stores::allowance::{Allowance, ENTRY};

/// The values of one run, by their places; `None` for what it has removed.
#[derive(Default)]
pub struct Scratch {
    written: BTreeMap<Vec<u8>, Option<(KvValue, Option<u64>)>>,
    allowance: Allowance,
}

impl Scratch {
    /// Does this with the bucket, as far as the run can tell.
    ///
    /// # Errors
    /// As of [`EndpointKv::call`].
    pub async fn call(&mut self, kv: &EndpointKv, bucket: &Bucket, op: KvOp) -> KvOutcome {
        kv.check(&op)?;
        match op {
            KvOp::Get { key } => {
                Ok(KvAnswer::Value(self.get(kv, bucket, &key).await?.map(|(value, _)| value)))
            }
            KvOp::Set { key, value, ttl } => self.put(bucket, &key, value, end(ttl)),
            KvOp::Add { key, value, ttl } => {
                let is_new = self.get(kv, bucket, &key).await?.is_none();
                if is_new {
                    self.put(bucket, &key, value, end(ttl))?;
                }
                Ok(KvAnswer::Was(is_new))
            }
            KvOp::Increment { key, by, ttl } => {
                let (before, end) = match self.get(kv, bucket, &key).await? {
                    Some((value, end)) => (number(&value.0)?, end),
                    None => (0, end(ttl)),
                };
                let after = sum(before, by)?;
                self.put(bucket, &key, KvValue(after.to_string().into_bytes()), end)?;
                Ok(KvAnswer::Number(after))
            }
            KvOp::Swap { key, current, value } => {
                let found = self.get(kv, bucket, &key).await?;
                let end = found.as_ref().and_then(|(_, end)| *end);
                let is_same = found.map(|(value, _)| value) == current;
                if is_same {
                    self.put(bucket, &key, value, end)?;
                }
                Ok(KvAnswer::Was(is_same))
            }
            KvOp::Delete { key } => self.remove(bucket, &key),
            KvOp::SetMany { pairs } => {
                for (key, value) in pairs {
                    self.put(bucket, &key, value, None)?;
                }
                Ok(KvAnswer::Done)
            }
            KvOp::DeleteMany { keys } => {
                for key in keys {
                    self.remove(bucket, &key)?;
                }
                Ok(KvAnswer::Done)
            }
            KvOp::Keys { prefix, cursor, skip, limit } => {
                self.keys(kv, bucket, prefix, cursor, skip, limit).await
            }
        }
    }

    /// A value, and its end where this run has set it.
    async fn get(
        &self,
        kv: &EndpointKv,
        bucket: &Bucket,
        key: &str,
    ) -> Result<Option<(KvValue, Option<u64>)>, KvError> {
        if let Some(own) = self.written.get(&bucket.place(key)) {
            return Ok(own.clone().filter(|(_, end)| end.is_none_or(|end| end > now())));
        }
        match kv.call(bucket, KvOp::Get { key: key.to_owned() }).await? {
            KvAnswer::Value(value) => Ok(value.map(|value| (value, None))),
            _ => Ok(None),
        }
    }

    fn put(&mut self, bucket: &Bucket, key: &str, value: KvValue, end: Option<u64>) -> KvOutcome {
        self.charge(key.len() + value.0.len() + ENTRY)?;
        self.written.insert(bucket.place(key), Some((value, end)));
        Ok(KvAnswer::Done)
    }

    fn remove(&mut self, bucket: &Bucket, key: &str) -> KvOutcome {
        let place = bucket.place(key);
        if !self.written.contains_key(&place) {
            self.charge(key.len() + ENTRY)?;
        }
        self.written.insert(place, None);
        Ok(KvAnswer::Done)
    }

    fn charge(&mut self, bytes: usize) -> Result<(), KvError> {
        self.allowance.charge(bytes).map_err(KvError::Limit)
    }

    async fn keys(
        &self,
        kv: &EndpointKv,
        bucket: &Bucket,
        prefix: String,
        cursor: Option<String>,
        skip: u64,
        limit: u32,
    ) -> KvOutcome {
        let limit = limit.clamp(1, MOST_KEYS) as usize;
        let within = bucket.place(&prefix);
        let after = cursor.as_ref().map(|cursor| bucket.place(cursor));
        let is_within = |place: &[u8]| {
            place.starts_with(&within) && after.as_ref().is_none_or(|after| place > after.as_slice())
        };
        let mut skip = usize::try_from(skip).unwrap_or(usize::MAX);
        let (mut from, mut found) = (cursor.clone(), Vec::new());
        loop {
            let page = KvOp::Keys { prefix: prefix.clone(), cursor: from.clone(), skip: 0, limit: MOST_KEYS };
            let KvAnswer::Keys(stored, next) = kv.call(bucket, page).await? else { break };
            // Own keys belong to this page up to its last key, or to the last page.
            let begin = from.as_ref().map(|from| bucket.place(from));
            let end = next.as_ref().map(|next| bucket.place(next));
            let own = self.written.iter().filter(|(place, value)| {
                value.is_some()
                    && is_within(place)
                    && begin.as_ref().is_none_or(|begin| *place > begin)
                    && end.as_ref().is_none_or(|end| *place <= end)
            });
            let own = own.filter_map(|(place, _)| place.strip_prefix(bucket.prefix.as_bytes()));
            let mut keys: Vec<String> = own.map(|key| String::from_utf8_lossy(key).into_owned()).collect();
            keys.extend(stored.into_iter().filter(|key| !self.written.contains_key(&bucket.place(key))));
            keys.sort();
            let skipped = skip.min(keys.len());
            skip -= skipped;
            found.extend(keys.into_iter().skip(skipped));
            if found.len() > limit {
                found.truncate(limit);
                let cursor = found.last().cloned();
                return Ok(KvAnswer::Keys(found, cursor));
            }
            match next {
                Some(next) => from = Some(next),
                None => break,
            }
        }
        Ok(KvAnswer::Keys(found, None))
    }
}
