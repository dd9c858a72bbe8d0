//! A call for the endpoint's jobs, as the log of a run has it.
//!
//! Place in the flow: `submit.rs` gives it to the log before it asks the store. In: an operation and its
//! answer. Out: whether two are the same, in words where they are not; a secret that shows by its name.

use crate::jobs::handler::{JobAnswer, JobCall, JobOp, JobOutcome};
use crate::json::special;
use crate::plugin::host_call_log::secrets::{has_secret_member, has_secret_parameter, is_any_secret};
use crate::plugin::host_call_log::{LoggedCall, shown};

impl LoggedCall for JobCall {
    type Outcome = JobOutcome;

    const NAME: &'static str = "an answer of the jobs";

    fn is_same(&self, other: &JobCall) -> bool {
        self.op == other.op
    }

    fn outcome(&self) -> Option<&JobOutcome> {
        self.answer.as_ref()
    }

    fn set_outcome(&mut self, outcome: Option<JobOutcome>) {
        self.answer = outcome;
    }

    fn size(&self) -> usize {
        self.size()
    }

    fn description(&self) -> String {
        format!("`{}` of the job `{}`", self.op.name(), shown(self.op.subject()))
    }

    fn secret(&self) -> Option<&'static str> {
        let is_secret = |body: &[u8]| has_secret_member(&special::tree(body));
        if let JobOp::Submit(job) = &self.op {
            let urls = job.webhook.iter().chain([&job.path]);
            if urls.filter_map(|url| url.split_once('?')).any(|(_, query)| has_secret_parameter(query)) {
                return Some("an address of a job that the handler submitted");
            }
            if is_any_secret(&job.headers) || is_secret(&job.body) {
                return Some("a job that the handler submitted");
            }
        }
        match &self.answer {
            Some(Ok(JobAnswer::Answer { headers, body, .. }))
                if is_any_secret(headers) || is_secret(body) =>
            {
                Some("the answer to a job that the handler asked for")
            }
            _ => None,
        }
    }
}
