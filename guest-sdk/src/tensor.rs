//! Typed values over a tensor's bytes: the one file that knows how elements lie in memory.
//!
//! In:   a slice of elements, or the `list<u8>` that crossed the boundary.
//! Out:  the other of the two. Reading copies nothing if the bytes are aligned for the element, which they
//!       are in a component (its allocator aligns every block to 8 bytes); writing copies once, or not at all
//!       through [`Tensor::build`].
//!
//! Nothing here checks a tensor against its shape when it is made: the host does, and names what is wrong.

use std::borrow::Cow;
use std::fmt;

use bytemuck::checked::{try_cast_slice, try_cast_slice_mut, try_pod_read_unaligned};
use bytemuck::{CheckedBitPattern, NoUninit, PodCastError, Zeroable, checked::CheckedCastError};

use crate::{Datatype, Tensor, bf16, f16};

mod sealed {
    pub trait Sealed {}
}

/// A Rust type that is a tensor's element: numbers, `bool`, [`f16`](struct@f16) and [`bf16`].
pub trait Element: CheckedBitPattern + NoUninit + Zeroable + sealed::Sealed {
    /// Its name in the contract.
    const DATATYPE: Datatype;
}

macro_rules! elements {
    ($($rust:ty => $datatype:ident),+ $(,)?) => {
        $(
            impl sealed::Sealed for $rust {}
            impl Element for $rust {
                const DATATYPE: Datatype = Datatype::$datatype;
            }
        )+
    };
}

elements! {
    bool => Bool,
    u8 => Uint8, u16 => Uint16, u32 => Uint32, u64 => Uint64,
    i8 => Int8, i16 => Int16, i32 => Int32, i64 => Int64,
    f16 => Fp16, bf16 => Bf16, f32 => Fp32, f64 => Fp64,
}

/// Why a tensor has no view of the wanted type. The text names the tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TensorError {
    /// It holds another type.
    Datatype {
        /// The tensor's name.
        tensor: String,
        /// The datatype of its elements.
        actual: Datatype,
        /// The datatype that was asked for.
        wanted: Datatype,
    },
    /// Its bytes are not what its datatype and shape promise.
    Data {
        /// The tensor's name.
        tensor: String,
        /// The reason.
        why: &'static str,
    },
    /// No tensor has this name.
    Absent {
        /// The name that was asked for.
        wanted: String,
        /// The names there are.
        names: Vec<String>,
    },
}

impl fmt::Display for TensorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TensorError::Datatype { tensor, actual, wanted } => {
                write!(f, "tensor `{tensor}` holds {actual}, not {wanted}")
            }
            TensorError::Data { tensor, why } => write!(f, "tensor `{tensor}` {why}"),
            TensorError::Absent { wanted, names } => {
                write!(f, "no tensor is called `{wanted}`; there is ")?;
                match names.as_slice() {
                    [] => f.write_str("none at all"),
                    names => write!(f, "`{}`", names.join("`, `")),
                }
            }
        }
    }
}

impl std::error::Error for TensorError {}

impl Datatype {
    /// The name in the Open Inference Protocol: `FP32`.
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
}

impl fmt::Display for Datatype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Tensor {
    /// A tensor of these values, row-major. `Tensor::new("input", [2, 4], &values)` is two rows of four.
    ///
    /// The element type follows from `values`. The name is the model's input; the empty string is its only
    /// one.
    pub fn new<T: Element>(name: impl Into<String>, shape: impl Into<Vec<u64>>, values: &[T]) -> Tensor {
        let data = bytemuck::cast_slice::<T, u8>(values).to_vec();
        Tensor { name: name.into(), datatype: T::DATATYPE, shape: shape.into(), data }
    }

