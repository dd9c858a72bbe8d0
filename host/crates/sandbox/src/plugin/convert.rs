//! Handler contract types ↔ the crate's own.
//!
//! Place in the flow: between a guest call and the rest of the pipeline.
//! In: what the guest returned, already copied out of its memory once by the component ABI (it may change
//! that memory at any time, so this copy is the one that makes a check mean something). Out: checked tensors
//! and responses that own those very bytes.
//! Invariant: nothing a guest returns can panic, overflow or reach an engine unchecked.

use std::sync::Arc;

use bytes::Bytes;

use super::bindings::exports::modelhost::handler::input_schema;
use super::bindings::modelhost::handler::types;
use super::headers::{self, Owner};
use crate::blocking;
use crate::request::Response;
use crate::schema::{Input, MOST_INPUTS, Schema};
use crate::tensor::{Datatype, Extent, Signature, Tensor, TensorSpec};
use crate::text;

/// Response headers a handler may set, and how many bytes their names and values may have in all. Many
/// clients take 100 headers and no more; the rest is for those that the server, TLS and proxies on the way
/// add.
const MOST_HEADERS: (usize, usize) = (80, 32 << 10);

/// Tensors one call may return: no model has as many inputs, and each is handled by itself all the way.
pub(super) const MOST_TENSORS: usize = 1000;
/// Longest name of a tensor, in bytes.
const LONGEST_NAME: usize = 256;
/// Most bytes of text in a schema: it stays in the host's memory, its examples in several times their size.
const LONGEST_SCHEMA: usize = 1 << 20;

/// The value that a call returned.
pub(super) trait Returned {
    /// The cost of copying it out of the guest, in bytes.
    fn weight(&self) -> usize;
}

impl Returned for Vec<types::TensorResult> {
    fn weight(&self) -> usize {
        let length = |tensor: &types::TensorResult| {
            tensor.name.len() + size_of_val(tensor.shape.as_slice()) + tensor.data.len()
        };
        blocking::weight_of(self.iter().map(length))
    }
}

impl Returned for types::Response {
    fn weight(&self) -> usize {
        let headers = self.headers.iter().map(|(name, value)| name.len() + value.len());
        blocking::weight_of(headers.chain([self.content_type.len() + self.body.len()]))
    }
}

impl<T: Returned> Returned for Option<T> {
    fn weight(&self) -> usize {
        self.as_ref().map_or(0, Returned::weight)
    }
}

impl Returned for types::Error {
    fn weight(&self) -> usize {
        match self {
            types::Error::InvalidInput(text) | types::Error::Internal(text) => text.len(),
            types::Error::Respond(response) => response.weight(),
        }
    }
}

/// Makes tensors of what `pre-inference` returned.
///
/// # Errors
/// Text that names the tensor and what is wrong with it; that they are too many.
pub(super) fn tensors_from_guest(tensors: Vec<types::TensorResult>) -> Result<Vec<Tensor>, String> {
    let tensor = |tensor: types::TensorResult| {
        if !is_name(&tensor.name) {
            return Err(format!("tensor name `{}` is too long or not text", shown(&tensor.name)));
        }
        let name: Arc<str> = tensor.name.into();
        let data = Bytes::from(tensor.data);
        Tensor::new(name.clone(), datatype_from_guest(tensor.datatype), tensor.shape, data)
            .map_err(|error| format!("tensor `{}`: {error}", shown(&name)))
    };
    let count = tensors.len();
    if count > MOST_TENSORS {
        blocking::off_worker(|| drop(tensors));
        return Err(format!("{count} tensors, expected at most {MOST_TENSORS}"));
    }
    // Of these each byte is looked at.
    let looked_at = |tensor: &types::TensorResult| match tensor.datatype {
        types::Datatype::Bytes | types::Datatype::Bool => tensor.data.len(),
        _ => 0,
    };
    let bytes = tensors.iter().map(looked_at).fold(0, usize::saturating_add);
    blocking::if_large(bytes, || tensors.into_iter().map(tensor).collect())
}

