//! What ended a guest call, or kept an instance from starting, as the request's error.
//!
//! Place in the flow: [`super::instance`] asks it whenever a call does not end with a value.
//! In: the engine's error, which nothing above sees. Out: a [`RequestError`]: one line for the caller, and
//! for the log the causes and the guest's own backtrace, with function names if the component has them.
//! Invariants: what the caller reads names limits and traps, nothing of the guest's and no address; what the
//! log gets is bounded, however long a guest's names are, and steers no terminal.

mod backtrace;

use std::time::Duration;

use wasmtime::component::ResourceTableError;
use wasmtime::{Error, Trap, WasmBacktrace};
use wasmtime_wasi::I32Exit;

use super::deadline::DeadlineExceeded;
use crate::error::{Code, PluginFault, RequestError, Stage};

/// Longest line of a detail, in bytes: a mangled name may have any length.
const LONGEST_LINE: usize = 400;
/// Longest detail, in bytes; the engine gives twenty frames.
const LONGEST_DETAIL: usize = 8 << 10;
/// How the engine begins a backtrace.
const BACKTRACE: &str = "error while executing at wasm backtrace:";
/// The words of two of the engine's errors whose types are its own.
const TOO_MUCH_DATA: &str = "fuel allocated for hostcalls has been exhausted";
const TOO_MANY_HANDLES: &str = "store handle limit exceeded";

/// A guest call that called the host too often.
#[derive(Debug, thiserror::Error)]
#[error("more than {0} calls of files, streams and timers")]
pub(super) struct TooManyHostCalls(pub u32);

/// A guest that prints too much for one request.
#[derive(Debug, thiserror::Error)]
#[error("more than {0} bytes on stdout and stderr")]
pub(super) struct PrintsTooMuch(pub usize);

/// A guest that holds more of one thing than it may, by an interface that has no error for it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct HoldsTooMuch(pub String);

/// The limits of an instance, as far as errors name them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Bytes of linear memory.
    pub memory: usize,
    /// Bytes returned by one call, or printed for one request.
    pub output: usize,
    /// Files, streams and clocks.
    pub handles: usize,
    /// How long the call may compute.
    pub cpu: Duration,
    /// How long it may take, waits included.
    pub wall: Duration,
}

pub(super) const MORE_MEMORY: &str = "`limits.memory` gives it more memory";

/// The request's error for the engine's `error`. `out_of_memory`: growth was refused before.
pub(super) fn of(error: &Error, stage: Stage, bounds: Bounds, out_of_memory: bool) -> RequestError {
    let Bounds { memory, output, handles, .. } = bounds;
    let is_flood = |root: &str| root.contains(TOO_MUCH_DATA);
    let root = error.root_cause().to_string();
    let (fault, message) = if let Some(exceeded) = error.downcast_ref::<DeadlineExceeded>() {
        let hint = match (exceeded, stage) {
            (DeadlineExceeded::Wall, _) => "`limits.wall_timeout`",
            (DeadlineExceeded::Cpu, Stage::PostInference) => "`limits.post_timeout`",
            (DeadlineExceeded::Cpu, _) => "`limits.pre_timeout`",
        };
        let hint = format!("{hint} gives it more time");
        return timed_out(stage, *exceeded, bounds).with_detail(hinted(error, &hint));
    } else if let Some(TooManyHostCalls(most)) = error.downcast_ref() {
        let message = format!("the handler called files, streams and timers more than {most} times");
        (PluginFault::HostCalls, message)
    } else if matches!(error.downcast_ref(), Some(ResourceTableError::Full))
        || root.contains(TOO_MANY_HANDLES)
    {
        (
            PluginFault::Handles,
            format!("the handler holds more than {handles} files, streams, clocks and resources"),
        )
    } else if let Some(HoldsTooMuch(what)) = error.downcast_ref() {
        (PluginFault::Handles, format!("the handler holds {what}"))
    } else if error.is::<PrintsTooMuch>() {
        (PluginFault::OutputFlood, format!("the handler printed more than its {output} bytes"))
    } else if out_of_memory {
        (PluginFault::OutOfMemory, format!("the handler needs more than its {memory} bytes of memory"))
    } else if let Some(exit) = error.downcast_ref::<I32Exit>() {
        (PluginFault::Exit, format!("the handler exited with status {}", exit.0))
    } else if let Some(trap) = error.downcast_ref::<Trap>() {
        let fault = if *trap == Trap::StackOverflow { PluginFault::StackOverflow } else { PluginFault::Trap };
        (fault, format!("the handler trapped: {trap}"))
    } else if is_flood(&root) {
        (PluginFault::OutputFlood, format!("the handler gave the host more than its {output} bytes at once"))
    } else {
        // Guest code ran to its end, or into a host call, with values the contract does not allow.
        (PluginFault::BadOutput, "the handler gave the host something that cannot be read".to_owned())
    };
    let code = match fault {
        PluginFault::OutOfMemory => Code::PluginOutOfMemory,
        PluginFault::OutputFlood | PluginFault::BadOutput => Code::PluginBadOutput,
        _ => Code::PluginTrap,
    };
    let detail = match fault {
        PluginFault::OutOfMemory => hinted(error, MORE_MEMORY),
        PluginFault::OutputFlood => hinted(error, "`limits.output` lets it give and print more"),
        _ => detail(error),
    };
    RequestError::new(code, stage, message).by_plugin(fault).with_detail(detail)
}

/// The detail of an error, and the setting that a handler in its rights needs.
fn hinted(error: &Error, hint: &str) -> String {
    format!("{}\nhint: {hint}", detail(error))
}

