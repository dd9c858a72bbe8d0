//! The vocabulary of data: datatypes, shapes, tensors, signatures.
//!
//! Place in the flow: everywhere; depends on nothing in this crate and on no engine.
//! Invariants: a [`Tensor`] built by [`Tensor::new`] holds exactly as many bytes as its shape and datatype
//! say (for [`Datatype::Bytes`]: exactly as many length-prefixed elements); its data is never written after.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

/// Element type of a tensor, named as in the Open Inference Protocol (`FP32`, `INT64`, `BYTES`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are the protocol's own")]
pub enum Datatype {
    Bool,
    Uint8,
    Uint16,
    Uint32,
    Uint64,
    Int8,
    Int16,
    Int32,
    Int64,
    Fp16,
    Bf16,
    Fp32,
    Fp64,
    Bytes,
}

impl Datatype {
    /// Every datatype.
    pub const ALL: [Datatype; 14] = [
        Datatype::Bool,
        Datatype::Uint8,
        Datatype::Uint16,
        Datatype::Uint32,
        Datatype::Uint64,
        Datatype::Int8,
        Datatype::Int16,
        Datatype::Int32,
        Datatype::Int64,
        Datatype::Fp16,
        Datatype::Bf16,
        Datatype::Fp32,
        Datatype::Fp64,
        Datatype::Bytes,
    ];

    /// The datatype that the protocol calls `name`.
    pub fn named(name: &str) -> Option<Datatype> {
        Datatype::ALL.into_iter().find(|datatype| datatype.name() == name)
    }

    /// Bytes an element takes; `None` for [`Datatype::Bytes`], whose elements carry their own length.
    #[inline]
    pub fn size(self) -> Option<usize> {
        match self {
            Datatype::Bool | Datatype::Uint8 | Datatype::Int8 => Some(1),
            Datatype::Uint16 | Datatype::Int16 | Datatype::Fp16 | Datatype::Bf16 => Some(2),
            Datatype::Uint32 | Datatype::Int32 | Datatype::Fp32 => Some(4),
            Datatype::Uint64 | Datatype::Int64 | Datatype::Fp64 => Some(8),
            Datatype::Bytes => None,
        }
    }

    /// Whether it has NaN and infinities.
    #[inline]
    pub fn is_float(self) -> bool {
        matches!(self, Datatype::Fp16 | Datatype::Bf16 | Datatype::Fp32 | Datatype::Fp64)
    }

    /// The protocol's name: `FP32`.
    #[inline]
    pub fn name(self) -> &'static str {
        match self {
            Datatype::Bool => "BOOL",
            Datatype::Uint8 => "UINT8",
            Datatype::Uint16 => "UINT16",
            Datatype::Uint32 => "UINT32",
            Datatype::Uint64 => "UINT64",
            Datatype::Int8 => "INT8",
            Datatype::Int16 => "INT16",
            Datatype::Int32 => "INT32",
            Datatype::Int64 => "INT64",
            Datatype::Fp16 => "FP16",
            Datatype::Bf16 => "BF16",
            Datatype::Fp32 => "FP32",
            Datatype::Fp64 => "FP64",
            Datatype::Bytes => "BYTES",
        }
    }

    /// numpy's name, as the describe call prints it: `float32`.
    pub fn numpy_name(self) -> &'static str {
        match self {
            Datatype::Bool => "bool",
            Datatype::Uint8 => "uint8",
            Datatype::Uint16 => "uint16",
            Datatype::Uint32 => "uint32",
            Datatype::Uint64 => "uint64",
            Datatype::Int8 => "int8",
            Datatype::Int16 => "int16",
            Datatype::Int32 => "int32",
            Datatype::Int64 => "int64",
            Datatype::Fp16 => "float16",
            Datatype::Bf16 => "bfloat16",
            Datatype::Fp32 => "float32",
            Datatype::Fp64 => "float64",
            Datatype::Bytes => "string",
        }
    }
}