/// Whether a tensor may have this name. Names stand in error texts and log lines further on, which are one
/// line each.
pub(super) fn is_name(name: &str) -> bool {
    name.len() <= LONGEST_NAME && !name.chars().any(char::is_control)
}

/// Borrows tensors for a call to `post-inference`; the ABI copies them into the guest's memory once.
pub(super) fn tensors_to_guest(tensors: &[Tensor]) -> Vec<types::TensorParam<'_>> {
    tensors
        .iter()
        .map(|tensor| types::TensorParam {
            name: &tensor.name,
            datatype: datatype_to_guest(tensor.datatype),
            shape: &tensor.shape,
            data: &tensor.data,
        })
        .collect()
}

/// The same with copies of their own, for what a host function returns.
pub(super) fn owned_tensors_to_guest(tensors: &[Tensor]) -> Vec<types::TensorResult> {
    tensors
        .iter()
        .map(|tensor| types::TensorResult {
            name: tensor.name.to_string(),
            datatype: datatype_to_guest(tensor.datatype),
            shape: tensor.shape.clone(),
            data: tensor.data.to_vec(),
        })
        .collect()
}

/// Checks a handler's response. Which request it is for and who gave it is the server's to say.
///
/// # Errors
/// Text that names the part that no HTTP response can carry, or the header that is not among the `granted`.
pub(super) fn response_from_guest(
    mut response: types::Response,
    granted: &[String],
) -> Result<Response, String> {
    if !(200..=599).contains(&response.status) {
        return Err(format!("response status {} is not within 200 to 599", response.status));
    }
    if !is_header_value(&response.content_type) {
        return Err("response content type is not a header value".to_owned());
    }
    let (most, most_bytes) = MOST_HEADERS;
    let bytes: usize = response.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    if response.headers.len() > most || bytes > most_bytes {
        return Err(format!(
            "{} response headers of {bytes} bytes, expected at most {most} of {most_bytes}",
            response.headers.len()
        ));
    }
    response.headers.retain(|(name, _)| headers::owner(name) != Owner::Server);
    for (name, value) in &response.headers {
        if !text::is_token(name) {
            return Err(format!("response header name `{}` is not a header name", shown(name)));
        }
        match headers::owner(name) {
            Owner::Connection => return Err(format!("response header `{name}` is the server's to set")),
            Owner::Operator if !granted.iter().any(|granted| name.eq_ignore_ascii_case(granted)) => {
                return Err(format!(
                    "response header `{}` speaks for the whole server, and its endpoint does not grant it: \
                     `response_headers`",
                    shown(name)
                ));
            }
            Owner::Operator | Owner::Server | Owner::Handler => {}
        }
        if !is_header_value(value) {
            return Err(format!("value of response header `{}` is not a header value", shown(name)));
        }
    }
    // Without a body there is no type of one; SDKs have to name some.
    if response.body.is_empty() && matches!(response.status, 204 | 304) {
        response.content_type = String::new();
    }
    Ok(Response {
        status: response.status,
        content_type: response.content_type,
        headers: response.headers,
        body: Bytes::from(response.body),
    })
}

/// The model's signature as the guest sees it; free extents become -1.
pub(super) fn signature(signature: &Signature) -> types::Signature {
    let specs = |specs: &[TensorSpec]| {
        specs
            .iter()
            .map(|spec| types::TensorSpec {
                name: spec.name.to_string(),
                datatype: datatype_to_guest(spec.datatype),
                shape: spec.shape.iter().map(Extent::as_i64).collect(),
            })
            .collect()
    };
    types::Signature { inputs: specs(&signature.inputs), outputs: specs(&signature.outputs) }
}

