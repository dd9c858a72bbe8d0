//! The `host` binary: parse, run, exit code. Nothing else.

use std::ffi::c_void;
use std::io::Write as _;

use host::cli::{self, Command};
use host::commands::{self, check, diff, inspect, replay, run, serve, swap};

/// Requests make and drop many small objects on many threads; this allocator does that at half the C
/// library's cost. It takes the place of `malloc` for everybody in the process, the engines included; this
/// makes sure that it is linked. It is not named as Rust's own allocator: every request for memory would say
/// an alignment, which it serves more slowly if the size is no power of two.
#[used]
static MALLOC: unsafe extern "C" fn(usize) -> *mut c_void = libmimalloc_sys::mi_malloc;

fn main() {
    quiet_tensorflow();
    let outcome = match cli::parse() {
        Command::Serve(arguments) => serve::serve(&arguments.0),
        Command::Check(arguments) => check::check(&arguments.0),
        Command::Inspect(arguments) => inspect::inspect(&arguments),
        Command::Replay(arguments) => replay::replay(&arguments),
        Command::Run(arguments) => run::run(&arguments),
        Command::Diff(arguments) => diff::diff(&arguments),
        Command::Swap(arguments) => swap::swap(&arguments),
    };
    end(commands::exit(outcome))
}

#[cfg(profiling)]
#[allow(unsafe_code, reason = "a function of the compiler's runtime")]
unsafe extern "C" {
    /// Writes what this build has counted (`scripts/dist.sh`), which otherwise happens when a process ends in
    /// order.
    safe fn __llvm_profile_write_file() -> i32;
}

/// Ends the process without tearing down the engines' libraries: a thread may be in the middle of loading a
/// model into one of them, and would crash. What has to be put in order was, when its owner was dropped.
#[allow(unsafe_code, reason = "the standard library ends a process in order only")]
fn end(code: i32) -> ! {
    // Nothing sensible is left to do if stdout is closed.
    let _ = std::io::stdout().flush();
    #[cfg(profiling)]
    __llvm_profile_write_file();
    // SAFETY: it does not return, and touches no memory of this process.
    unsafe { libc::_exit(code) }
}

/// TensorFlow writes to stderr by itself, requests' values among it; what matters of it comes back as errors
/// and is logged. It reads the variable when its library is loaded, long after this.
#[allow(
    unsafe_code,
    clippy::disallowed_methods,
    reason = "the process has one thread yet, so no other reads the environment meanwhile"
)]
fn quiet_tensorflow() {
    const LEVEL: &str = "TF_CPP_MIN_LOG_LEVEL";
    if std::env::var_os(LEVEL).is_none() {
        // SAFETY: called first of all, before any other thread exists.
        unsafe { std::env::set_var(LEVEL, "2") }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #[test]
    #[allow(unsafe_code, reason = "the C library's own question")]
    fn memory_is_not_the_c_librarys() {
        let value = Box::into_raw(Box::new(1u8));
        // SAFETY: a pointer that `malloc` gave out, not freed yet; then made a box again, once.
        let length = unsafe {
            let length = libc::malloc_usable_size(value.cast());
            drop(Box::from_raw(value));
            length
        };
        assert!(length < 24, "{length} bytes, of which the C library gives at least 24");
    }
}
