//! A recording as a file: JSON that a person can read.
//!
//! Place in the flow: `writer.rs` makes one of what crossed the sandbox's boundary; `replay.rs` reads it.
//! What the members mean to a reader is in docs/reference.md. In, when reading: an untrusted file. Out:
//! values whose sizes fit each other, or one line that says what is wrong with it.
//! Invariants: a format that was released is never changed, it gets another number; bytes that are text are
//! written as text, any others as base64; no path stands in a recording.

pub mod calls;
mod recording;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

pub use self::recording::{Handler, Recording};

use crate::error::{Code, RequestError, Stage};
use crate::json::short_list::short_list;
use crate::json::{base64, write};
use crate::pipeline::debug::cut;
use crate::plugin::Application;
use crate::request::{Input, Output, Request, TensorInput};
use crate::tensor::{self, Datatype};
use crate::{plugin, request};

/// The number of this format. 1 has no application and no calls that a handler makes by itself; it is read as
/// well.
pub const FORMAT: u32 = 2;
/// Longest file, in bytes: none is written that is longer, none read.
pub const LONGEST: usize = 256 << 20;
/// Most characters of a file's text that a reason repeats.
const SHOWN_TEXT: usize = 200;
/// Most elements of a tensor that are written as numbers too.
const SHOWN: usize = 16;

/// The request as the handler could see it; the headers are with what it drew, but for a handler that gets
/// all of them.
#[derive(Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "docs/reference.md says what each member is")]
pub struct Sent {
    pub id: String,
    pub method: String,
    pub path: String,
    pub query: String,
    pub content_type: String,
    pub body_limit: usize,
    /// All of them, of a request to `wasi:http`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
    /// Whether it came by TLS, where the handler can tell.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub secure: bool,
    pub input: SentInput,
}

/// The input of the request.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "docs/reference.md says what each member is")]
pub enum SentInput {
    Body(Body),
    Tensors { tensors: Vec<Tensor>, parameters: Option<Box<RawValue>> },
}

/// Bytes.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Body {
    Text(String),
    Base64(#[serde(with = "base64")] Bytes),
}

/// A tensor; `data` counts, `values` are for people.
#[derive(Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "as in `crate::tensor`")]
pub struct Tensor {
    pub name: String,
    pub datatype: String,
    #[serde(deserialize_with = "short_list")]
    pub shape: Vec<u64>,
    #[serde(with = "base64")]
    pub data: Bytes,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<Box<RawValue>>,
}

/// The inputs and outputs of a model.
#[derive(Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "as in `crate::tensor`")]
pub struct Signature {
    pub inputs: Vec<TensorSpec>,
    pub outputs: Vec<TensorSpec>,
}

/// One input or output.
#[derive(Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "as in `crate::tensor`")]
pub struct TensorSpec {
    pub name: String,
    pub datatype: String,
    #[serde(deserialize_with = "short_list")]
    pub shape: Vec<Extent>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
}

/// A number, the name of a free one, or `null` for a free one without a name.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Extent {
    Fixed(u64),
    Named(String),
    Free(()),
}

/// The model's inputs, and its outputs if it answered. Without a model both are the tensors of
/// `pre-inference`.
#[derive(Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Exchange {
    pub inputs: Vec<Tensor>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<Vec<Tensor>>,
}

/// The outcome of the request.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "as in `crate::request` and `crate::error`")]
pub enum Outcome {
    Response { status: u16, content_type: String, headers: Vec<(String, String)>, body: Body },
    Tensors(Vec<Tensor>),
    Error { code: String, stage: String, message: String },
}

/// A member cannot be used. On one line, for the operator.
pub type FormatError = String;

impl Recording {
    /// Reads a file's content.
    ///
    /// # Errors
    /// One line: it is no JSON, of another format, or a member is missing or of another type.
    pub fn read(text: &[u8]) -> Result<Recording, FormatError> {
        #[derive(Deserialize)]
        struct Format {
            format: u32,
        }
        let reason =
            |error: serde_json::Error| format!("is no recording: {}", cut(&error.to_string(), SHOWN_TEXT));
        let Format { format } = serde_json::from_slice(text).map_err(reason)?;
        if format == 0 || format > FORMAT {
            return Err(format!(
                "is a recording of format {format}, and this host reads formats 1 to {FORMAT}"
            ));
        }
        serde_json::from_slice(text).map_err(reason)
    }
}