/// Makes a schema of what `input-schema` returned; `None` of an empty list.
///
/// # Errors
/// Text that names every input that is not sound.
pub(super) fn schema_from_guest(inputs: Vec<input_schema::Input>) -> Result<Option<Schema>, String> {
    if inputs.is_empty() {
        return Ok(None);
    }
    if inputs.len() > MOST_INPUTS {
        return Err(format!("{} inputs, more than {MOST_INPUTS}", inputs.len()));
    }
    let text = |input: &input_schema::Input| {
        input.name.len() + input.description.len() + input.example.as_ref().map_or(0, String::len)
    };
    let length: usize = inputs.iter().map(text).sum();
    if length > LONGEST_SCHEMA {
        return Err(format!(
            "names, examples and descriptions of {length} bytes, more than {LONGEST_SCHEMA}"
        ));
    }
    let input = |input: input_schema::Input| {
        let example = input.example.as_deref().map(serde_json::from_str).transpose();
        Ok(Input {
            example: example.map_err(|error| {
                format!("input `{}`: the example is not JSON: {error}", shown(&input.name))
            })?,
            name: input.name.into(),
            datatype: datatype_from_guest(input.datatype),
            shape: input.shape,
            required: input.required,
            description: input.description,
        })
    };
    let schema = Schema { inputs: inputs.into_iter().map(input).collect::<Result<_, String>>()? };
    let errors: Vec<String> = schema.errors().iter().map(ToString::to_string).collect();
    if errors.is_empty() { Ok(Some(schema)) } else { Err(errors.join("; ")) }
}

/// A guest's text, fit for a message: short, one line, nothing that steers a terminal.
pub(super) fn shown(text: &str) -> String {
    const LONGEST: usize = 100;
    let mut shown: String = text.chars().take(LONGEST).flat_map(char::escape_default).collect();
    if text.chars().nth(LONGEST).is_some() {
        shown.push('…');
    }
    shown
}

/// RFC 9110, section 5.5, without obsolete bytes: visible ASCII, space, tab.
fn is_header_value(value: &str) -> bool {
    value.bytes().all(|byte| byte == b'\t' || (b' '..=b'~').contains(&byte))
}

pub(super) fn datatype_from_guest(datatype: types::Datatype) -> Datatype {
    match datatype {
        types::Datatype::Bool => Datatype::Bool,
        types::Datatype::Uint8 => Datatype::Uint8,
        types::Datatype::Uint16 => Datatype::Uint16,
        types::Datatype::Uint32 => Datatype::Uint32,
        types::Datatype::Uint64 => Datatype::Uint64,
        types::Datatype::Int8 => Datatype::Int8,
        types::Datatype::Int16 => Datatype::Int16,
        types::Datatype::Int32 => Datatype::Int32,
        types::Datatype::Int64 => Datatype::Int64,
        types::Datatype::Fp16 => Datatype::Fp16,
        types::Datatype::Bf16 => Datatype::Bf16,
        types::Datatype::Fp32 => Datatype::Fp32,
        types::Datatype::Fp64 => Datatype::Fp64,
        types::Datatype::Bytes => Datatype::Bytes,
    }
}

pub(super) fn datatype_to_guest(datatype: Datatype) -> types::Datatype {
    match datatype {
        Datatype::Bool => types::Datatype::Bool,
        Datatype::Uint8 => types::Datatype::Uint8,
        Datatype::Uint16 => types::Datatype::Uint16,
        Datatype::Uint32 => types::Datatype::Uint32,
        Datatype::Uint64 => types::Datatype::Uint64,
        Datatype::Int8 => types::Datatype::Int8,
        Datatype::Int16 => types::Datatype::Int16,
        Datatype::Int32 => types::Datatype::Int32,
        Datatype::Int64 => types::Datatype::Int64,
        Datatype::Fp16 => types::Datatype::Fp16,
        Datatype::Bf16 => types::Datatype::Bf16,
        Datatype::Fp32 => types::Datatype::Fp32,
        Datatype::Fp64 => types::Datatype::Fp64,
        Datatype::Bytes => types::Datatype::Bytes,
    }
}
