//! The `host` binary: parse, run, exit code. Nothing else.

use std::process::ExitCode;

use host::cli::{self, Command};
use host::commands::{self, inspect, run, serve};

/// Requests make and drop many small objects on many threads; this allocator does that at half the C library's cost.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let outcome = match cli::parse() {
        Command::Serve(arguments) => serve::serve(&arguments.0),
        Command::Inspect(arguments) => inspect::inspect(&arguments),
        Command::Run(arguments) => run::run(&arguments),
    };
    commands::exit(outcome)
}