    /// A tensor whose values `fill` writes in place, into zeros: for large ones, without a copy.
    ///
    /// ```
    /// # use modelhost_guest::Tensor;
    /// # let pixels = vec![0u8; 12];
    /// let tensor = Tensor::build("data", [1, 3, 2, 2], |values: &mut [f32]| {
    ///     for (value, pixel) in values.iter_mut().zip(&pixels) {
    ///         *value = f32::from(*pixel) / 255.0;
    ///     }
    /// });
    /// ```
    ///
    /// # Panics
    /// If memory cannot hold a tensor of this shape.
    pub fn build<T: Element>(
        name: impl Into<String>,
        shape: impl Into<Vec<u64>>,
        fill: impl FnOnce(&mut [T]),
    ) -> Tensor {
        let shape = shape.into();
        let bytes = shape.iter().fold(size_of::<T>(), |product, extent| {
            product.saturating_mul(usize::try_from(*extent).unwrap_or(usize::MAX))
        });
        let mut data = vec![0u8; bytes];
        match try_cast_slice_mut::<u8, T>(&mut data) {
            Ok(values) => fill(values),
            // No allocator in use hands out a block that is not aligned for its size; were one to, this is
            // right too.
            Err(_) => {
                let mut values = vec![T::zeroed(); bytes / size_of::<T>()];
                fill(&mut values);
                data = bytemuck::cast_slice(&values).to_vec();
            }
        }
        Tensor { name: name.into(), datatype: T::DATATYPE, shape, data }
    }

    /// A tensor of strings or blobs: `Tensor::from_bytes("text", [2], ["a", "b"])`.
    ///
    /// # Panics
    /// If an element is 4 GiB or longer, which no component's memory holds.
    pub fn from_bytes<I>(name: impl Into<String>, shape: impl Into<Vec<u64>>, elements: I) -> Tensor
    where
        I: IntoIterator<Item: AsRef<[u8]>>,
    {
        let mut data = Vec::new();
        for element in elements {
            let element = element.as_ref();
            #[expect(clippy::expect_used, reason = "documented; memory is 32 bits wide where handlers run")]
            let length = u32::try_from(element.len()).expect("an element is 4 GiB or longer");
            data.extend_from_slice(&length.to_le_bytes());
            data.extend_from_slice(element);
        }
        Tensor { name: name.into(), datatype: Datatype::Bytes, shape: shape.into(), data }
    }

    /// The tensor called `name`.
    ///
    /// # Errors
    /// [`TensorError::Absent`], which names those there are.
    pub fn named<'a>(tensors: &'a [Tensor], name: &str) -> Result<&'a Tensor, TensorError> {
        tensors.iter().find(|tensor| tensor.name == name).ok_or_else(|| TensorError::Absent {
            wanted: name.into(),
            names: tensors.iter().map(|tensor| tensor.name.clone()).collect(),
        })
    }

    /// All values, row-major; borrowed wherever the bytes are aligned for `T`.
    ///
    /// # Errors
    /// [`TensorError::Datatype`] if `T` is not the tensor's type: nothing is converted.
    pub fn values<T: Element>(&self) -> Result<Cow<'_, [T]>, TensorError> {
        if self.datatype != T::DATATYPE {
            return Err(TensorError::Datatype {
                tensor: self.name.clone(),
                actual: self.datatype,
                wanted: T::DATATYPE,
            });
        }
        view(&self.data).map_err(|error| {
            self.data_error(match error {
                CheckedCastError::InvalidBitPattern => "has a boolean that is neither 0 nor 1",
                CheckedCastError::PodCastError(_) => "is cut short inside an element",
            })
        })
    }

    /// The values cut along the first extent: of `[2, 3, 4]` two rows of twelve. A scalar is one row of one.
    ///
    /// # Errors
    /// As for [`values`](Tensor::values); also if shape and data do not agree.
    pub fn rows<T: Element>(&self) -> Result<Rows<'_, T>, TensorError> {
        let values = self.values::<T>()?;
        let extent = |extent: &u64| usize::try_from(*extent).unwrap_or(usize::MAX);
        let (count, width) = match self.shape.split_first() {
            Some((first, rest)) => {
                (extent(first), rest.iter().map(extent).fold(1usize, usize::saturating_mul))
            }
            None => (1, 1),
        };
        if count.saturating_mul(width) != values.len() {
            return Err(self.data_error("has another number of values than its shape says"));
        }
        Ok(Rows { values, count, width })
    }

    /// The elements of a [`Datatype::Bytes`] tensor, in order.
    ///
    /// # Errors
    /// [`TensorError::Datatype`] for any other tensor.
    pub fn bytes(&self) -> Result<Vec<&[u8]>, TensorError> {
        if self.datatype != Datatype::Bytes {
            return Err(TensorError::Datatype {
                tensor: self.name.clone(),
                actual: self.datatype,
                wanted: Datatype::Bytes,
            });
        }
        let mut elements = Vec::new();
        let mut rest = self.data.as_slice();
        while !rest.is_empty() {
            let element = rest.split_first_chunk::<4>().and_then(|(length, rest)| {
                rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)
            });
            let Some((element, after)) = element else {
                return Err(self.data_error("is cut short inside an element"));
            };
            elements.push(element);
            rest = after;
        }
        Ok(elements)
    }

    /// The elements of a [`Datatype::Bytes`] tensor as text.
    ///
    /// # Errors
    /// As for [`bytes`](Tensor::bytes); also if one is not UTF-8.
    pub fn strings(&self) -> Result<Vec<&str>, TensorError> {
        let text = |element| {
            std::str::from_utf8(element).map_err(|_| self.data_error("has an element that is not UTF-8"))
        };
        self.bytes()?.into_iter().map(text).collect()
    }

    fn data_error(&self, why: &'static str) -> TensorError {
        TensorError::Data { tensor: self.name.clone(), why }
    }
}

