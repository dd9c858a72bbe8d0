//! The calls of a store that a handler makes.
//!
//! Place in the flow: `plugin/kv.rs` asks here before it asks the store. In: an operation on a bucket. Out:
//! its answer, where an earlier run or a recording has it; else the call is made, and its answer noted.
//! Invariants: calls stand in the order in which the handler made them; each known answer is given once; a
//! replay that asks for anything else than what was recorded has diverged.

use super::calls::{NOT_KEPT, shown};
use super::{HostCallLog, HostCallResult};
use crate::kv::{KvCall, KvOp, KvOutcome};

/// The way of a handler's call of a store.
pub enum KvSource {
    /// The earlier run had this answer.
    Known(KvOutcome),
    /// The recorded one had.
    Recorded(KvOutcome),
    /// The store is to be asked, and the answer noted under this number.
    Live(usize),
    /// In a replay: the recorded handler was stopped while it waited.
    CutOff,
    /// In a replay: the recorded handler asked for something else.
    Diverged,
}

impl HostCallLog {
    /// The handler asks this of a bucket.
    pub(in crate::plugin) fn kv_called(&self, bucket: &str, op: &KvOp) -> KvSource {
        let mut lists = self.own.lock();
        let number = lists.kv.len();
        if self.answers.is_some() {
            return self.recorded_kv(bucket, op);
        }
        let known = self.known.as_ref().and_then(|known| {
            let mut calls = known.kv.iter().enumerate();
            calls.find(|(number, call)| call.is_same(bucket, op) && !lists.given_kv.contains(number))
        });
        if let Some((given, call @ KvCall { answer: Some(answer), .. })) = known {
            lists.given_kv.insert(given);
            // Another run may be given this one's calls.
            if self.budget.take(call.size()) {
                lists.kv.push(call.clone());
            }
            return KvSource::Known(answer.clone());
        }
        if self.is_of_instance {
            self.note(HostCallResult::Kv(number));
        }
        let call = KvCall { bucket: bucket.to_owned(), op: op.clone(), answer: None };
        if !self.budget.take(call.size()) {
            return KvSource::Live(NOT_KEPT);
        }
        lists.kv.push(call);
        KvSource::Live(number)
    }

    /// The store's answer to the call of this number.
    pub(in crate::plugin) fn kv_answered(&self, number: usize, outcome: &KvOutcome) {
        let mut lists = self.own.lock();
        let Some(call) = lists.kv.get_mut(number) else { return };
        let before = call.size();
        call.answer = Some(outcome.clone());
        if !self.budget.take(call.size().saturating_sub(before)) {
            call.answer = None;
        }
    }

    /// The calls of the store.
    pub fn kv(&self) -> Vec<KvCall> {
        self.own.lock().kv.clone()
    }

    fn recorded_kv(&self, bucket: &str, op: &KvOp) -> KvSource {
        const NAME: &str = "an answer of the store";
        let number = match self.next_number(NAME, |draw| match draw {
            HostCallResult::Kv(number) => Some(*number),
            _ => None,
        }) {
            Ok(number) => number,
            Err(true) => return KvSource::CutOff,
            Err(false) => return KvSource::Diverged,
        };
        let Some(recorded) = self.answers.as_ref().and_then(|answers| answers.kv.get(number)) else {
            self.diverged(format!("asks for {NAME}, and the recording has lost it"));
            return KvSource::Diverged;
        };
        if !recorded.is_same(bucket, op) {
            let words = |bucket: &str, op: &KvOp| {
                let key = op.keys().next().unwrap_or_default();
                format!("{} `{}` of `{}`", op.name(), shown(key), shown(bucket))
            };
            let (now, then) = (words(bucket, op), words(&recorded.bucket, &recorded.op));
            self.diverged(match now == then {
                true => format!("does {now} with other values than the recorded one"),
                false => format!("does {now} where the recorded one did {then}"),
            });
            return KvSource::Diverged;
        }
        recorded.answer.clone().map_or(KvSource::CutOff, KvSource::Recorded)
    }
}
