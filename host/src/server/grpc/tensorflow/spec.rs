//! `ModelSpec`: which model, which version of it, by which signature.
//!
//! Place in the flow: the beginning of every call of TensorFlow Serving's, and a part of every answer.

use super::pb::serving::ModelSpec;
use super::pb::serving::model_spec::VersionChoice;
use crate::endpoint::generation::Generation;
use crate::error::{RequestError, Stage};
use crate::server::compat::tf_serving::no_label;
use crate::server::grpc::call::{Call, GRPC};
use crate::server::models::Entry;
use crate::server::served::Served;

/// The model that is asked for.
///
/// # Errors
/// `invalid_input` without a spec, or with a label of a version; `not_found`, `unauthorized`.
pub(super) fn entry<'s>(
    served: &'s Served,
    spec: Option<&ModelSpec>,
    call: &Call,
) -> Result<Entry<'s>, RequestError> {
    let invalid = |text: String| RequestError::invalid(Stage::Admit, text);
    let Some(ModelSpec { name, version_choice, .. }) = spec else {
        return Err(invalid("there is no `model_spec`: its `name` is the model's".to_owned()));
    };
    let version = match version_choice {
        None => None,
        Some(VersionChoice::Version(version)) => Some(version.to_string()),
        Some(VersionChoice::VersionLabel(label)) => return Err(no_label(label)),
    };
    served.model(name, version.as_deref(), call.credentials(), GRPC)
}

/// The model that has answered.
pub(super) fn answered(entry: &Entry<'_>, generation: &Generation) -> ModelSpec {
    ModelSpec {
        name: entry.name.clone(),
        version_choice: entry.version_in(generation).parse().ok().map(VersionChoice::Version),
        signature_name: entry.signature_key_in(generation),
    }
}
