//! The list of the dialects of jobs, and what is made of it: the values of the setting, the forms of
//! messages.
//!
//! Place in the flow: asked by the routes of jobs for an endpoint's dialect, by the configuration for the
//! values of `jobs`, by the workers for the messages of webhooks. A new dialect is a line in each.

use super::job_dialect::JobDialect;
use super::{cortex, cortex_batch, truss_async};
use crate::jobs::Mode;
use crate::workers::MessageForm;

/// The dialects of jobs.
const JOB_DIALECTS: [&dyn JobDialect; 3] =
    [&cortex::AsyncApi, &truss_async::AsyncInference, &cortex_batch::BatchApi];

/// The setting of jobs by its values.
pub const JOB_MODES: [(&str, Mode); 5] = [
    ("off", Mode::Off),
    ("on", Mode::On),
    (cortex::FORM.name, Mode::Also(&cortex::FORM)),
    (truss_async::FORM.name, Mode::Also(&truss_async::FORM)),
    (cortex_batch::FORM.name, Mode::Also(&cortex_batch::FORM)),
];

/// The forms of webhooks' messages beside the server's own.
pub const MESSAGE_FORMS: &[&dyn MessageForm] = &[&truss_async::Message];

/// The dialect of an endpoint's jobs, if they have one.
pub(in crate::server) fn dialect_of(mode: Mode) -> Option<&'static dyn JobDialect> {
    let Mode::Also(form) = mode else { return None };
    JOB_DIALECTS.into_iter().find(|dialect| dialect.form() == form)
}
