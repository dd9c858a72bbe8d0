//! The calls to ONNX Runtime's C interface that a run on the CPU makes, as safe functions.
//!
//! Flow: `session → value → [api] → ONNX Runtime`.
//! In:   bytes, extents, element types. Out: values that own what they show; errors in the engine's words.
//!
//! Models are loaded through `ort`, and run through it on a GPU. Its way to run one asks of every value also
//! who allocated it and what its extents are called, and copies every name; docs/decisions says what that
//! costs.
//!
//! Invariants: a value is released once, when its owner goes; bytes are shown only as many as extents and
//! element type say and only while their owner lives; nothing with extents whose product overflows reaches
//! the engine, which multiplies them without looking.

#![allow(unsafe_code, reason = "calls into a C library; each call says why it is sound")]

use std::ffi::{CString, c_char};
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::LazyLock;

use ort::memory::MemoryInfo;
use ort::session::SharedSessionInner;
use ort::sys::{OrtMemoryInfoDeviceType, OrtStatusPtr, OrtTensorTypeAndShapeInfo, OrtValue};
use ort::value::TensorElementType;
use ort::{AsPointer as _, Error, api};

use crate::tensor::{Signature, element_count};

/// A tensor of the engine. `'a`: of the bytes that it shows, if they are not its own.
// With the layout of the pointer, so that a slice of values is what the engine takes.
#[repr(transparent)]
#[derive(Debug)]
pub struct Value<'a> {
    pointer: NonNull<OrtValue>,
    bytes: PhantomData<&'a [u8]>,
}

// SAFETY: a value belongs to no thread, its owners are counted atomically, and nothing here writes one that
// is shared.
unsafe impl Send for Value<'_> {}
// SAFETY: as above.
unsafe impl Sync for Value<'_> {}

impl Drop for Value<'_> {
    fn drop(&mut self) {
        // SAFETY: the pointer came from the engine, and this is its only owner.
        unsafe { (api().ReleaseValue)(self.pointer.as_ptr()) }
    }
}

impl<'a> Value<'a> {
    /// A tensor of numbers over `data`, where it lies; over a copy if that is not aligned for its elements.
    ///
    /// # Errors
    /// `data` is not as long as `shape` says, has other booleans than 0 and 1, or `element` is not a type of
    /// numbers.
    pub fn numbers(data: &'a [u8], shape: &[u64], element: TensorElementType) -> Result<Value<'a>, Error> {
        /// The CPU's memory, for the engine.
        static CPU: LazyLock<MemoryInfo<'static>> = LazyLock::new(MemoryInfo::default);

        let size = element.byte_size(1).filter(|size| *size > 0).ok_or_else(|| Error::new("not numbers"))?;
        if count(shape)?.checked_mul(size) != Some(data.len()) {
            return Err(Error::new("its size is not that of its shape"));
        }
        if element == TensorElementType::Bool && data.iter().any(|byte| *byte > 1) {
            return Err(Error::new("a byte that is neither 0 nor 1"));
        }
        if !data.as_ptr().addr().is_multiple_of(size) {
            return Value::copied(data, shape, element);
        }
        let extents = extents(shape);
        let mut made = ptr::null_mut();
        // SAFETY: `data` is valid for reads for `'a`, aligned, as long as extents and type say, and holds
        // only what its type can (all checked above); the engine does not write to the inputs of a run. The
        // other pointers are valid for the call.
        done(unsafe {
            (api().CreateTensorWithDataAsOrtValue)(
                CPU.ptr(),
                data.as_ptr().cast_mut().cast(),
                data.len(),
                extents.as_ptr(),
                extents.len(),
                element.into(),
                &raw mut made,
            )
        })?;
        Value::owned(made)
    }

    /// A tensor of strings, copied.
    ///
    /// # Errors
    /// `elements` are not as many as `shape` says.
    pub fn strings(elements: &[&[u8]], shape: &[u64]) -> Result<Value<'static>, Error> {
        if count(shape)? != elements.len() {
            return Err(Error::new("its elements are not as many as its shape says"));
        }
        let value = Value::empty(shape, TensorElementType::String)?;
        for (index, element) in elements.iter().enumerate() {
            let mut buffer = ptr::null_mut::<c_char>();
            // SAFETY: a tensor of strings with more than `index` elements, that no other code knows yet.
            done(unsafe {
                (api().GetResizedStringTensorElementBuffer)(
                    value.pointer.as_ptr(),
                    index,
                    element.len(),
                    &raw mut buffer,
                )
            })?;
            // SAFETY: the engine has just made the buffer this long, and nothing else refers to it.
            unsafe { copy(element, buffer.cast()) }?;
        }
        Ok(value)
    }

