//! A tensor in TensorFlow's memory.
//!
//! Place in the flow: what `session` makes of an input, and what a run of a `Graph` returns.
//!
//! Invariant: an array is written while it is made and never after, so any thread may read it.

use std::ffi::c_int;
use std::{mem, ptr, slice};

use super::{Api, Owned, RawString, RawTensor};
use crate::model::tensorflow::saved_model;
use crate::tensor::{Datatype, LARGEST_RANK, element_count};

/// A tensor that TensorFlow owns the memory of.
#[derive(Debug)]
pub struct Array {
    api: &'static Api,
    raw: Owned<RawTensor>,
}

// SAFETY: TensorFlow counts references to a tensor's memory atomically, so an array may be read and deleted
// on any thread; its memory is not written any more. An operation that would write in place makes a copy
// while there is another reference.
unsafe impl Send for Array {}
// SAFETY: as above; every function that a shared array is given to takes it as `const`.
unsafe impl Sync for Array {}

impl Array {
    /// Takes over what a run returned; `None` for null.
    ///
    /// # Safety
    /// `raw` is null or a tensor of the library that nothing else deletes or writes.
    pub(super) unsafe fn own(api: &'static Api, raw: *mut RawTensor) -> Option<Array> {
        // SAFETY: promised by the caller.
        let raw = unsafe { Owned::new(raw, api.delete_tensor) };
        Some(Array { api, raw: raw? })
    }

    /// An array of numbers or booleans: a copy of `data`. `element_type` is TensorFlow's number of a type
    /// whose elements have a fixed size.
    ///
    /// # Errors
    /// Text for a caller: a shape that is too large, or data of another length than the engine expects.
    pub fn numbers(
        api: &'static Api,
        element_type: i32,
        shape: &[u64],
        data: &[u8],
    ) -> Result<Array, String> {
        let array = Array::allocate(api, element_type, shape, data.len())?;
        if !data.is_empty() {
            // SAFETY: `allocate` made a tensor of exactly this many bytes, which no other code knows of yet.
            unsafe { ptr::copy_nonoverlapping(data.as_ptr(), array.data().cast(), data.len()) };
        }
        Ok(array)
    }

    /// An array of strings: a copy of `elements`, which may hold any bytes.
    ///
    /// # Errors
    /// Text for a caller: a shape that is too large, or not of this many elements.
    pub fn strings(api: &'static Api, shape: &[u64], elements: &[&[u8]]) -> Result<Array, String> {
        if element_count(shape) != Some(elements.len()) {
            return Err(format!("shape {shape:?} has not {} elements", elements.len()));
        }
        let length = elements.len() * size_of::<RawString>();
        let array = Array::allocate(api, saved_model::number(Datatype::Bytes), shape, length)?;
        let first: *mut RawString = array.data().cast();
        // SAFETY: the memory has room for this many strings and is aligned for any type. Until they are all
        // initialised, nothing happens that could delete the array.
        unsafe { (0..elements.len()).for_each(|index| (api.string_init)(first.add(index))) };
        for (index, element) in elements.iter().enumerate() {
            // SAFETY: an initialised string of this array, and memory of its own of the length given.
            unsafe { (api.string_copy)(first.add(index), element.as_ptr().cast(), element.len()) };
        }
        Ok(array)
    }

    /// An array of exactly `length` bytes. Of strings, it must not be deleted before they are initialised.
    fn allocate(api: &'static Api, element_type: i32, shape: &[u64], length: usize) -> Result<Array, String> {
        let extents = extents(shape).ok_or_else(|| format!("shape {shape:?} is too large"))?;
        let rank = c_int::try_from(extents.len()).map_err(|error| error.to_string())?;
        // SAFETY: `extents` are as many as `rank` says; none is negative and their product does not overflow,
        // which would end the process. A length that does not fit gives null. The new tensor has one owner.
        let array =
            unsafe { Array::own(api, (api.allocate_tensor)(element_type, extents.as_ptr(), rank, length)) };
        let array = array.ok_or_else(|| format!("shape {shape:?} does not take {length} bytes"))?;
        if array.size() != length || (length > 0 && array.data().is_null()) {
            // Left alone: were it of strings, deleting it would free what was never there.
            mem::forget(array);
            return Err(format!("there is no memory for {length} bytes"));
        }
        Ok(array)
    }

