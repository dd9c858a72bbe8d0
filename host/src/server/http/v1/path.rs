//! The paths below `/v1/models/`, taken apart: the model, and what is wanted of it.
//!
//! Place in the flow: before every answer of [`super`].

use crate::error::{Code, RequestError, Stage};
use crate::keys::Credentials;
use crate::request::Protocol;
use crate::server::compat::tf_serving::examples::Method;
use crate::server::compat::tf_serving::no_label;
use crate::server::compat::truss;
use crate::server::models::Entry;
use crate::server::served::Served;

/// The operation that a path asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ModelPath<'a> {
    pub(super) model: &'a str,
    pub(super) version: Option<&'a str>,
    /// A label in place of a version.
    label: Option<&'a str>,
    pub(super) operation: Operation,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Status,
    Metadata,
    Loaded,
    Schema,
    Prediction,
    /// A call that brings examples.
    Examples(Method),
}

impl Operation {
    /// Whether it is a call: `POST`.
    pub(super) fn is_call(self) -> bool {
        matches!(self, Operation::Prediction | Operation::Examples(_))
    }
}

impl ModelPath<'_> {
    pub(super) fn of(path: &str) -> Option<ModelPath<'_>> {
        let path = path.strip_prefix("/v1/models/")?;
        let (path, verb) = path.rsplit_once(':').map_or((path, None), |(path, verb)| (path, Some(verb)));
        let segments: Vec<&str> = path.split('/').collect();
        let (model, version, label, rest) = match segments.as_slice() {
            [model, "versions", version, rest @ ..] => (*model, Some(*version), None, rest),
            [model, "labels", label, rest @ ..] => (*model, None, Some(*label), rest),
            [model, rest @ ..] => (*model, None, None, rest),
            [] => return None,
        };
        let is_plain = version.is_none() && label.is_none();
        let operation = match (rest, verb) {
            ([], None) => Operation::Status,
            ([], Some("predict" | "predict_binary")) => Operation::Prediction,
            ([], Some("classify")) => Operation::Examples(Method::Classify),
            ([], Some("regress")) => Operation::Examples(Method::Regress),
            (["metadata"], None) => Operation::Metadata,
            (["loaded"], None) if is_plain => Operation::Loaded,
            (["schema"], None) if is_plain => Operation::Schema,
            _ => return None,
        };
        Some(ModelPath { model, version, label, operation })
    }

    /// The model it names.
    pub(super) fn find<'s>(
        &self,
        served: &'s Served,
        credentials: Credentials<'_>,
    ) -> Result<Entry<'s>, RequestError> {
        let found = served.model(self.model, self.version, credentials, V1);
        let found = found.or_else(|unknown| match &*served.endpoints {
            [only] if self.model == truss::ANY_MODEL => {
                served.model(&only.config.name, self.version, credentials, V1)
            }
            _ => Err(unknown),
        });
        match self.label {
            Some(label) => found.and_then(|_| Err(no_label(label))),
            None => found,
        }
    }
}

/// How models are looked for.
pub(super) const V1: Option<Protocol> = Some(Protocol::V1);

pub(super) fn no_route(path: &str) -> RequestError {
    RequestError::new(Code::NotFound, Stage::Admit, format!("no endpoint at `{path}`"))
}

pub(super) fn wrong_method(path: &str, method: &str) -> RequestError {
    let message = format!("`{path}` does not answer `{method}`");
    RequestError::new(Code::MethodNotAllowed, Stage::Admit, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_taken_apart() {
        let shown = |path: &str| {
            ModelPath::of(path).map(|path| {
                let version = path.version.unwrap_or("-");
                let label = path.label.map(|label| format!("{label} ")).unwrap_or_default();
                format!("{} {version} {label}{:?}", path.model, path.operation)
            })
        };
        for (path, expected) in [
            ("m", Some("m - Status")),
            ("m/versions/2", Some("m 2 Status")),
            ("m/metadata", Some("m - Metadata")),
            ("m/versions/2/metadata", Some("m 2 Metadata")),
            ("m/loaded", Some("m - Loaded")),
            ("m/schema", Some("m - Schema")),
            ("m:predict", Some("m - Prediction")),
            ("m:predict_binary", Some("m - Prediction")),
            ("a.b-c/versions/2:predict", Some("a.b-c 2 Prediction")),
            ("m:classify", Some("m - Examples(Classify)")),
            ("m/versions/2:regress", Some("m 2 Examples(Regress)")),
            ("m/labels/stable", Some("m - stable Status")),
            ("m/labels/stable:classify", Some("m - stable Examples(Classify)")),
            ("m/labels/stable/loaded", None),
            ("m/labels", None),
            ("m:Classify", None),
            ("m:", None),
            ("m/", None),
            ("m/x", None),
            ("m/versions", None),
            ("m/versions/2/loaded", None),
            ("m/loaded:predict", None),
        ] {
            assert_eq!(shown(&format!("/v1/models/{path}")).as_deref(), expected, "{path}");
        }
    }
}
