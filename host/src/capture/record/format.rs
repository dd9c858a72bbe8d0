//! A recording as a file: JSON that a person can read.
//!
//! Place in the flow: `writer.rs` makes one of what crossed the sandbox's boundary; `replay.rs` reads it.
//! What the members mean to a reader is in docs/reference.md. In, when reading: an untrusted file. Out:
//! values whose sizes fit each other, or one line that says what is wrong with it.
//! Invariants: a format that was released is never changed, it gets another number; bytes that are text are
//! written as text, any others as base64; no path stands in a recording.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::error::{Code, RequestError, Stage};
use crate::json::short_list::short_list;
use crate::json::{base64, write};
use crate::pipeline::debug::cut;
use crate::plugin::host_call_log::RecordedCalls;
use crate::request::{Input, Output, Request, TensorInput};
use crate::tensor::{self, Datatype};
use crate::{plugin, request};

/// The number of this format.
pub const FORMAT: u32 = 1;
/// Longest file, in bytes: none is written that is longer, none read.
pub const LONGEST: usize = 256 << 20;
/// Most characters of a file's text that a reason repeats.
const SHOWN_TEXT: usize = 200;
/// Most elements of a tensor that are written as numbers too.
const SHOWN: usize = 16;

/// One request.
#[derive(Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "docs/reference.md says what each member is")]
pub struct Recording {
    pub format: u32,
    pub host: String,
    pub recorded: String,
    pub endpoint: String,
    pub handler: Handler,
    pub request: Sent,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<Signature>,
    /// The tensors that `pre-inference-tensors` got, unless the request brought them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<Vec<Tensor>>,
    pub drawn: RecordedCalls,
    /// `None` if the request never came as far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Exchange>,
    /// The tensors that `post-inference-tensors` made, where the host made the response of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Vec<Tensor>>,
    pub outcome: Outcome,
}

/// The handler and what it was given once and for all.
#[derive(Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "docs/reference.md says what each member is")]
pub struct Handler {
    pub digest: String,
    pub contract: String,
    #[serde(deserialize_with = "short_list")]
    pub functions: Vec<String>,
    pub isolation: String,
    pub network: String,
    #[serde(default, deserialize_with = "short_list", skip_serializing_if = "Vec::is_empty")]
    pub response_headers: Vec<String>,
    pub project: Option<String>,
    pub metadata: Box<RawValue>,
    pub memory: usize,
    pub output: usize,
    pub pre_timeout_ms: u64,
    pub post_timeout_ms: u64,
}

/// The request as the handler could see it; the headers are with what it drew.
#[derive(Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "docs/reference.md says what each member is")]
pub struct Sent {
    pub id: String,
    pub method: String,
    pub path: String,
    pub query: String,
    pub content_type: String,
    pub body_limit: usize,
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
        if format != FORMAT {
            return Err(format!("is a recording of format {format}, and this host reads format {FORMAT}"));
        }
        serde_json::from_slice(text).map_err(reason)
    }
}

impl Sent {
    pub(super) fn of(request: &Request) -> Sent {
        let input = match &request.input {
            Input::Body(body, _) => SentInput::Body(Body::of(body)),
            // No run of an application is recorded.
            Input::Exchange(_) => SentInput::Body(Body::of(&Bytes::new())),
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

    fn bytes(self) -> Bytes {
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

impl Handler {
    pub(super) fn of(plugin: &plugin::Plugin) -> Handler {
        let config = plugin.config();
        Handler {
            digest: plugin.digest().to_string(),
            contract: plugin::CONTRACT.to_owned(),
            functions: plugin.stages().functions().map(str::to_owned).collect(),
            isolation: config.isolation.name().to_owned(),
            network: config.network.name().to_owned(),
            response_headers: config.response_headers.to_vec(),
            project: plugin.project_digest().map(str::to_owned),
            metadata: raw(&config.metadata).unwrap_or_else(|| RawValue::NULL.to_owned()),
            memory: config.limits.memory,
            output: config.limits.output,
            pre_timeout_ms: milliseconds(config.limits.pre_timeout),
            post_timeout_ms: milliseconds(config.limits.post_timeout),
        }
    }
}

fn milliseconds(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"{"format":1,"host":"0","recorded":"","endpoint":"e","handler":{"digest":"d","contract":"0.1.0",
        "functions":["pre-inference"],"isolation":"worker","network":"none","project":null,"metadata":{"a":[1]},
        "memory":1,"output":2,"pre_timeout_ms":3,"post_timeout_ms":4},"request":{"id":"i","method":"POST","path":"/",
        "query":"","content_type":"","body_limit":5,"input":{"tensors":{"tensors":[],"parameters":{"x":1}}}},
        "signature":{"inputs":[{"name":"x","datatype":"FP32","shape":[2,"N",null]}],"outputs":[]},
        "drawn":{"calls":[{"function":"start","draws":[{"wall-clock":[7,5]},{"random":"AQI="},"waited",{"poll":[0]}]}],
        "headers":{"a":null,"b":"c"}},"model":{"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":"AACAPw==",
        "values":[1.0]}]},"outcome":{"error":{"code":"model_error","stage":"infer","message":"m"}}}"#;

