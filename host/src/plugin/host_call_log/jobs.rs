//! What a handler asks of its endpoint's jobs.
//!
//! Place in the flow: `plugin/jobs.rs` asks here before it asks the store. In: an operation. Out: its answer,
//! where an earlier run or a recording has it; else the call is made, and its answer noted.
//! Invariants: as of `kv.rs`.

use super::calls::{NOT_KEPT, shown};
use super::{HostCallLog, HostCallResult};
use crate::jobs::handler::{JobCall, JobOp, JobOutcome};

/// The way of a handler's call for jobs.
pub enum JobSource {
    /// The earlier run had this answer.
    Known(JobOutcome),
    /// The recorded one had.
    Recorded(JobOutcome),
    /// The store is to be asked, and the answer noted under this number.
    Live(usize),
    /// In a replay: the recorded handler was stopped while it waited.
    CutOff,
    /// In a replay: the recorded handler asked for something else.
    Diverged,
}

impl HostCallLog {
    /// The handler asks this of the jobs.
    pub(in crate::plugin) fn jobs_called(&self, op: &JobOp) -> JobSource {
        let mut lists = self.own.lock();
        let number = lists.jobs.len();
        if self.answers.is_some() {
            return self.recorded_jobs(op);
        }
        let known = self.known.as_ref().and_then(|known| {
            let mut calls = known.jobs.iter().enumerate();
            calls.find(|(number, call)| call.op == *op && !lists.given_jobs.contains(number))
        });
        if let Some((given, call @ JobCall { answer: Some(answer), .. })) = known {
            lists.given_jobs.insert(given);
            // Another run may be given this one's calls.
            if self.budget.take(call.size()) {
                lists.jobs.push(call.clone());
            }
            return JobSource::Known(answer.clone());
        }
        if self.is_of_instance {
            self.note(HostCallResult::Jobs(number));
        }
        let call = JobCall { op: op.clone(), answer: None };
        if !self.budget.take(call.size()) {
            return JobSource::Live(NOT_KEPT);
        }
        lists.jobs.push(call);
        JobSource::Live(number)
    }

    /// The store's answer to the call of this number.
    pub(in crate::plugin) fn jobs_answered(&self, number: usize, outcome: &JobOutcome) {
        let mut lists = self.own.lock();
        let Some(call) = lists.jobs.get_mut(number) else { return };
        let before = call.size();
        call.answer = Some(outcome.clone());
        if !self.budget.take(call.size().saturating_sub(before)) {
            call.answer = None;
        }
    }

    /// The calls for jobs.
    pub fn jobs(&self) -> Vec<JobCall> {
        self.own.lock().jobs.clone()
    }

    fn recorded_jobs(&self, op: &JobOp) -> JobSource {
        const NAME: &str = "an answer of the jobs";
        let number = match self.next_number(NAME, |draw| match draw {
            HostCallResult::Jobs(number) => Some(*number),
            _ => None,
        }) {
            Ok(number) => number,
            Err(true) => return JobSource::CutOff,
            Err(false) => return JobSource::Diverged,
        };
        let Some(recorded) = self.answers.as_ref().and_then(|answers| answers.jobs.get(number)) else {
            self.diverged(format!("asks for {NAME}, and the recording has lost it"));
            return JobSource::Diverged;
        };
        if recorded.op != *op {
            let words = |op: &JobOp| format!("`{}` of the job `{}`", op.name(), shown(op.subject()));
            let (now, then) = (words(op), words(&recorded.op));
            self.diverged(match now == then {
                true => format!("does {now} with other values than the recorded one"),
                false => format!("does {now} where the recorded one did {then}"),
            });
            return JobSource::Diverged;
        }
        recorded.answer.clone().map_or(JobSource::CutOff, JobSource::Recorded)
    }
}