    /// A tensor in the engine's memory that holds `data`, whose size is that of `shape`.
    fn copied(data: &[u8], shape: &[u64], element: TensorElementType) -> Result<Value<'static>, Error> {
        let value = Value::empty(shape, element)?;
        let target = value.data()?;
        // SAFETY: the buffer belongs to a value that no other code knows yet, and is as long as `data`: both
        // have the size that follows from `shape` and `element`.
        unsafe { copy(data, target) }?;
        Ok(value)
    }

    /// A tensor in the engine's memory; numbers in it are not set.
    fn empty(shape: &[u64], element: TensorElementType) -> Result<Value<'static>, Error> {
        let extents = extents(shape);
        let (mut allocator, mut made) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: writes one pointer. The allocator is the engine's own and stays.
        done(unsafe { (api().GetAllocatorWithDefaultOptions)(&raw mut allocator) })?;
        // SAFETY: all pointers are valid for the call.
        done(unsafe {
            (api().CreateTensorAsOrtValue)(
                allocator,
                extents.as_ptr(),
                extents.len(),
                element.into(),
                &raw mut made,
            )
        })?;
        Value::owned(made)
    }

    fn owned(made: *mut OrtValue) -> Result<Value<'a>, Error> {
        let pointer = NonNull::new(made).ok_or_else(|| Error::new("the engine made no value"))?;
        Ok(Value { pointer, bytes: PhantomData })
    }

    /// The values of a sequence, or of a map: its keys, then its values. Copied.
    ///
    /// # Errors
    /// It is a tensor.
    pub fn parts(&self) -> Result<Vec<Value<'static>>, Error> {
        let (mut allocator, mut count) = (ptr::null_mut(), 0);
        // SAFETY: writes one pointer. The allocator is the engine's own and stays.
        done(unsafe { (api().GetAllocatorWithDefaultOptions)(&raw mut allocator) })?;
        // SAFETY: the value lives; the engine refuses one that has no parts, and writes a number.
        done(unsafe { (api().GetValueCount)(self.pointer.as_ptr(), &raw mut count) })?;
        let part = |index: usize| {
            let index = i32::try_from(index).map_err(|error| Error::new(error.to_string()))?;
            let mut made = ptr::null_mut();
            // SAFETY: as above; writes a pointer to a value that is ours to release.
            done(unsafe { (api().GetValue)(self.pointer.as_ptr(), index, allocator, &raw mut made) })?;
            Value::owned(made)
        };
        (0..count).map(part).collect()
    }

    /// Where the numbers of a tensor lie; may be null if there are none.
    fn data(&self) -> Result<*mut u8, Error> {
        let mut data = ptr::null_mut();
        // SAFETY: the value lives; the engine refuses one that is not a tensor of numbers.
        done(unsafe { (api().GetTensorMutableData)(self.pointer.as_ptr(), &raw mut data) })?;
        Ok(data.cast())
    }
}

/// The names of a session's inputs and outputs, as it takes them for each run.
#[derive(Debug)]
pub struct Names {
    inputs: Pointers,
    outputs: Pointers,
}

#[derive(Debug)]
struct Pointers {
    pointers: Box<[*const c_char]>,
    _names: Box<[CString]>,
}

// SAFETY: the pointers are to names that are owned beside them, do not move, and are only read.
unsafe impl Send for Pointers {}
// SAFETY: as above.
unsafe impl Sync for Pointers {}