/// A call that took longer than it may.
pub(super) fn timed_out(stage: Stage, exceeded: DeadlineExceeded, bounds: Bounds) -> RequestError {
    let message = match exceeded {
        DeadlineExceeded::Cpu => format!("the handler ran longer than {:?}", bounds.cpu),
        DeadlineExceeded::Wall => format!("the handler took longer than {:?}, waits included", bounds.wall),
    };
    RequestError::new(Code::PluginTimeout, stage, message)
}

/// The causes on one line, then the guest's backtrace, for the log.
pub(super) fn detail(error: &Error) -> String {
    let causes = error.chain().map(ToString::to_string).filter(|cause| !cause.starts_with(BACKTRACE));
    let mut text = causes.collect::<Vec<_>>().join(": ");
    if let Some(backtrace) = error.downcast_ref::<WasmBacktrace>().filter(|trace| !trace.frames().is_empty())
    {
        text.push('\n');
        text += &backtrace::folded(&backtrace.to_string());
    }
    bounded(&text)
}

/// Line by line, cut and without anything that steers a terminal.
pub(super) fn bounded(text: &str) -> String {
    let mut bounded = String::new();
    for line in text.lines() {
        if bounded.len() > LONGEST_DETAIL {
            bounded += "\n…";
            break;
        }
        if !bounded.is_empty() {
            bounded.push('\n');
        }
        let cut = line.get(..line.floor_char_boundary(LONGEST_LINE)).unwrap_or(line);
        for c in cut.chars() {
            if c.is_control() { bounded.extend(c.escape_default()) } else { bounded.push(c) }
        }
        if cut.len() < line.len() {
            bounded.push('…');
        }
    }
    bounded
}

#[cfg(test)]
mod tests {
    use wasmtime::format_err;

    use super::*;

    const BOUNDS: Bounds = Bounds {
        memory: 65536,
        output: 1024,
        handles: 64,
        cpu: Duration::from_millis(20),
        wall: Duration::from_millis(200),
    };

    #[test]
    fn every_end_of_a_call_has_its_fault() {
        let cases: [(Error, bool, PluginFault, Code, &str); 11] = [
            (
                DeadlineExceeded::Cpu.into(),
                true,
                PluginFault::Deadline,
                Code::PluginTimeout,
                "longer than 20ms",
            ),
            (
                DeadlineExceeded::Wall.into(),
                true,
                PluginFault::Deadline,
                Code::PluginTimeout,
                "longer than 200ms",
            ),
            (TooManyHostCalls(9).into(), false, PluginFault::HostCalls, Code::PluginTrap, "9 times"),
            (ResourceTableError::Full.into(), false, PluginFault::Handles, Code::PluginTrap, "64 files"),
            (
                format_err!("cannot allocate another handle: {TOO_MANY_HANDLES}"),
                false,
                PluginFault::Handles,
                Code::PluginTrap,
                "64 files",
            ),
            (
                PrintsTooMuch(1024).into(),
                false,
                PluginFault::OutputFlood,
                Code::PluginBadOutput,
                "printed more than its 1024",
            ),
            (
                format_err!("too much data: {TOO_MUCH_DATA}"),
                false,
                PluginFault::OutputFlood,
                Code::PluginBadOutput,
                "more than its 1024 bytes at once",
            ),
            (
                Trap::UnreachableCodeReached.into(),
                true,
                PluginFault::OutOfMemory,
                Code::PluginOutOfMemory,
                "65536 bytes",
            ),
            (I32Exit(3).into(), false, PluginFault::Exit, Code::PluginTrap, "status 3"),
            (Trap::StackOverflow.into(), false, PluginFault::StackOverflow, Code::PluginTrap, "stack"),
            (
                format_err!("invalid utf-8"),
                false,
                PluginFault::BadOutput,
                Code::PluginBadOutput,
                "cannot be read",
            ),
        ];
        let hints = |fault: PluginFault, words: &str| match fault {
            PluginFault::Deadline if words.contains("200ms") => "`limits.wall_timeout`",
            PluginFault::Deadline => "`limits.pre_timeout`",
            PluginFault::OutOfMemory => "`limits.memory`",
            PluginFault::OutputFlood => "`limits.output`",
            _ => "",
        };
        for (error, out_of_memory, fault, code, words) in cases {
            let cause = error.root_cause().to_string();
            let error = of(&error, Stage::PreInference, BOUNDS, out_of_memory);
            assert_eq!((error.plugin_fault(), error.code), (Some(fault), code), "{cause}");
            assert!(error.message.contains(words), "{}", error.message);
            let detail = error.detail.as_deref().unwrap();
            let (found, hint) = detail.split_once("\nhint: ").unwrap_or((detail, ""));
            assert_eq!(found, cause);
            let expected = hints(fault, words);
            assert!(hint.starts_with(expected) && hint.is_empty() == expected.is_empty(), "{detail}");
        }
    }

    #[test]
    fn a_detail_is_bounded_and_steers_nothing() {
        let text = format!("{}\u{1b}[31m\n{}\n{}", "a".repeat(10), "é".repeat(500), "x\n".repeat(100_000));
        let detail = detail(&format_err!("{text}"));
        assert!(detail.len() < LONGEST_DETAIL + LONGEST_LINE + 8, "{}", detail.len());
        assert!(!detail.contains('\u{1b}') && detail.ends_with("\n…"));
        assert!(detail.lines().all(|line| line.len() <= LONGEST_LINE + '…'.len_utf8()));
    }
}
