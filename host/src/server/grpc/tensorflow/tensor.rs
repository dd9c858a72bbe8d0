//! `TensorProto`: a tensor of TensorFlow's, read and written.
//!
//! Place in the flow: `message → [inputs] → pipeline → [written] → message`.
//! In:   a map of tensors, hostile. Out: tensors whose bytes are as many as their shapes say.
//! Invariants: all tensors of a request together have at most `limits.body` bytes, which is known before any
//! is made: three bytes of a shape can stand for a thousand million zeros. `tensor_content` of numbers is not
//! copied on its way in. Outputs are written in the fields of their types, as TensorFlow Serving writes them,
//! because clients read those without asking.

use std::collections::BTreeMap;
use std::iter;
use std::sync::Arc;

use bytes::{Buf as _, Bytes};

use super::pb::tensor_shape_proto::Dim;
use super::pb::{DataType, TensorProto, TensorShapeProto};
use crate::blocking;
use crate::error::{RequestError, Stage};
use crate::server::compat::tf_serving;
use crate::server::grpc::elements::{each, narrowed, plain, texts, too_large};
use crate::tensor::{
    BytesElements, Datatype, LARGEST_RANK, ShownShape, Tensor, TensorError, element_count, push_bytes_element,
};
use crate::text;

/// Bytes before each element of BYTES.
const PREFIX: usize = 4;

/// The tensors of a request. `limit`: most bytes of all of them together.
///
/// # Errors
/// `invalid_input` that names the input, `body_too_large`.
pub(super) fn inputs(
    inputs: BTreeMap<String, TensorProto>,
    limit: usize,
) -> Result<Vec<Tensor>, RequestError> {
    let invalid = |name: &str, text: String| {
        RequestError::invalid(Stage::Admit, format!("input `{}`: {text}", text::shown(name)))
    };
    let plan = |(name, proto): (String, TensorProto)| match Plan::of(proto) {
        Ok(plan) => Ok((name, plan)),
        Err(text) => Err(invalid(&name, text)),
    };
    let plans = inputs.into_iter().map(plan).collect::<Result<Vec<_>, _>>()?;
    let bytes = plans.iter().map(|(_, plan)| plan.bytes).fold(0, usize::saturating_add);
    if bytes > limit {
        return Err(too_large(limit));
    }
    let made = plans.into_iter().map(|(name, plan)| {
        let tensor = plan.tensor(name.as_str().into());
        tensor.map_err(|text| invalid(&name, text))
    });
    blocking::if_large(bytes, || made.collect())
}

/// A tensor that has not been made yet.
struct Plan {
    proto: TensorProto,
    datatype: Datatype,
    shape: Vec<u64>,
    elements: usize,
    /// The length that it will have.
    bytes: usize,
}

impl Plan {
    /// # Errors
    /// Text for the caller: what is wrong with the datatype, the shape, or the number of elements.
    fn of(proto: TensorProto) -> Result<Plan, String> {
        let datatype = datatype(proto.dtype)?;
        let shape = shape(proto.tensor_shape.as_ref())?;
        let Some(elements) = element_count(&shape) else {
            return Err(TensorError::TooLarge(shape).to_string());
        };
        let field = field(datatype);
        let got = lengths(&proto);
        let in_wanted = got.iter().find(|(name, _)| *name == field).map_or(0, |(_, got)| *got);
        if let Some((other, _)) = got.iter().find(|(name, got)| *got > 0 && *name != field) {
            let name = tf_serving::dtype(datatype);
            return Err(format!("{name} comes in `{field}` or `tensor_content`, got `{other}`"));
        }
        if !proto.tensor_content.is_empty() && in_wanted > 0 {
            return Err(format!("it has both `tensor_content` and `{field}`"));
        }
        if in_wanted > elements {
            let (name, shape) = (tf_serving::dtype(datatype), ShownShape(&shape));
            return Err(format!("{name} of shape {shape} takes {elements} elements, got {in_wanted}"));
        }
        let bytes = match (datatype.size(), proto.tensor_content.len()) {
            (Some(size), 0) => elements.saturating_mul(size),
            (Some(_), content) => content,
            (None, 0) => {
                let texts: usize = proto.string_val.iter().map(Bytes::len).sum();
                let last = proto.string_val.last().map_or(0, Bytes::len);
                let missing = elements.saturating_sub(in_wanted).saturating_mul(last);
                elements.saturating_mul(PREFIX).saturating_add(texts).saturating_add(missing)
            }
            // A byte of the content is at least the length of each.
            (None, content) => elements.min(content).saturating_mul(PREFIX).saturating_add(content),
        };
        Ok(Plan { proto, datatype, shape, elements, bytes })
    }