impl Names {
    /// # Errors
    /// A name with a NUL, which a loaded model does not have.
    pub fn new(signature: &Signature) -> Result<Names, Error> {
        let pointers = |names: &mut dyn Iterator<Item = &str>| -> Result<Pointers, Error> {
            let names = names.map(CString::new).collect::<Result<Box<[_]>, _>>();
            let names = names.map_err(|error| Error::new(error.to_string()))?;
            Ok(Pointers { pointers: names.iter().map(|name| name.as_ptr()).collect(), _names: names })
        };
        Ok(Names {
            inputs: pointers(&mut signature.inputs.iter().map(|spec| &*spec.name))?,
            outputs: pointers(&mut signature.values().map(|(spec, _)| &*spec.name))?,
        })
    }

    /// Runs the model that they are the names of; inputs and outputs are in its order. `given`: which of its
    /// inputs they are, if not the first ones.
    ///
    /// # Errors
    /// An input that the model does not have; a run that failed, in the engine's words.
    pub fn run(
        &self,
        engine: &SharedSessionInner,
        given: Option<&[usize]>,
        inputs: &[Value<'_>],
    ) -> Result<Vec<Value<'static>>, Error> {
        let all = &self.inputs.pointers;
        let chosen: Option<Vec<_>>;
        let named = match given {
            None => all.get(..inputs.len()),
            Some(given) => {
                chosen = given.iter().map(|place| all.get(*place).copied()).collect();
                chosen.as_deref().filter(|chosen| chosen.len() == inputs.len())
            }
        };
        let names =
            (named.ok_or_else(|| Error::new("an input that the model has not"))?, &self.outputs.pointers);
        let mut outputs: Vec<Option<Value<'static>>> = names.1.iter().map(|_| None).collect();
        // SAFETY: names, inputs and outputs are as many as said. A value is a pointer that is not null,
        // `None` null: the engine makes the outputs that it finds null. A session may be run from several
        // threads at once: the engine's promise for this call, which does not write to what the pointer
        // shows.
        done(unsafe {
            (api().Run)(
                engine.ptr().cast_mut(),
                ptr::null(),
                names.0.as_ptr(),
                inputs.as_ptr().cast(),
                inputs.len(),
                names.1.as_ptr(),
                outputs.len(),
                outputs.as_mut_ptr().cast(),
            )
        })?;
        let made = outputs.into_iter().collect::<Option<Vec<_>>>();
        made.ok_or_else(|| Error::new("the engine left out an output"))
    }
}

/// A tensor that a run made, in the CPU's memory.
#[derive(Debug)]
pub struct Output {
    value: Value<'static>,
    element: TensorElementType,
    shape: Vec<u64>,
}

impl Output {
    /// # Errors
    /// It is not a tensor.
    pub fn new(value: Value<'static>) -> Result<Output, Error> {
        /// Released when it goes.
        struct Info(*mut OrtTensorTypeAndShapeInfo);

        impl Drop for Info {
            fn drop(&mut self) {
                // SAFETY: came from the engine, and this is its only owner.
                unsafe { (api().ReleaseTensorTypeAndShapeInfo)(self.0) }
            }
        }

        let pointer = value.pointer.as_ptr();
        let mut is_tensor = 0;
        // SAFETY: the value lives; writes a number.
        done(unsafe { (api().IsTensor)(pointer, &raw mut is_tensor) })?;
        if is_tensor == 0 {
            return Err(Error::new("it is not a tensor"));
        }
        let mut info = Info(ptr::null_mut());
        // SAFETY: the value lives; writes a pointer to what we have to release.
        done(unsafe { (api().GetTensorTypeAndShape)(pointer, &raw mut info.0) })?;
        let mut element = ort::sys::ONNXTensorElementDataType::ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
        let mut rank = 0;
        // SAFETY: the description was made a line ago; writes one of the type's values.
        done(unsafe { (api().GetTensorElementType)(info.0, &raw mut element) })?;
        // SAFETY: as above; writes a number.
        done(unsafe { (api().GetDimensionsCount)(info.0, &raw mut rank) })?;
        let mut shape = vec![0; rank];
        // SAFETY: as above; writes `rank` numbers of 64 bits.
        done(unsafe { (api().GetDimensions)(info.0, shape.as_mut_ptr().cast::<i64>(), rank) })?;
        Ok(Output { value, element: element.into(), shape })
    }