    /// Reads everything of a recording that a replay reads.
    fn read(text: &[u8]) -> Result<(), FormatError> {
        let recording = Recording::read(text)?;
        recording.request.input.input()?;
        recording.signature.map(Signature::signature).transpose()?;
        if let Some(model) = recording.model {
            read_tensors(model.inputs)?;
        }
        recording.outcome.outcome()?.map(drop).or(Ok(()))
    }

    #[test]
    fn whatever_is_read_is_read_or_refused_on_one_line() {
        assert_eq!(read(SMALL.as_bytes()), Ok(()));
        let long = SMALL.replace("[2,\"N\",null]", &format!("[{}1]", "1,".repeat(32)));
        let reason = read(long.as_bytes()).unwrap_err();
        assert!(reason.contains("invalid length 33, expected a list of at most 32"), "{reason}");
        let (mut good, mut bad) = (0, 0);
        let mut attempt = |text: &[u8]| match read(text) {
            Ok(()) => good += 1,
            Err(reason) => {
                assert!(!reason.contains(char::is_control), "{reason:?}");
                bad += 1;
            }
        };
        for at in 0..SMALL.len() {
            attempt(&SMALL.as_bytes()[..at]);
            for byte in [0, b'"', b'9', b'-', b'[', b'}', b'z', 0xff] {
                let mut text = SMALL.as_bytes().to_vec();
                text[at] = byte;
                attempt(&text);
                text.remove(at);
                attempt(&text);
            }
        }
        assert!(good > 1_000 && bad > 1_000, "{good} {bad}");
    }

    #[test]
    fn what_is_written_reads_the_same() {
        let tensor = |datatype, shape: &[u64], data: &'static [u8]| {
            tensor::Tensor::new("t".into(), datatype, shape.to_vec(), Bytes::from_static(data)).unwrap()
        };
        let written = [
            tensor(Datatype::Bool, &[2, 1], &[0, 1]),
            tensor(Datatype::Fp32, &[1], &[0, 0, 0xc0, 0x7f]),
            tensor(Datatype::Bytes, &[2], b"\x01\0\0\0\xff\0\0\0\0"),
            tensor(Datatype::Int64, &[], &[0xff; 8]),
            tensor(Datatype::Uint8, &[0, 4], &[]),
            tensor(Datatype::Uint8, &[17], &[7; 17]),
        ];
        let text = serde_json::to_string(&tensors(&written)).unwrap();
        assert_eq!(read_tensors(serde_json::from_str(&text).unwrap()).unwrap(), written, "{text}");
        let shown = [r#""values":[[false],[true]]"#, r#""values":[null]"#, r#""values":[{"b64":"/w=="},""]"#];
        assert!(shown.iter().all(|shown| text.contains(shown)), "{text}");
        assert_eq!(text.matches("values").count(), 5, "the longest has none");
        for bytes in [&b"{\"a\":\"\xc3\xa9\\n\"}"[..], b"\xff\0", b""] {
            let text = serde_json::to_string(&Body::of(&Bytes::copy_from_slice(bytes))).unwrap();
            assert_eq!(serde_json::from_str::<Body>(&text).unwrap().bytes(), bytes, "{text}");
        }
    }
}