/// `data` as elements; a copy only if it is not aligned for them.
fn view<T: Element>(data: &[u8]) -> Result<Cow<'_, [T]>, CheckedCastError> {
    match try_cast_slice::<u8, T>(data) {
        Err(CheckedCastError::PodCastError(PodCastError::TargetAlignmentGreaterAndInputNotAligned)) => {
            let elements = data.chunks(size_of::<T>()).map(try_pod_read_unaligned);
            elements.collect::<Result<_, _>>().map(Cow::Owned)
        }
        view => view.map(Cow::Borrowed),
    }
}

/// A tensor's values, cut along its first extent.
#[derive(Debug, Clone, PartialEq)]
pub struct Rows<'a, T: Element> {
    values: Cow<'a, [T]>,
    count: usize,
    width: usize,
}

impl<T: Element> Rows<'_, T> {
    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Row `index`, if there are that many.
    pub fn get(&self, index: usize) -> Option<&[T]> {
        if index >= self.count {
            return None;
        }
        // In range of `values`, so neither product can overflow.
        self.values.get(index * self.width..(index + 1) * self.width)
    }

    /// The first row, if there is one.
    pub fn first(&self) -> Option<&[T]> {
        self.get(0)
    }

    /// One row after the other.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[T]> {
        (0..self.count).map(|index| self.get(index).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip<T: Element + fmt::Debug + PartialEq>(values: &[T]) {
        let tensor = Tensor::new("t", [values.len() as u64], values);
        assert_eq!(tensor.datatype, T::DATATYPE);
        assert_eq!(tensor.values::<T>().unwrap().as_ref(), values);
    }

    #[test]
    fn every_element_type_round_trips() {
        round_trip(&[true, false]);
        round_trip(&[0u8, u8::MAX]);
        round_trip(&[0u16, u16::MAX]);
        round_trip(&[0u32, u32::MAX]);
        round_trip(&[0u64, u64::MAX]);
        round_trip(&[i8::MIN, i8::MAX]);
        round_trip(&[i16::MIN, i16::MAX]);
        round_trip(&[i32::MIN, i32::MAX]);
        round_trip(&[i64::MIN, i64::MAX]);
        round_trip(&[f16::MIN, f16::from_f32(0.1)]);
        round_trip(&[bf16::MIN, bf16::from_f32(0.1)]);
        round_trip(&[f32::MIN, f32::INFINITY]);
        round_trip(&[f64::MIN, f64::MAX]);
        round_trip::<f64>(&[]);
    }

    #[test]
    fn values_are_little_endian_and_borrowed() {
        let tensor = Tensor::new("t", [2], &[1.0f32, -2.0]);
        assert_eq!(tensor.data, [0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0]);
        assert!(matches!(tensor.values::<f32>(), Ok(Cow::Borrowed([1.0, -2.0]))));
    }

    #[test]
    fn unaligned_bytes_are_read_too() {
        let words = [0u64; 4];
        let aligned = bytemuck::cast_slice::<u64, u8>(&words);
        for offset in 0..8 {
            let values = view::<u64>(&aligned[offset..offset + 16]).unwrap();
            assert_eq!(values.as_ref(), [0, 0]);
            assert_eq!(matches!(values, Cow::Borrowed(_)), offset == 0);
            assert!(view::<u64>(&aligned[offset..offset + 9]).is_err());
        }
    }

    #[test]
    fn rows_follow_the_first_extent() {
        let values: Vec<i32> = (0..12).collect();
        let tensor = Tensor::new("t", [2, 3, 2], &values);
        let rows = tensor.rows::<i32>().unwrap();
        assert_eq!(rows.iter().collect::<Vec<_>>(), [&values[..6], &values[6..]]);
        assert_eq!((rows.len(), rows.get(1), rows.get(2)), (2, Some(&values[6..]), None));

        assert_eq!(Tensor::new("t", [], &[5i32]).rows::<i32>().unwrap().first(), Some([5].as_slice()));
        assert!(Tensor::new::<i32>("t", [0, 4], &[]).rows::<i32>().unwrap().is_empty());
        let hollow = Tensor::new::<i32>("t", [2, 0], &[]);
        assert_eq!(hollow.rows::<i32>().unwrap().iter().collect::<Vec<_>>(), [[0i32; 0]; 2]);
    }

    #[test]
    fn building_in_place_equals_copying() {
        let built =
            Tensor::build("t", [1, 4], |values: &mut [f32]| values.copy_from_slice(&[1., 2., 3., 4.]));
        assert_eq!(built, Tensor::new("t", [1, 4], &[1f32, 2., 3., 4.]));
        let empty = Tensor::build("t", [0], |values: &mut [f64]| assert!(values.is_empty()));
        assert_eq!(empty, Tensor::new::<f64>("t", [0], &[]));
    }

    #[test]
    fn strings_carry_their_length() {
        let tensor = Tensor::from_bytes("t", [2], ["hé", ""]);
        assert_eq!(tensor.data, b"\x03\0\0\0h\xc3\xa9\0\0\0\0");
        assert_eq!(tensor.strings().unwrap(), ["hé", ""]);
        assert_eq!(tensor.bytes().unwrap(), ["hé".as_bytes(), b""]);
    }

    #[test]
    fn every_error_names_the_tensor() {
        let floats = Tensor::new("p", [1], &[1f32]);
        let error = |result: Result<(), TensorError>| result.unwrap_err().to_string();
        assert_eq!(error(floats.values::<i64>().map(drop)), "tensor `p` holds FP32, not INT64");
        assert_eq!(error(floats.strings().map(drop)), "tensor `p` holds FP32, not BYTES");

        let broken = |datatype, shape: &[u64], data: &[u8]| Tensor {
            name: "p".into(),
            datatype,
            shape: shape.to_vec(),
            data: data.to_vec(),
        };
        let truth = broken(Datatype::Bool, &[1], &[2]);
        assert_eq!(
            error(truth.values::<bool>().map(drop)),
            "tensor `p` has a boolean that is neither 0 nor 1"
        );
        let short = broken(Datatype::Fp32, &[1], &[0; 3]);
        assert_eq!(error(short.values::<f32>().map(drop)), "tensor `p` is cut short inside an element");
        let few = broken(Datatype::Fp32, &[2, u64::MAX], &[0; 4]);
        assert_eq!(
            error(few.rows::<f32>().map(drop)),
            "tensor `p` has another number of values than its shape says",
        );
        let cut = broken(Datatype::Bytes, &[1], &[9, 0, 0, 0, 1]);
        assert_eq!(error(cut.bytes().map(drop)), "tensor `p` is cut short inside an element");
        let latin = Tensor::from_bytes("p", [1], [b"\xe9"]);
        assert_eq!(error(latin.strings().map(drop)), "tensor `p` has an element that is not UTF-8");

        assert_eq!(Tensor::named(std::slice::from_ref(&floats), "p"), Ok(&floats));
        assert_eq!(
            error(Tensor::named(&[floats.clone(), floats], "q").map(drop)),
            "no tensor is called `q`; there is `p`, `p`",
        );
        assert_eq!(error(Tensor::named(&[], "q").map(drop)), "no tensor is called `q`; there is none at all");
    }
}
