//! One result of a host call, as a log has it.
//!
//! Place in the flow: noted in the order in which the guest got them, kept in recordings. Those of
//! capabilities are numbers of calls that are listed apart ([the list](crate::plugin::capability_list)).

use serde::{Deserialize, Serialize};

use super::DRAW_COST;
use super::capability_calls::LoggedCall;
use crate::json::base64;
use crate::plugin::capability_list::each_capability;

macro_rules! host_call_result {
    ($($name:ident: $capability:ident = $doc:literal
        $(, logs $call:ty as $draw:ident = $call_doc:literal)?;)*) => {
        /// One thing that a guest got from outside. Its name is that of the WASI function.
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum HostCallResult {
            /// `wall-clock.now`: seconds since 1970 and nanoseconds.
            WallClock(u64, u32),
            /// `wall-clock.resolution`, likewise.
            WallClockResolution(u64, u32),
            /// `monotonic-clock.now`, in nanoseconds since a moment of the instance's own.
            MonotonicClock(u64),
            /// `monotonic-clock.resolution`, in nanoseconds.
            MonotonicClockResolution(u64),
            /// `random.get-random-bytes`.
            Random(#[serde(with = "base64")] Vec<u8>),
            /// `random.get-random-u64`.
            RandomU64(u64),
            /// `insecure.get-insecure-random-bytes`.
            InsecureRandom(#[serde(with = "base64")] Vec<u8>),
            /// `insecure.get-insecure-random-u64`.
            InsecureRandomU64(u64),
            /// `insecure-seed.insecure-seed`.
            InsecureSeed(u64, u64),
            /// `poll.poll` for timers: which of them had run out.
            Poll(Vec<u32>),
            /// `pollable.ready` of a timer.
            Ready(bool),
            /// `pollable.block` of a timer: it ran out.
            Waited,
            /// `models.infer`, `run` or `start`: the answer of this number among those of the recording.
            ModelCall(usize),
            /// `outgoing-handler.handle`, likewise.
            Outbound(usize),
            $($(
                #[doc = $call_doc]
                $draw(usize),
            )?)*
            /// `request.remaining`.
            Remaining(Option<u64>),
            /// `request.is-disconnected`.
            Disconnected(bool),
        }

        impl HostCallResult {
            /// Its kind.
            pub(super) fn name(&self) -> &'static str {
                match self {
                    HostCallResult::WallClock(..) => "the wall clock",
                    HostCallResult::WallClockResolution(..) => "the wall clock's resolution",
                    HostCallResult::MonotonicClock(_) => "the monotonic clock",
                    HostCallResult::MonotonicClockResolution(_) => "the monotonic clock's resolution",
                    HostCallResult::Random(_) | HostCallResult::RandomU64(_) => "random bytes",
                    HostCallResult::InsecureRandom(_) | HostCallResult::InsecureRandomU64(_) => {
                        "insecure random bytes"
                    }
                    HostCallResult::InsecureSeed(..) => "the insecure seed",
                    HostCallResult::Poll(_) | HostCallResult::Ready(_) => "whether a timer has run out",
                    HostCallResult::Waited => "the end of a wait",
                    HostCallResult::ModelCall(_) => "an answer of a model",
                    HostCallResult::Outbound(_) => "an answer to a request that it sends",
                    $($(HostCallResult::$draw(_) => <$call as LoggedCall>::NAME,)?)*
                    HostCallResult::Remaining(_) => "the time that is left",
                    HostCallResult::Disconnected(_) => "whether the client is gone",
                }
            }

            pub(super) fn cost(&self) -> usize {
                DRAW_COST
                    + match self {
                        HostCallResult::Random(bytes) | HostCallResult::InsecureRandom(bytes) => bytes.len(),
                        HostCallResult::Poll(ready) => 4 * ready.len(),
                        _ => 0,
                    }
            }
        }
    };
}

each_capability!(host_call_result);
