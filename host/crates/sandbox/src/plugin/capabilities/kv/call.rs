//! An operation on a bucket, as the log of a run has it.
//!
//! Place in the flow: `buckets.rs` gives it to the log before it asks the store. In: an operation and its
//! answer. Out: whether two are the same, in words where they are not; a secret that shows by its name.

use crate::json::special;
use crate::keys;
use crate::kv::{KvAnswer, KvCall, KvOutcome, KvValue};
use crate::plugin::host_call_log::secrets::has_secret_member;
use crate::plugin::host_call_log::{LoggedCall, shown};

impl LoggedCall for KvCall {
    type Outcome = KvOutcome;

    const NAME: &'static str = "an answer of the store";

    fn is_same(&self, other: &KvCall) -> bool {
        self.is_same(&other.bucket, &other.op)
    }

    fn outcome(&self) -> Option<&KvOutcome> {
        self.answer.as_ref()
    }

    fn set_outcome(&mut self, outcome: Option<KvOutcome>) {
        self.answer = outcome;
    }

    fn size(&self) -> usize {
        self.size()
    }

    fn description(&self) -> String {
        let key = self.op.keys().next().unwrap_or_default();
        format!("{} `{}` of `{}`", self.op.name(), shown(key), shown(&self.bucket))
    }

    fn secret(&self) -> Option<&'static str> {
        if self.op.keys().any(|key| key.split([':', '/', '.']).any(keys::is_secret_name)) {
            return Some("a key of a value that the handler keeps");
        }
        let mut kept = self.op.values().chain(match &self.answer {
            Some(Ok(KvAnswer::Value(Some(value)))) => Some(value),
            _ => None,
        });
        let has_secret = |value: &KvValue| has_secret_member(&special::tree(&value.0));
        kept.any(has_secret).then_some("a value that the handler keeps")
    }
}