    fn tensor(self, name: Arc<str>) -> Result<Tensor, String> {
        let Plan { proto, datatype, shape, elements, .. } = self;
        let data = match (proto.tensor_content.is_empty(), datatype) {
            (true, _) => typed(datatype, &proto, elements)?.into(),
            (false, Datatype::Bytes) => from_content(&proto.tensor_content, elements)?.into(),
            (false, _) => proto.tensor_content,
        };
        Tensor::new(name, datatype, shape, data).map_err(|error| error.to_string())
    }
}

/// The datatype of TensorFlow's number.
fn datatype(number: i32) -> Result<Datatype, String> {
    let Ok(data_type) = DataType::try_from(number) else {
        return Err(format!("there is no `dtype` {number}"));
    };
    let name = data_type.as_str_name();
    let found = Datatype::ALL.into_iter().find(|datatype| tf_serving::dtype(*datatype) == name);
    found.ok_or_else(|| match data_type {
        DataType::DtInvalid => "it has no `dtype`".to_owned(),
        _ => format!("this server has no datatype for {name}"),
    })
}

/// TensorFlow's number of a datatype.
pub(super) fn data_type(datatype: Datatype) -> DataType {
    // Every datatype has one.
    DataType::from_str_name(tf_serving::dtype(datatype)).unwrap_or(DataType::DtInvalid)
}

/// A shape whose every extent is known. None at all is that of a scalar.
fn shape(shape: Option<&TensorShapeProto>) -> Result<Vec<u64>, String> {
    let Some(TensorShapeProto { dim, unknown_rank }) = shape else { return Ok(Vec::new()) };
    if *unknown_rank {
        return Err("its shape has no rank".to_owned());
    }
    if dim.len() > LARGEST_RANK {
        return Err(TensorError::Rank(dim.len()).to_string());
    }
    let extent = |dim: &Dim| {
        u64::try_from(dim.size).map_err(|_| format!("an extent of a shape cannot be {}", dim.size))
    };
    dim.iter().map(extent).collect()
}

/// A shape as a message. -1 is any.
pub(super) fn shape_of(extents: impl IntoIterator<Item = i64>) -> Option<TensorShapeProto> {
    let dim = |size: i64| Dim { size, name: String::new() };
    Some(TensorShapeProto { dim: extents.into_iter().map(dim).collect(), unknown_rank: false })
}

/// The field that elements of a datatype come in.
fn field(datatype: Datatype) -> &'static str {
    match datatype {
        Datatype::Fp16 | Datatype::Bf16 => "half_val",
        Datatype::Fp32 => "float_val",
        Datatype::Fp64 => "double_val",
        Datatype::Int8 | Datatype::Int16 | Datatype::Int32 | Datatype::Uint8 | Datatype::Uint16 => "int_val",
        Datatype::Int64 => "int64_val",
        Datatype::Uint32 => "uint32_val",
        Datatype::Uint64 => "uint64_val",
        Datatype::Bool => "bool_val",
        Datatype::Bytes => "string_val",
    }
}