impl fmt::Display for Datatype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A dense tensor: row-major, little-endian.
///
/// `data` is shared, not owned, so a model's output can reach the handler without a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    /// The model input or output it belongs to.
    pub name: Arc<str>,
    /// Element type.
    pub datatype: Datatype,
    /// Extents, outermost first; `[]` is a scalar.
    pub shape: Vec<u64>,
    /// `product(shape) * datatype.size()` bytes, or length-prefixed elements for [`Datatype::Bytes`].
    pub data: Bytes,
}

/// Most extents of a shape. No model has more, and a hostile handler's shape must not fill the log.
pub const LARGEST_RANK: usize = 32;

/// A shape as errors and log lines show it: `[2, 3]`. Of one with many extents the first ones, and how many
/// there are.
#[derive(Debug, Clone, Copy)]
pub struct ShownShape<'a>(pub &'a [u64]);

impl ShownShape<'_> {
    /// Most extents that are shown.
    const MOST: usize = 8;
}

impl fmt::Display for ShownShape<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ShownShape(shape) = self;
        match shape.get(..Self::MOST).filter(|first| first.len() < shape.len()) {
            None => write!(f, "{shape:?}"),
            Some(first) => {
                f.write_str("[")?;
                first.iter().try_for_each(|extent| write!(f, "{extent}, "))?;
                write!(f, "…] of {} extents", shape.len())
            }
        }
    }
}

/// Why bytes and a shape do not make a tensor. The text is fit for a caller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each message names its fields")]
pub enum TensorError {
    #[error("the shape has {0} extents, more than {LARGEST_RANK}")]
    Rank(usize),
    #[error("shape {} has more elements than memory can hold", ShownShape(.0))]
    TooLarge(Vec<u64>),
    #[error("{datatype} of shape {} takes {expected} bytes, got {actual}", ShownShape(.shape))]
    Length { datatype: Datatype, shape: Vec<u64>, expected: usize, actual: usize },
    #[error("BYTES data is cut short or has bytes left over")]
    BytesEncoding,
    #[error("BYTES of shape {} takes {expected} elements, got {actual}", ShownShape(.shape))]
    BytesCount { shape: Vec<u64>, expected: usize, actual: usize },
    #[error("BOOL data holds a byte that is neither 0 nor 1")]
    BoolValue,
}

impl Tensor {
    /// Checks that `data` is exactly what `datatype` and `shape` say and makes a tensor of it, without a
    /// copy.
    ///
    /// # Errors
    /// [`TensorError`]; hostile shapes whose element count overflows included.
    pub fn new(
        name: Arc<str>,
        datatype: Datatype,
        shape: Vec<u64>,
        data: Bytes,
    ) -> Result<Tensor, TensorError> {
        if shape.len() > LARGEST_RANK {
            return Err(TensorError::Rank(shape.len()));
        }
        let Some(elements) = element_count(&shape) else { return Err(TensorError::TooLarge(shape)) };
        match datatype.size() {
            Some(size) => {
                let Some(expected) = elements.checked_mul(size) else {
                    return Err(TensorError::TooLarge(shape));
                };
                if data.len() != expected {
                    return Err(TensorError::Length { datatype, shape, expected, actual: data.len() });
                }
                // An engine may treat any other byte as undefined, so it must never see one.
                if datatype == Datatype::Bool && data.iter().any(|byte| *byte > 1) {
                    return Err(TensorError::BoolValue);
                }
            }
            None => {
                let mut actual = 0usize;
                for element in BytesElements::new(&data) {
                    element?;
                    actual += 1;
                }
                if actual != elements {
                    return Err(TensorError::BytesCount { shape, expected: elements, actual });
                }
            }
        }
        Ok(Tensor { name, datatype, shape, data })
    }

    /// Number of elements.
    #[inline]
    pub fn elements(&self) -> usize {
        element_count(&self.shape).unwrap_or(0)
    }
}

