//! TensorFlow's C library made safe: this engine's only unsafe code.
//!
//! Place in the flow: below `session` and [`super::load`]; above is plain Rust.
//! - this file: the functions, looked up by name when the library is opened, [`Status`], stderr's place and
//!   aborts;
//! - `array`: a tensor in the engine's memory;
//! - `graph`: a loaded model and its runs.
//!
//! Invariants: the library is never unloaded, so a function once found can always be called; what the C side
//! makes is owned by one Rust value, which deletes it once; nothing reaches the C side that makes it end the
//! process (it does so for shapes whose extents are negative or whose product overflows).

#![allow(unsafe_code, reason = "calls into a C library; each call says why it is sound")]

use std::error::Error as _;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::io;
use std::mem;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::path::Path;
use std::ptr::NonNull;
use std::time::Duration;

use crate::text::without_sources;
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

mod array;
mod graph;

pub use array::Array;
pub use graph::Graph;

/// Types of which only pointers are handled.
macro_rules! opaque {
    ($($name:ident)*) => {
        $(
            #[repr(C)]
            #[derive(Debug)]
            struct $name {
                _opaque: [u8; 0],
            }
        )*
    };
}

opaque! { RawStatus RawGraph RawOperation RawSession RawSessionOptions RawTensor }

/// One element of a tensor of strings: 24 bytes that only the library understands.
#[repr(C)]
#[derive(Debug)]
struct RawString([u64; 3]);

/// A tensor of the graph, as the library takes it.
#[repr(C)]
#[derive(Debug)]
struct RawOutput {
    operation: *mut RawOperation,
    index: c_int,
}

