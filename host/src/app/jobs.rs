//! The process as its jobs are run in it.
//!
//! Place in the flow: made once the stores are open; the workers of the endpoints have it.

use crate::server::Served;
use crate::server::compat::job_dialects::MESSAGE_FORMS;
use crate::workers::JobContext;

/// The process as jobs are run in it; `None` if none are stored.
pub(super) fn context(served: &Served) -> Option<JobContext> {
    Some(JobContext {
        store: served.jobs.clone()?,
        drain: served.drain.clone(),
        activity: served.activity.clone(),
        is_debug: served.config.debug,
        is_secure: served.config.tls.is_some(),
        message_forms: MESSAGE_FORMS,
    })
}