/// Product of the extents; `None` if it overflows.
#[inline]
pub fn element_count(shape: &[u64]) -> Option<usize> {
    // A zero extent makes the product zero even if the other extents would overflow on the way there.
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(1usize, |product, extent| product.checked_mul(usize::try_from(*extent).ok()?))
}

/// The elements of [`Datatype::Bytes`] data, in order; ends after the first error.
#[derive(Debug, Clone)]
pub struct BytesElements<'a> {
    rest: &'a [u8],
}

impl<'a> BytesElements<'a> {
    /// Iterates over `data`, each element a 4-byte little-endian length and that many bytes.
    #[inline]
    pub fn new(data: &'a [u8]) -> Self {
        BytesElements { rest: data }
    }
}

impl<'a> Iterator for BytesElements<'a> {
    type Item = Result<&'a [u8], TensorError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let split = self.rest.split_first_chunk::<4>().and_then(|(length, rest)| {
            let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
            rest.split_at_checked(length)
        });
        let Some((element, rest)) = split else {
            self.rest = &[];
            return Some(Err(TensorError::BytesEncoding));
        };
        self.rest = rest;
        Some(Ok(element))
    }
}

/// Appends one element of [`Datatype::Bytes`] data. `false`, and nothing appended, if it is 4 GiB or longer.
pub fn push_bytes_element(data: &mut Vec<u8>, element: &[u8]) -> bool {
    let Ok(length) = u32::try_from(element.len()) else { return false };
    data.extend_from_slice(&length.to_le_bytes());
    data.extend_from_slice(element);
    true
}

/// One extent of a [`TensorSpec`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Extent {
    /// Exactly this many.
    Fixed(u64),
    /// Any number; the model's symbolic name for it if it has one (`N`, `batch`).
    Free(Option<Arc<str>>),
}

impl Extent {
    /// As protocols and handlers write it: -1 for a free one.
    #[inline]
    pub fn as_i64(&self) -> i64 {
        match self {
            Extent::Fixed(fixed) => i64::try_from(*fixed).unwrap_or(i64::MAX),
            Extent::Free(_) => -1,
        }
    }
}

/// How many bytes the first `count` elements of `data` take.
#[inline]
pub fn elements_length(datatype: Datatype, data: &[u8], count: usize) -> usize {
    match datatype.size() {
        Some(size) => count.saturating_mul(size),
        None => BytesElements::new(data).take(count).flatten().map(|element| 4 + element.len()).sum(),
    }
}

/// The description of a model's input or output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorSpec {
    /// Name of the input or output.
    pub name: Arc<str>,
    /// Element type.
    pub datatype: Datatype,
    /// Extents, outermost first.
    pub shape: Vec<Extent>,
    /// Its role beside the others.
    pub role: Role,
}

/// The role of a tensor among a model's inputs or outputs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// A value of its own.
    #[default]
    Plain,
    /// An input that may be left out: the model has a value for it.
    Optional,
    /// Of a list of maps, whose values are the output before: the keys. Both have a row for each map.
    Labels,
    /// Of a list of tensors, whose elements one after the other are the output before: a row of extents for
    /// each tensor, filled up with -1.
    Shapes,
}

impl Role {
    /// Whether it only completes the tensor before it.
    pub fn completes(self) -> bool {
        matches!(self, Role::Labels | Role::Shapes)
    }
}

impl TensorSpec {
    /// Whether it may be left out.
    pub fn is_optional(&self) -> bool {
        self.role == Role::Optional
    }

    /// Whether a tensor of `shape` may be passed as it is: same rank, every fixed extent equal.
    pub fn accepts(&self, shape: &[u64]) -> bool {
        self.shape.len() == shape.len()
            && self.shape.iter().zip(shape).all(|(spec, extent)| match spec {
                Extent::Fixed(fixed) => fixed == extent,
                Extent::Free(_) => true,
            })
    }

