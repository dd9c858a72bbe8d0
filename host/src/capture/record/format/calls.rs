//! The calls that a handler made by itself, as a recording has them: of models, and of others.

use serde::{Deserialize, Serialize};

use super::{Body, FormatError, Signature, Tensor, read_tensors, tensors};
use crate::model_access::{HandlerModelCall, ModelCallError};
use crate::outbound::{OutboundAnswer, OutboundCall, OutboundError};
use crate::pipeline::debug::cut;

/// Most characters of an unknown word that a reason repeats.
const SHOWN: usize = 64;

/// A model that the handler may call.
#[derive(Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "docs/reference.md says what each member is")]
pub struct NamedModel {
    pub name: String,
    pub signature: Signature,
}

/// A call of a model.
#[derive(Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "docs/reference.md says what each member is")]
pub struct ModelCall {
    pub model: String,
    pub inputs: Vec<Tensor>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<Vec<Tensor>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<CallError>,
}

/// Why a model has no outputs.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "as in `crate::model_access`")]
pub enum CallError {
    NoSuchModel(String),
    InvalidInput(String),
    Overloaded,
    TimedOut,
    Failed(String),
}

/// A request that the handler sent.
#[derive(Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "docs/reference.md says what each member is")]
pub struct Outbound {
    pub method: String,
    pub url: String,
    pub headers: Vec<(String, String)>,
    pub body: Body,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
}

/// The answer to a request, or why there is none.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "docs/reference.md says what each member is")]
pub enum Answer {
    Response { status: u16, headers: Vec<(String, String)>, body: Body, is_whole: bool },
    Error(String),
}

impl ModelCall {
    pub(in crate::capture) fn of(call: &HandlerModelCall) -> ModelCall {
        let (outputs, error) = match &call.outcome {
            Some(Ok(outputs)) => (Some(tensors(outputs)), None),
            Some(Err(error)) => (None, CallError::of(error)),
            None => (None, None),
        };
        ModelCall { model: call.model.clone(), inputs: tensors(&call.inputs), outputs, error }
    }

    /// As the log has it.
    ///
    /// # Errors
    /// A tensor that is none.
    pub fn call(self) -> Result<HandlerModelCall, FormatError> {
        let outcome = match (self.outputs, self.error) {
            (Some(outputs), _) => Some(Ok(read_tensors(outputs)?)),
            (None, Some(error)) => Some(Err(error.error())),
            (None, None) => None,
        };
        Ok(HandlerModelCall { model: self.model, inputs: read_tensors(self.inputs)?, outcome })
    }
}

impl CallError {
    /// `None` for those that only a replay has.
    fn of(error: &ModelCallError) -> Option<CallError> {
        Some(match error {
            ModelCallError::NoSuchModel(name) => CallError::NoSuchModel(name.clone()),
            ModelCallError::InvalidInput(text) => CallError::InvalidInput(text.clone()),
            ModelCallError::Unloaded => CallError::Overloaded,
            ModelCallError::TimedOut => CallError::TimedOut,
            ModelCallError::Failed(text) => CallError::Failed(text.clone()),
            ModelCallError::CutOff | ModelCallError::Diverged => return None,
        })
    }

    fn error(self) -> ModelCallError {
        match self {
            CallError::NoSuchModel(name) => ModelCallError::NoSuchModel(name),
            CallError::InvalidInput(text) => ModelCallError::InvalidInput(text),
            CallError::Overloaded => ModelCallError::Unloaded,
            CallError::TimedOut => ModelCallError::TimedOut,
            CallError::Failed(text) => ModelCallError::Failed(text),
        }
    }
}

impl Outbound {
    pub(in crate::capture) fn of(call: &OutboundCall) -> Outbound {
        let answer = call.answer.as_ref().map(|answer| match answer {
            OutboundAnswer::Response { status, headers, body, is_whole } => Answer::Response {
                status: *status,
                headers: headers.clone(),
                body: Body::of(body),
                is_whole: *is_whole,
            },
            OutboundAnswer::Failed(error) => Answer::Error(error.name().to_owned()),
        });
        Outbound {
            method: call.method.clone(),
            url: call.url.clone(),
            headers: call.headers.clone(),
            body: Body::of(&call.body),
            answer,
        }
    }

    /// As the log has it.
    ///
    /// # Errors
    /// An error that there is not.
    pub fn call(self) -> Result<OutboundCall, FormatError> {
        let answer = self.answer.map(|answer| match answer {
            Answer::Response { status, headers, body, is_whole } => {
                Ok(OutboundAnswer::Response { status, headers, body: body.bytes(), is_whole })
            }
            Answer::Error(name) => {
                let known = OutboundError::ALL.into_iter().find(|(known, _)| *known == name);
                let unknown = || format!("has an outbound error `{}`, which there is not", cut(&name, SHOWN));
                known.map(|(_, error)| OutboundAnswer::Failed(error)).ok_or_else(unknown)
            }
        });
        Ok(OutboundCall {
            method: self.method,
            url: self.url,
            headers: self.headers,
            body: self.body.bytes(),
            answer: answer.transpose()?,
        })
    }
}