/// The fields of elements, and how many each has.
fn lengths(proto: &TensorProto) -> [(&'static str, usize); 9] {
    [
        ("half_val", proto.half_val.len()),
        ("float_val", proto.float_val.len()),
        ("double_val", proto.double_val.len()),
        ("int_val", proto.int_val.len()),
        ("int64_val", proto.int64_val.len()),
        ("uint32_val", proto.uint32_val.len()),
        ("uint64_val", proto.uint64_val.len()),
        ("bool_val", proto.bool_val.len()),
        ("string_val", proto.string_val.len()),
    ]
}

/// Little-endian elements of typed fields: the last one again for those that are missing, zeros if there is
/// none.
fn typed(datatype: Datatype, proto: &TensorProto, elements: usize) -> Result<Vec<u8>, String> {
    let data = match datatype {
        Datatype::Bool => proto.bool_val.iter().map(|value| u8::from(*value)).collect(),
        Datatype::Int8 => narrowed::<_, i8>(&proto.int_val, datatype)?,
        Datatype::Int16 => narrowed::<_, i16>(&proto.int_val, datatype)?,
        Datatype::Int32 => plain(&proto.int_val),
        Datatype::Int64 => plain(&proto.int64_val),
        Datatype::Uint8 => narrowed::<_, u8>(&proto.int_val, datatype)?,
        Datatype::Uint16 => narrowed::<_, u16>(&proto.int_val, datatype)?,
        Datatype::Uint32 => plain(&proto.uint32_val),
        Datatype::Uint64 => plain(&proto.uint64_val),
        Datatype::Fp16 | Datatype::Bf16 => narrowed::<_, u16>(&proto.half_val, datatype)?,
        Datatype::Fp32 => plain(&proto.float_val),
        Datatype::Fp64 => plain(&proto.double_val),
        Datatype::Bytes => {
            let empty = Bytes::new();
            let last = proto.string_val.last().unwrap_or(&empty);
            return texts(proto.string_val.iter().chain(iter::repeat(last)).take(elements));
        }
    };
    let size = datatype.size().unwrap_or(1);
    Ok(filled(data, size, elements))
}

/// `elements` of `size` bytes, the last one again where there are fewer.
fn filled(mut data: Vec<u8>, size: usize, elements: usize) -> Vec<u8> {
    let wanted = elements.saturating_mul(size);
    let last = data.len().checked_sub(size).and_then(|at| data.get(at..)).map(<[u8]>::to_vec);
    match last.filter(|last| last.iter().any(|byte| *byte != 0)) {
        None => data.resize(wanted, 0),
        Some(last) => {
            let missing = wanted.saturating_sub(data.len()) / size.max(1);
            data.reserve_exact(missing.saturating_mul(size));
            (0..missing).for_each(|_| data.extend_from_slice(&last));
        }
    }
    data
}

/// BYTES of `tensor_content`: the lengths of all, as varints, then all texts.
fn from_content(content: &Bytes, elements: usize) -> Result<Vec<u8>, String> {
    let broken = || format!("`tensor_content` does not hold {elements} strings");
    let mut rest = content.clone();
    // Each length has a byte at least.
    let mut lengths = Vec::with_capacity(elements.min(content.len()));
    for _ in 0..elements {
        lengths.push(varint(&mut rest).ok_or_else(broken)?);
    }
    let mut data = Vec::with_capacity(lengths.len().saturating_mul(PREFIX).saturating_add(rest.len()));
    for length in lengths {
        let text = rest.get(..length).ok_or_else(broken)?;
        if !push_bytes_element(&mut data, text) {
            return Err("an element of 4 GiB or more".to_owned());
        }
        rest.advance(length);
    }
    if rest.is_empty() { Ok(data) } else { Err(broken()) }
}

/// A length of at most 32 bits.
fn varint(bytes: &mut Bytes) -> Option<usize> {
    let mut value = 0_u64;
    for shift in (0..35).step_by(7) {
        let byte = bytes.try_get_u8().ok()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return usize::try_from(u32::try_from(value).ok()?).ok();
        }
    }
    None
}

/// An output, its elements in the field of their type.
pub(super) fn written(tensor: &Tensor) -> TensorProto {
    let Tensor { datatype, shape, data, .. } = tensor;
    let extents = shape.iter().map(|extent| i64::try_from(*extent).unwrap_or(i64::MAX));
    let mut proto = TensorProto {
        dtype: data_type(*datatype).into(),
        tensor_shape: shape_of(extents),
        ..TensorProto::default()
    };
    match datatype {
        Datatype::Bool => proto.bool_val = data.iter().map(|byte| *byte != 0).collect(),
        Datatype::Int8 => proto.int_val = each(data, |[byte]: [u8; 1]| i8::from_le_bytes([byte]).into()),
        Datatype::Uint8 => proto.int_val = each(data, |[byte]: [u8; 1]| byte.into()),
        Datatype::Int16 => proto.int_val = each(data, |bytes| i16::from_le_bytes(bytes).into()),
        Datatype::Uint16 => proto.int_val = each(data, |bytes| u16::from_le_bytes(bytes).into()),
        Datatype::Fp16 | Datatype::Bf16 => {
            proto.half_val = each(data, |bytes| u16::from_le_bytes(bytes).into());
        }
        Datatype::Int32 => proto.int_val = each(data, i32::from_le_bytes),
        Datatype::Uint32 => proto.uint32_val = each(data, u32::from_le_bytes),
        Datatype::Int64 => proto.int64_val = each(data, i64::from_le_bytes),
        Datatype::Uint64 => proto.uint64_val = each(data, u64::from_le_bytes),
        Datatype::Fp32 => proto.float_val = each(data, f32::from_le_bytes),
        Datatype::Fp64 => proto.double_val = each(data, f64::from_le_bytes),
        // A tensor's data can be read to its end.
        Datatype::Bytes => {
            let elements = BytesElements::new(data).flatten();
            proto.string_val = elements.map(|element| data.slice_ref(element)).collect();
        }
    }
    proto
}

#[cfg(test)]
mod tests;