    /// TensorFlow's number of the element type.
    pub fn element_type(&self) -> i32 {
        // SAFETY: the tensor is alive.
        unsafe { (self.api.tensor_type)(self.as_ptr()) }
    }

    /// Extents, outermost first.
    pub fn shape(&self) -> Vec<u64> {
        // SAFETY: the tensor is alive.
        let rank = unsafe { (self.api.tensor_rank)(self.as_ptr()) };
        // SAFETY: the tensor is alive and has such an extent.
        let extent = |index| unsafe { (self.api.tensor_extent)(self.as_ptr(), index) };
        (0..rank).map(|index| u64::try_from(extent(index)).unwrap_or(0)).collect()
    }

    /// The elements of an array of strings.
    ///
    /// # Errors
    /// The array holds none, or not as many as its shape says.
    pub fn elements(&self) -> Result<Vec<&[u8]>, String> {
        let is_text = self.element_type() == saved_model::number(Datatype::Bytes);
        let count = element_count(&self.shape())
            .filter(|count| is_text && count.checked_mul(size_of::<RawString>()) == Some(self.size()));
        let count = count.ok_or("it is not an array of strings")?;
        let first: *const RawString = self.data().cast();
        let element = |index| {
            // SAFETY: the tensor has this many strings, initialised by what made it; what they show lives and
            // stays as it is until the array is deleted.
            let (data, size) = unsafe {
                let string = first.add(index);
                ((self.api.string_data)(string), (self.api.string_size)(string))
            };
            // SAFETY: as above; null is possible for none.
            if size == 0 { &[][..] } else { unsafe { slice::from_raw_parts(data.cast(), size) } }
        };
        Ok((0..count).map(element).collect())
    }

    pub(super) fn as_ptr(&self) -> *mut RawTensor {
        self.raw.as_ptr()
    }

    fn size(&self) -> usize {
        // SAFETY: the tensor is alive.
        unsafe { (self.api.tensor_size)(self.as_ptr()) }
    }

    fn data(&self) -> *mut u8 {
        // SAFETY: the tensor is alive.
        unsafe { (self.api.tensor_data)(self.as_ptr()) }.cast()
    }
}

/// The bytes of an array of numbers or booleans.
impl AsRef<[u8]> for Array {
    fn as_ref(&self) -> &[u8] {
        match self.size() {
            // There may be no memory to point at.
            0 => &[],
            // SAFETY: the tensor is alive for as long as the slice, and has this many bytes.
            size => unsafe { slice::from_raw_parts(self.data(), size) },
        }
    }
}

/// `shape` as the library takes it; `None` if it would end the process over it.
fn extents(shape: &[u64]) -> Option<Vec<i64>> {
    if shape.len() > LARGEST_RANK {
        return None;
    }
    let extents = shape.iter().map(|extent| i64::try_from(*extent).ok()).collect::<Option<Vec<_>>>()?;
    // The library multiplies before it meets a zero. The largest element has 24 bytes.
    extents.iter().try_fold(24i64, |product, extent| product.checked_mul((*extent).max(1)))?;
    Some(extents)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_that_would_end_the_process_stay_here() {
        assert_eq!(extents(&[2, 0, 3]), Some(vec![2, 0, 3]));
        assert_eq!(extents(&[]), Some(Vec::new()));
        let large = 1 << 40;
        for shape in
            [&[u64::MAX][..], &[1 << 62], &[large, large], &[large, large, 0], &[0, large, large], &[1; 33]]
        {
            assert_eq!(extents(shape), None, "{shape:?}");
        }
    }
}