    pub fn element(&self) -> TensorElementType {
        self.element
    }

    /// How many elements it has.
    ///
    /// # Errors
    /// As [`count`].
    pub fn count(&self) -> Result<usize, Error> {
        count(&self.shape)
    }

    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// Its numbers, where they lie.
    ///
    /// # Errors
    /// It holds strings, or lies in memory that the CPU cannot read.
    pub fn numbers(&self) -> Result<&[u8], Error> {
        let size = count(&self.shape).ok().and_then(|count| self.element.byte_size(count));
        let size = size.filter(|_| self.element != TensorElementType::String);
        let size = size.ok_or_else(|| Error::new("it does not hold numbers"))?;
        self.check_place()?;
        let data = self.value.data()?;
        if data.is_null() || size == 0 {
            return Ok(&[]);
        }
        // SAFETY: the buffer of a value that lives as long as `self`, and that is not written after the run
        // that made it; in the CPU's memory; its size follows from its extents and element type.
        Ok(unsafe { slice::from_raw_parts(data, size) })
    }

    fn check_place(&self) -> Result<(), Error> {
        let mut place = ptr::null();
        // SAFETY: the value lives; writes a pointer to what it keeps.
        done(unsafe { (api().GetTensorMemoryInfo)(self.value.pointer.as_ptr(), &raw mut place) })?;
        let mut device = OrtMemoryInfoDeviceType::OrtMemoryInfoDeviceType_GPU;
        // SAFETY: the place belongs to the value; writes one of the type's values.
        unsafe { (api().MemoryInfoGetDeviceType)(place, &raw mut device) };
        match device {
            OrtMemoryInfoDeviceType::OrtMemoryInfoDeviceType_CPU => Ok(()),
            _ => Err(Error::new("it is in memory that the CPU cannot read")),
        }
    }

    /// Its strings, copied: all of them in one piece, and where each begins.
    ///
    /// # Errors
    /// It holds numbers.
    pub fn strings(&self) -> Result<(Vec<u8>, Vec<usize>), Error> {
        let pointer = self.value.pointer.as_ptr();
        let mut size = 0;
        // SAFETY: the value lives; the engine refuses one that holds no strings.
        done(unsafe { (api().GetStringTensorDataLength)(pointer, &raw mut size) })?;
        let (mut text, mut starts) = (vec![0u8; size], vec![0usize; count(&self.shape)?]);
        // SAFETY: both buffers are as long as said.
        done(unsafe {
            (api().GetStringTensorContent)(
                pointer,
                text.as_mut_ptr().cast(),
                text.len(),
                starts.as_mut_ptr(),
                starts.len(),
            )
        })?;
        Ok((text, starts))
    }
}

/// How many elements a tensor of these extents has.
///
/// # Errors
/// The product overflows, even before it meets a zero: the engine multiplies without looking.
pub fn count(shape: &[u64]) -> Result<usize, Error> {
    let product = shape
        .iter()
        .try_fold(1i64, |product, extent| product.checked_mul(i64::try_from((*extent).max(1)).ok()?));
    let elements = product.and_then(|_| element_count(shape));
    elements.ok_or_else(|| Error::new(format!("shape {shape:?} is too large")))
}

/// The extents as the engine takes them. [`count`] has found none too large for it.
fn extents(shape: &[u64]) -> &[i64] {
    bytemuck::cast_slice(shape)
}

/// Copies `data` to `target`.
///
/// # Safety
/// `target` is null, or valid for as many bytes and nowhere else referred to.
unsafe fn copy(data: &[u8], target: *mut u8) -> Result<(), Error> {
    if data.is_empty() {
        return Ok(());
    }
    if target.is_null() {
        return Err(Error::new("the engine gave no memory"));
    }
    // SAFETY: as the caller says.
    unsafe { ptr::copy_nonoverlapping(data.as_ptr(), target, data.len()) };
    Ok(())
}

/// The engine's verdict on a call.
fn done(status: OrtStatusPtr) -> Result<(), Error> {
    // SAFETY: a status that a call has just given us, looked at once.
    unsafe { Error::result_from_status(status) }
}