impl Sent {
    pub(super) fn of(request: &Request, plugin: &plugin::Plugin) -> Sent {
        let mut headers = Vec::new();
        let input = match &request.input {
            Input::Body(body, _) => SentInput::Body(Body::of(body)),
            Input::Exchange(exchange) => {
                if plugin.stages().application == Some(Application::Http) {
                    headers = super::headers_of(request, plugin);
                }
                SentInput::Body(Body::of(&exchange.request_body().unwrap_or_default().0))
            }
            Input::Socket(_) => SentInput::Body(Body::of(&bytes::Bytes::new())),
            Input::Tensors(input) => SentInput::Tensors {
                tensors: tensors(&input.tensors),
                parameters: input.parameters.as_deref().and_then(raw),
            },
        };
        Sent {
            id: request.id.to_string(),
            method: request.head.method().to_owned(),
            path: request.head.path().to_owned(),
            query: request.head.query().to_owned(),
            content_type: request.content_type().to_owned(),
            body_limit: request.body_limit,
            headers,
            secure: matches!(&request.input, Input::Exchange(exchange) if exchange.is_secure),
            input,
        }
    }
}

impl SentInput {
    /// As the pipeline has it.
    ///
    /// # Errors
    /// A tensor that is none.
    pub fn input(self) -> Result<Input, FormatError> {
        Ok(match self {
            SentInput::Body(body) => Input::Body(body.bytes(), request::Form::Plain),
            SentInput::Tensors { tensors, parameters } => {
                let parameters = parameters.map(|parameters| parameters.get().into());
                Input::Tensors(TensorInput::new(read_tensors(tensors)?, parameters))
            }
        })
    }
}

impl Body {
    fn of(bytes: &Bytes) -> Body {
        match std::str::from_utf8(bytes) {
            Ok(text) => Body::Text(text.to_owned()),
            Err(_) => Body::Base64(bytes.clone()),
        }
    }

    pub(in crate::capture) fn bytes(self) -> Bytes {
        match self {
            Body::Text(text) => text.into(),
            Body::Base64(bytes) => bytes,
        }
    }
}

impl Outcome {
    pub(super) fn of(outcome: &Result<Output, super::Failure>) -> Outcome {
        match outcome {
            Ok(Output::Response(response)) => Outcome::Response {
                status: response.status,
                content_type: response.content_type.clone(),
                headers: response.headers.clone(),
                body: Body::of(&response.body),
            },
            Ok(Output::Streamed { status }) => Outcome::Response {
                status: *status,
                content_type: String::new(),
                headers: Vec::new(),
                body: Body::of(&Bytes::new()),
            },
            Ok(Output::Tensors(made)) => Outcome::Tensors(tensors(made)),
            Err(failure) => Outcome::Error {
                code: failure.code.name().to_owned(),
                stage: failure.stage.name().to_owned(),
                message: failure.message.clone(),
            },
        }
    }

    /// As the pipeline has it.
    ///
    /// # Errors
    /// A tensor that is none, an unknown code or stage.
    pub fn outcome(self) -> Result<Result<Output, RequestError>, FormatError> {
        Ok(match self {
            Outcome::Response { status, content_type, headers, body } => {
                Ok(Output::Response(request::Response { status, content_type, headers, body: body.bytes() }))
            }
            Outcome::Tensors(made) => Ok(Output::Tensors(read_tensors(made)?)),
            Outcome::Error { code, stage, message } => {
                let code = Code::ALL.into_iter().find(|known| known.name() == code);
                let stage = Stage::ALL.into_iter().find(|known| known.name() == stage);
                let (Some(code), Some(stage)) = (code, stage) else {
                    return Err("has an error whose code or stage this host does not know".to_owned());
                };
                Err(RequestError::new(code, stage, message))
            }
        })
    }
}

