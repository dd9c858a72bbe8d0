//! The `host` binary: parse, run, exit code. Nothing else.

use std::ffi::c_void;
use std::io::Write as _;

use host::cli::{self, Command};
use host::commands::{
    self, apply, bench, build, cache, check, demo, dev, diff, documents, inspect, new, operator, replay, run,
    serve, swap, test, version,
};

/// Requests make and drop many small objects on many threads; this allocator does that at half the C
/// library's cost. It takes the place of `malloc` for all of the process, the engines included; this
/// makes sure that it is linked. It is not named as Rust's own allocator: every request for memory would say
/// an alignment, which it serves more slowly if the size is no power of two.
#[used]
static MALLOC: unsafe extern "C" fn(usize) -> *mut c_void = libmimalloc_sys::mi_malloc;

fn main() {
    set_up_engines();
    let outcome = match cli::parse() {
        Command::Serve(arguments) => serve::serve(&arguments.0),
        Command::Check(arguments) => check::check(&arguments.0),
        Command::Inspect(arguments) => inspect::inspect(&arguments),
        Command::Replay(arguments) => replay::replay(&arguments),
        Command::Run(arguments) => run::run(&arguments),
        Command::Diff(arguments) => diff::diff(&arguments),
        Command::Swap(arguments) => swap::swap(&arguments),
        Command::Apply(arguments) => apply::apply(&arguments),
        Command::DiffConfig(arguments) => apply::diff_config(&arguments),
        Command::Status(arguments) => operator::status(&arguments),
        Command::History(arguments) => operator::history(&arguments),
        Command::Logs(arguments) => operator::logs(&arguments),
        Command::Trial(arguments) => operator::trial(&arguments),
        Command::New(arguments) => new::new(&arguments),
        Command::Build(arguments) => build::build(&arguments),
        Command::Dev(arguments) => dev::dev(&arguments),
        Command::Bench(arguments) => bench::bench(&arguments),
        Command::Test(arguments) => test::test(&arguments),
        Command::Cache(arguments) => cache::cache(&arguments),
        Command::Demo(arguments) => demo::demo(&arguments),
        Command::Completions { shell } => documents::completions(shell),
        Command::Man { folder } => documents::man(&folder),
        Command::Version { long } => version::version(long),
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

/// Sets what the engines read from the environment when their libraries are loaded, long after this; what the
/// operator has set stays.
#[allow(
    unsafe_code,
    clippy::disallowed_methods,
    reason = "the process has one thread yet, so no other reads the environment meanwhile"
)]
fn set_up_engines() {
    for (name, value) in [
        // TensorFlow writes to stderr by itself, requests' values among it; what matters of it comes back as
        // errors and is logged.
        ("TF_CPP_MIN_LOG_LEVEL", "2"),
        // Since 1.31 ONNX Runtime reports its use to its makers, and keeps a database for that in the user's
        // folder. What its API switches off is the reports only, and after the first.
        ("ORT_DISABLE_TELEMETRY", "1"),
    ] {
        if std::env::var_os(name).is_none() {
            // SAFETY: called first of all, before any other thread exists.
            unsafe { std::env::set_var(name, value) }
        }
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
