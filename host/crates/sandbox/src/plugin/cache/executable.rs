//! Machine code as wasmtime runs it.
//!
//! Place in the flow: between the cache, which reads and writes bytes, and what instances are made from. In:
//! a file of the cache's, or code that was compiled just now. Out: a component, or a core module.
//! Invariant: nothing comes here that neither this process has compiled nor a holder of the cache's key has
//! written.

use std::fs::File;
use std::path::Path;

use wasmtime::component::Component;
use wasmtime::{Engine, Module};

use super::mmap_safety;
use crate::plugin::compiler::Code;

/// A component or a core module, compiled.
#[expect(unsafe_code, reason = "what wasmtime asks for machine code")]
pub(in crate::plugin) trait Executable: Sized {
    /// The file's, mapped.
    ///
    /// # Safety
    /// As of [`Component::deserialize_file`].
    unsafe fn map(engine: &Engine, file: &Path) -> wasmtime::Result<Self>;

    /// A copy of these bytes.
    ///
    /// # Safety
    /// As of [`Component::deserialize`].
    unsafe fn copy(engine: &Engine, bytes: &[u8]) -> wasmtime::Result<Self>;
}

macro_rules! executable {
    ($($type:ty),*) => {$(
        #[expect(unsafe_code, reason = "what wasmtime asks for machine code")]
        impl Executable for $type {
            unsafe fn map(engine: &Engine, file: &Path) -> wasmtime::Result<Self> {
                // SAFETY: it is the caller's.
                unsafe { <$type>::deserialize_file(engine, file) }
            }

            unsafe fn copy(engine: &Engine, bytes: &[u8]) -> wasmtime::Result<Self> {
                // SAFETY: it is the caller's.
                unsafe { <$type>::deserialize(engine, bytes) }
            }
        }
    )*};
}

executable!(Component, Module);

/// Maps the machine code in a file, which is to be the cache's.
pub(super) fn map<T: Executable>(engine: &Engine, file: &File) -> wasmtime::Result<T> {
    #[expect(unsafe_code, reason = "machine code that the cache wrote")]
    // SAFETY: `file` must hold what wasmtime's compiler made. It does: its seal, or its lock, is one that
    // only holders of the key can make, and the folder can be written to by this user alone, or by root
    // alone, who can run what code they like anyway. It must stay so while it is mapped: `file` is a copy
    // that cannot be written to, or an entry that is never written to, on a disk that gives back what was
    // hashed. That it is of this version of wasmtime, with these settings and for this processor, its name
    // says, which is sealed in, and wasmtime checks it once more; whether it is a component or a module, too.
    unsafe {
        T::map(engine, &mmap_safety::path_of(file))
    }
}

/// The executable form of code that was compiled just now, copied.
///
/// # Errors
/// wasmtime's: the engine cannot have instances of it.
pub(in crate::plugin) fn load<T: Executable>(engine: &Engine, code: &Code) -> wasmtime::Result<T> {
    #[expect(unsafe_code, reason = "machine code that this process made")]
    // SAFETY: `code` must be what wasmtime's compiler made. It is: there is no other way to a `Code`.
    unsafe {
        T::copy(engine, code)
    }
}