    /// Whether every tensor that fits here fits `other` too, and none where none is needed here.
    fn is_served_by(&self, other: &TensorSpec) -> bool {
        self.datatype == other.datatype
            && (self.role == other.role || other.is_optional())
            && self.shape.len() == other.shape.len()
            && self.shape.iter().zip(&other.shape).all(|extents| match extents {
                (Extent::Fixed(our), Extent::Fixed(their)) => our == their,
                (Extent::Free(_), Extent::Fixed(_)) => false,
                (_, Extent::Free(_)) => true,
            })
    }

    /// The smallest shape with elements that fits: free extents count as one.
    pub fn smallest_shape(&self) -> Vec<u64> {
        let smallest = |extent: &Extent| match extent {
            Extent::Fixed(extent) => *extent,
            Extent::Free(_) => 1,
        };
        self.shape.iter().map(smallest).collect()
    }
}

/// `FP32 [N, 4]`; a free extent without a name is `-1`.
impl fmt::Display for TensorSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [", self.datatype)?;
        for (index, extent) in self.shape.iter().enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            match extent {
                Extent::Fixed(fixed) => write!(f, "{fixed}")?,
                Extent::Free(Some(name)) => f.write_str(name)?,
                Extent::Free(None) => f.write_str("-1")?,
            }
        }
        f.write_str("]")
    }
}

/// A model's inputs and outputs, in the model's own order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Signature {
    /// The inputs; optional ones come last.
    pub inputs: Vec<TensorSpec>,
    /// The outputs.
    pub outputs: Vec<TensorSpec>,
}

impl Signature {
    /// The inputs of a model that have to be given.
    pub fn required(&self) -> &[TensorSpec] {
        let count = self.inputs.partition_point(|input| !input.is_optional());
        self.inputs.get(..count).unwrap_or_default()
    }

    /// The outputs, each with the one that completes it, if it is more than a tensor.
    pub fn values(&self) -> impl Iterator<Item = (&TensorSpec, Option<&TensorSpec>)> {
        let next = self.outputs.iter().skip(1).map(Some).chain([None]);
        let values = self.outputs.iter().zip(next).filter(|(spec, _)| !spec.role.completes());
        values.map(|(spec, next)| (spec, next.filter(|next| next.role.completes())))
    }

    /// Which inputs `given` are, in signature order; `None` if they are those that have to be given and no
    /// other.
    ///
    /// # Errors
    /// A tensor that is named as none of the inputs after the one before.
    pub fn places(&self, given: &[Tensor]) -> Result<Option<Vec<usize>>, String> {
        if given.len() == self.required().len() {
            return Ok(None);
        }
        let mut inputs = self.inputs.iter().enumerate();
        let place = |tensor: &Tensor| {
            let found = inputs.find(|(_, input)| input.name == tensor.name);
            found.map(|(place, _)| place).ok_or_else(|| format!("`{}` is not the next input", tensor.name))
        };
        given.iter().map(place).collect::<Result<_, _>>().map(Some)
    }

    /// The first thing in which a model of signature `other` would differ from this one for a client; `None`
    /// if nothing does. Names of extents do not count, and a free extent stands for a fixed one.
    pub fn mismatch(&self, other: &Signature) -> Option<String> {
        let pairs = [("input", &self.inputs, &other.inputs), ("output", &self.outputs, &other.outputs)];
        pairs.into_iter().find_map(|(kind, ours, theirs)| {
            let missing_or_other = ours.iter().find_map(|our| {
                let name = &our.name;
                match theirs.iter().find(|their| their.name == *name) {
                    None => Some(format!("{kind} `{name}` is missing")),
                    Some(their) if !our.is_served_by(their) => {
                        Some(format!("{kind} `{name}`: expected {our}, found {their}"))
                    }
                    Some(_) => None,
                }
            });
            missing_or_other.or_else(|| {
                let is_new = |their: &&TensorSpec| {
                    !their.is_optional() && ours.iter().all(|our| our.name != their.name)
                };
                let new = theirs.iter().find(is_new)?;
                Some(format!("{kind} `{}` is new", new.name))
            })
        })
    }
}