/// Declares [`Api`] from a list of functions: our name, the library's, the type as in TensorFlow's header
/// `c_api.h`.
macro_rules! api {
    ($($name:ident = $symbol:literal fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The library's functions.
        #[derive(Debug)]
        pub struct Api {
            $($name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Api {
            fn look_up(library: &Library) -> Result<Api, String> {
                Ok(Api {
                    $($name: {
                        // SAFETY: the type is the one that the library's header declares for this name.
                        let symbol = unsafe {
                            library.get::<unsafe extern "C" fn($($argument),*) $(-> $result)?>($symbol)
                        };
                        *symbol.map_err(|_| {
                            format!("it is a library, but not TensorFlow's: it has no `{}`", $symbol.to_string_lossy())
                        })?
                    },)*
                })
            }
        }
    };
}

api! {
    version = c"TF_Version" fn() -> *const c_char;

    new_status = c"TF_NewStatus" fn() -> *mut RawStatus;
    delete_status = c"TF_DeleteStatus" fn(*mut RawStatus);
    status_code = c"TF_GetCode" fn(*const RawStatus) -> c_int;
    status_message = c"TF_Message" fn(*const RawStatus) -> *const c_char;

    allocate_tensor = c"TF_AllocateTensor" fn(c_int, *const i64, c_int, usize) -> *mut RawTensor;
    delete_tensor = c"TF_DeleteTensor" fn(*mut RawTensor);
    tensor_type = c"TF_TensorType" fn(*const RawTensor) -> c_int;
    tensor_rank = c"TF_NumDims" fn(*const RawTensor) -> c_int;
    tensor_extent = c"TF_Dim" fn(*const RawTensor, c_int) -> i64;
    tensor_size = c"TF_TensorByteSize" fn(*const RawTensor) -> usize;
    tensor_data = c"TF_TensorData" fn(*const RawTensor) -> *mut c_void;

    string_init = c"TF_StringInit" fn(*mut RawString);
    string_copy = c"TF_StringCopy" fn(*mut RawString, *const c_char, usize);
    string_data = c"TF_StringGetDataPointer" fn(*const RawString) -> *const c_char;
    string_size = c"TF_StringGetSize" fn(*const RawString) -> usize;

    new_graph = c"TF_NewGraph" fn() -> *mut RawGraph;
    delete_graph = c"TF_DeleteGraph" fn(*mut RawGraph);
    operation = c"TF_GraphOperationByName" fn(*mut RawGraph, *const c_char) -> *mut RawOperation;

    new_options = c"TF_NewSessionOptions" fn() -> *mut RawSessionOptions;
    delete_options = c"TF_DeleteSessionOptions" fn(*mut RawSessionOptions);
    set_config = c"TF_SetConfig" fn(*mut RawSessionOptions, *const c_void, usize, *mut RawStatus);

    // Options, run options (null), folder, tags and their number, graph, description to fill (null), status.
    load_session = c"TF_LoadSessionFromSavedModel" fn(
        *const RawSessionOptions, *const c_void, *const c_char, *const *const c_char, c_int, *mut RawGraph,
        *mut c_void, *mut RawStatus
    ) -> *mut RawSession;
    close_session = c"TF_CloseSession" fn(*mut RawSession, *mut RawStatus);
    delete_session = c"TF_DeleteSession" fn(*mut RawSession, *mut RawStatus);
    // Session, run options (null); inputs, their values and number; the same of outputs; operations to run
    // besides (null) and their number; metadata to fill (null), status.
    run_session = c"TF_SessionRun" fn(
        *mut RawSession, *const c_void, *const RawOutput, *const *mut RawTensor, c_int, *const RawOutput,
        *mut *mut RawTensor, c_int, *const *const RawOperation, c_int, *mut c_void, *mut RawStatus
    );
}

impl Api {
    /// Opens the library at `path`, for good.
    ///
    /// # Errors
    /// Why it cannot be used, in words that go on after its path.
    pub fn open(path: &Path) -> Result<&'static Api, String> {
        // SAFETY: opening a library runs its initialisers. This one is where the operator or
        // `make tensorflow` put it, and TensorFlow's may run on any thread; it is not unloaded if it is
        // TensorFlow's, so no code runs at its end.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) };
        // The error itself says only which call failed, its source what the loader had to say.
        let library =
            library.map_err(|error| error.source().map_or(error.to_string(), |source| source.to_string()))?;
        let api = Api::look_up(&library)?;
        // The functions outlive every handle to the library.
        mem::forget(library);
        Ok(Box::leak(Box::new(api)))
    }

    /// TensorFlow's version, `2.21.0`.
    pub fn version(&self) -> String {
        // SAFETY: takes nothing and returns a string constant.
        unsafe { CStr::from_ptr((self.version)()) }.to_string_lossy().into_owned()
    }
}

/// Puts `to` in stderr's place, for the library too.
///
/// # Errors
/// The system's.
pub fn redirect_stderr(to: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: `to` is open, and descriptor 2 belongs to no Rust value that would close it.
    match unsafe { libc::dup2(to.as_raw_fd(), libc::STDERR_FILENO) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// How long the last lines may take from stderr to the log.
const LAST_LINES: Duration = Duration::from_millis(200);

/// From now on an abort of the process waits for the log. The library aborts when it finds itself broken, and
/// says why the moment before, on a stderr that is read by a thread of this process.
pub fn delay_aborts() {
    extern "C" fn delay(signal: c_int) {
        std::thread::sleep(LAST_LINES);
        // SAFETY: both calls are allowed in a signal handler. The signal ends the process when this returns.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
    }
    let delay: extern "C" fn(c_int) = delay;
    // SAFETY: the handler calls only what a handler may: sleeping is a system call, and nothing is allocated
    // or locked.
    unsafe { libc::signal(libc::SIGABRT, delay as libc::sighandler_t) };
}

/// Something that the library made, and how it is deleted.
#[derive(Debug)]
struct Owned<T> {
    raw: NonNull<T>,
    delete: unsafe extern "C" fn(*mut T),
}

impl<T> Owned<T> {
    /// `None` for null.
    ///
    /// # Safety
    /// `raw` is null or what the library made; nothing else deletes it; `delete` is the function for that.
    unsafe fn new(raw: *mut T, delete: unsafe extern "C" fn(*mut T)) -> Option<Owned<T>> {
        Some(Owned { raw: NonNull::new(raw)?, delete })
    }

    fn as_ptr(&self) -> *mut T {
        self.raw.as_ptr()
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: promised to `new`.
        unsafe { (self.delete)(self.raw.as_ptr()) }
    }
}

/// Where the library says how a call went.
#[derive(Debug)]
struct Status {
    api: &'static Api,
    raw: Owned<RawStatus>,
}

impl Status {
    fn new(api: &'static Api) -> Result<Status, String> {
        // SAFETY: a fresh status, deleted by its own function.
        let raw = unsafe { Owned::new((api.new_status)(), api.delete_status) };
        Ok(Status { api, raw: raw.ok_or("out of memory")? })
    }

    fn as_ptr(&self) -> *mut RawStatus {
        self.raw.as_ptr()
    }

    /// How the last call went that was given this status; the error is in TensorFlow's words.
    fn result(&self) -> Result<(), String> {
        // SAFETY: the status is alive, and so is its message until the next call that is given it.
        let (code, message) = unsafe {
            let code = (self.api.status_code)(self.as_ptr());
            (code, CStr::from_ptr((self.api.status_message)(self.as_ptr())))
        };
        match code {
            0 => Ok(()),
            code if message.is_empty() => Err(format!("TensorFlow's status {code}")),
            _ => Err(without_sources(&message.to_string_lossy())),
        }
    }
}