impl Signature {
    pub(super) fn of(signature: &tensor::Signature) -> Signature {
        let specs = |specs: &[tensor::TensorSpec]| specs.iter().map(TensorSpec::of).collect();
        Signature { inputs: specs(&signature.inputs), outputs: specs(&signature.outputs) }
    }

    /// As the pipeline has it.
    ///
    /// # Errors
    /// An unknown datatype.
    pub fn signature(self) -> Result<tensor::Signature, FormatError> {
        let specs =
            |specs: Vec<TensorSpec>| specs.into_iter().map(TensorSpec::spec).collect::<Result<_, _>>();
        Ok(tensor::Signature { inputs: specs(self.inputs)?, outputs: specs(self.outputs)? })
    }
}

impl TensorSpec {
    fn of(spec: &tensor::TensorSpec) -> TensorSpec {
        let extent = |extent: &tensor::Extent| match extent {
            tensor::Extent::Fixed(fixed) => Extent::Fixed(*fixed),
            tensor::Extent::Free(Some(name)) => Extent::Named(name.to_string()),
            tensor::Extent::Free(None) => Extent::Free(()),
        };
        TensorSpec {
            name: spec.name.to_string(),
            datatype: spec.datatype.name().to_owned(),
            shape: spec.shape.iter().map(extent).collect(),
            optional: spec.is_optional(),
        }
    }

    fn spec(self) -> Result<tensor::TensorSpec, FormatError> {
        let extent = |extent| match extent {
            Extent::Fixed(fixed) => tensor::Extent::Fixed(fixed),
            Extent::Named(name) => tensor::Extent::Free(Some(name.into())),
            Extent::Free(()) => tensor::Extent::Free(None),
        };
        Ok(tensor::TensorSpec {
            datatype: datatype(&self.datatype, &self.name)?,
            name: self.name.into(),
            shape: self.shape.into_iter().map(extent).collect(),
            role: if self.optional { tensor::Role::Optional } else { tensor::Role::Plain },
        })
    }
}

/// For the file.
pub(super) fn tensors(tensors: &[tensor::Tensor]) -> Vec<Tensor> {
    let tensor = |tensor: &tensor::Tensor| Tensor {
        name: tensor.name.to_string(),
        datatype: tensor.datatype.name().to_owned(),
        shape: tensor.shape.clone(),
        data: tensor.data.clone(),
        values: values(tensor),
    };
    tensors.iter().map(tensor).collect()
}

/// From the file.
///
/// # Errors
/// The first one whose data is not what datatype and shape say.
pub fn read_tensors(tensors: Vec<Tensor>) -> Result<Vec<tensor::Tensor>, FormatError> {
    let read = |Tensor { name, datatype: kind, shape, data, .. }: Tensor| {
        let kind = datatype(&kind, &name)?;
        let name: Arc<str> = name.into();
        tensor::Tensor::new(name.clone(), kind, shape, data)
            .map_err(|error| format!("has a tensor `{}` that is none: {error}", cut(&name, SHOWN_TEXT)))
    };
    tensors.into_iter().map(read).collect()
}

fn datatype(name: &str, of: &str) -> Result<Datatype, FormatError> {
    Datatype::named(name).ok_or_else(|| {
        format!(
            "has a tensor `{}` of datatype `{}`, which there is not",
            cut(of, SHOWN_TEXT),
            cut(name, SHOWN_TEXT)
        )
    })
}

/// The elements, if they are few.
fn values(tensor: &tensor::Tensor) -> Option<Box<RawValue>> {
    if tensor.elements() > SHOWN || tensor.data.len() > 64 * SHOWN {
        return None;
    }
    let list = write::outputs(std::slice::from_ref(tensor));
    let value = list.strip_prefix(b"[")?.strip_suffix(b"]")?;
    raw(std::str::from_utf8(value).ok()?)
}

/// JSON text that is written as it is.
pub(super) fn raw(json: &str) -> Option<Box<RawValue>> {
    RawValue::from_string(json.to_owned()).ok()
}
