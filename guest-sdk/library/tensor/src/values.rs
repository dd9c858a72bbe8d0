//! Elements of tensors as numbers.
//!
//! In:  tensors. Out: their elements, in order.

use half::{bf16, f16};

use crate::shape::name;
use crate::{Datatype, Tensor};

/// An element.
pub trait Element: Copy + PartialOrd {
    /// From its bytes, as many as it has.
    fn read(bytes: &[u8]) -> Self;
    /// Whether it is no number, which is larger than any, as for NumPy.
    fn is_nan(self) -> bool {
        false
    }
}

macro_rules! elements {
    ($($type:ty $(: $nan:ident)?),*) => {$(
        impl Element for $type {
            fn read(bytes: &[u8]) -> $type {
                bytes.try_into().map(<$type>::from_le_bytes).unwrap_or_default()
            }
            $(fn is_nan(self) -> bool {
                <$type>::$nan(self)
            })?
        }
    )*};
}

elements!(u8, u16, u32, u64, i8, i16, i32, i64, f16: is_nan, bf16: is_nan, f32: is_nan, f64: is_nan);

/// What is done with the elements of any type.
pub trait Work {
    type Output;
    fn with<T: Element>(self, values: &[T]) -> Self::Output;
}

/// Reads a tensor's elements and does `work` with them.
pub fn of_any<W: Work>(tensor: &Tensor, work: W) -> W::Output {
    match tensor.datatype {
        Datatype::Boolean | Datatype::Uint8 => work.with(&read::<u8>(tensor)),
        Datatype::Uint16 => work.with(&read::<u16>(tensor)),
        Datatype::Uint32 => work.with(&read::<u32>(tensor)),
        Datatype::Uint64 => work.with(&read::<u64>(tensor)),
        Datatype::Int8 => work.with(&read::<i8>(tensor)),
        Datatype::Int16 => work.with(&read::<i16>(tensor)),
        Datatype::Int32 => work.with(&read::<i32>(tensor)),
        Datatype::Int64 => work.with(&read::<i64>(tensor)),
        Datatype::Fp16 => work.with(&read::<f16>(tensor)),
        Datatype::Bf16 => work.with(&read::<bf16>(tensor)),
        Datatype::Fp32 => work.with(&read::<f32>(tensor)),
        Datatype::Fp64 => work.with(&read::<f64>(tensor)),
    }
}

/// The elements of a tensor of floats.
///
/// # Errors
/// It has others.
pub fn floats(tensor: &Tensor, what: &str) -> Result<Vec<f32>, String> {
    match tensor.datatype {
        Datatype::Fp16 => Ok(read::<f16>(tensor).into_iter().map(f16::to_f32).collect()),
        Datatype::Bf16 => Ok(read::<bf16>(tensor).into_iter().map(bf16::to_f32).collect()),
        Datatype::Fp32 => Ok(read(tensor)),
        Datatype::Fp64 => Ok(read::<f64>(tensor).into_iter().map(|value| value as f32).collect()),
        other => Err(format!("{what} of {}, expected FP32, FP16, BF16 or FP64", name(other))),
    }
}

/// The elements of a tensor of places or classes.
///
/// # Errors
/// It has others.
pub fn integers(tensor: &Tensor, what: &str) -> Result<Vec<i64>, String> {
    match tensor.datatype {
        Datatype::Int64 => Ok(read(tensor)),
        Datatype::Int32 => Ok(read::<i32>(tensor).into_iter().map(i64::from).collect()),
        other => Err(format!("{what} of {}, expected INT64 or INT32", name(other))),
    }
}

/// Whether elements are other than 0.
pub struct NotZero;

impl Work for NotZero {
    type Output = Vec<bool>;

    fn with<T: Element>(self, values: &[T]) -> Vec<bool> {
        let zero = T::read([0; 8].get(..size_of::<T>()).unwrap_or_default());
        values.iter().map(|value| *value != zero).collect()
    }
}

fn read<T: Element>(tensor: &Tensor) -> Vec<T> {
    tensor.data.chunks_exact(size_of::<T>()).map(T::read).collect()
}
