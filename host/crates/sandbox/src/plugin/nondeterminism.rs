//! Clocks, random numbers and waits, as a guest imports them.
//!
//! Place in the flow: called by the guest. In: WASI's own implementation. Out: its answers; while a request
//! is recorded also on the [`HostCallLog`](super::host_call_log::HostCallLog), and in a replay from there in
//! its place. A replay waits for no timer: what a wait led to is on the log.
//! Invariant: without a log each of these is WASI's own function and one comparison.

use wasmtime::Result;
use wasmtime::component::Resource;
use wasmtime_wasi::WasiView as _;
use wasmtime_wasi::clocks::WasiClocksView as _;
use wasmtime_wasi::p2::DynPollable;
use wasmtime_wasi::p2::bindings::clocks::monotonic_clock::{self, Duration, Instant};
use wasmtime_wasi::p2::bindings::clocks::wall_clock::{self, Datetime};
use wasmtime_wasi::p2::bindings::io::poll;
use wasmtime_wasi::p2::bindings::random::insecure;
use wasmtime_wasi::p2::bindings::random::insecure_seed;
use wasmtime_wasi::p2::bindings::random::random;
use wasmtime_wasi::random::WasiRandomCtx;

use super::host_call_log::HostCallResult;
use super::state::State;
use crate::request::dependencies::Dependency;

/// The value of `$real`, which on a log is `$draw`.
macro_rules! tapped {
    ($state:ident, $name:literal, $real:expr, $value:pat => $draw:expr, $recorded:pat => $back:expr) => {{
        let Some(log) = $state.log.clone() else { return $real };
        let recorded = log.next($name, |draw| match draw {
            $recorded => Some($back),
            _ => None,
        })?;
        match recorded {
            Some(value) => Ok(value),
            None => {
                let real = $real?;
                let $value = &real;
                log.note($draw);
                Ok(real)
            }
        }
    }};
}

/// Bytes of a log, if they are as many as were asked for.
macro_rules! tapped_bytes {
    ($state:ident, $name:literal, $length:ident, $real:expr, $variant:ident) => {{
        let Some(log) = $state.log.clone() else { return $real };
        let recorded = log.next($name, |draw| match draw {
            HostCallResult::$variant(bytes) if bytes.len() as u64 == $length => Some(bytes.clone()),
            _ => None,
        })?;
        match recorded {
            Some(bytes) => Ok(bytes),
            None => {
                let bytes = $real?;
                log.note(HostCallResult::$variant(bytes.clone()));
                Ok(bytes)
            }
        }
    }};
}

impl State {
    pub(super) fn randomness(&mut self) -> &mut WasiRandomCtx {
        self.ctx().ctx.random()
    }

    /// Notes that the guest gets what another request would get differently.
    pub(super) fn depends_on(&mut self, dependency: Dependency) {
        self.run.dependencies.add(dependency);
    }

    /// Remembers that a pollable is a timer, or waits for anything else that a log knows of.
    pub(super) fn timer(&self, timer: Resource<DynPollable>) -> Resource<DynPollable> {
        if let Some(log) = &self.log {
            log.timer(timer.rep());
        }
        timer
    }
}

impl wall_clock::Host for State {
    fn now(&mut self) -> Result<Datetime> {
        self.depends_on(Dependency::Clock);
        tapped!(self, "the wall clock", wall_clock::Host::now(&mut self.clocks()),
            Datetime { seconds, nanoseconds } => HostCallResult::WallClock(*seconds, *nanoseconds),
            HostCallResult::WallClock(seconds, nanoseconds) => datetime(*seconds, *nanoseconds))
    }

    fn resolution(&mut self) -> Result<Datetime> {
        tapped!(self, "the wall clock's resolution", wall_clock::Host::resolution(&mut self.clocks()),
            Datetime { seconds, nanoseconds } => HostCallResult::WallClockResolution(*seconds, *nanoseconds),
            HostCallResult::WallClockResolution(seconds, nanoseconds) => datetime(*seconds, *nanoseconds))
    }
}

fn datetime(seconds: u64, nanoseconds: u32) -> Datetime {
    Datetime { seconds, nanoseconds }
}

impl monotonic_clock::Host for State {
    fn now(&mut self) -> Result<Instant> {
        self.depends_on(Dependency::Clock);
        tapped!(self, "the monotonic clock", monotonic_clock::Host::now(&mut self.clocks()),
            now => HostCallResult::MonotonicClock(*now), HostCallResult::MonotonicClock(now) => *now)
    }

    fn resolution(&mut self) -> Result<Duration> {
        tapped!(self, "the monotonic clock's resolution", monotonic_clock::Host::resolution(&mut self.clocks()),
            step => HostCallResult::MonotonicClockResolution(*step),
            HostCallResult::MonotonicClockResolution(step) => *step)
    }

    fn subscribe_instant(&mut self, when: Instant) -> Result<Resource<DynPollable>> {
        self.depends_on(Dependency::Clock);
        self.host_call();
        let timer = self.clocks().subscribe_instant(when)?;
        Ok(self.timer(timer))
    }

    fn subscribe_duration(&mut self, length: Duration) -> Result<Resource<DynPollable>> {
        self.depends_on(Dependency::Clock);
        self.host_call();
        let timer = self.clocks().subscribe_duration(length)?;
        Ok(self.timer(timer))
    }
}

impl random::Host for State {
    fn get_random_bytes(&mut self, length: u64) -> Result<Vec<u8>> {
        self.depends_on(Dependency::Random);
        tapped_bytes!(self, "random bytes", length, self.randomness().get_random_bytes(length), Random)
    }

    fn get_random_u64(&mut self) -> Result<u64> {
        self.depends_on(Dependency::Random);
        tapped!(self, "random bytes", self.randomness().get_random_u64(),
            number => HostCallResult::RandomU64(*number),
            HostCallResult::RandomU64(number) => *number)
    }
}

impl insecure::Host for State {
    fn get_insecure_random_bytes(&mut self, length: u64) -> Result<Vec<u8>> {
        self.depends_on(Dependency::Random);
        tapped_bytes!(
            self,
            "insecure random bytes",
            length,
            self.randomness().get_insecure_random_bytes(length),
            InsecureRandom
        )
    }

    fn get_insecure_random_u64(&mut self) -> Result<u64> {
        self.depends_on(Dependency::Random);
        tapped!(self, "insecure random bytes", self.randomness().get_insecure_random_u64(),
            number => HostCallResult::InsecureRandomU64(*number),
            HostCallResult::InsecureRandomU64(number) => *number)
    }
}

impl insecure_seed::Host for State {
    fn insecure_seed(&mut self) -> Result<(u64, u64)> {
        self.depends_on(Dependency::Random);
        tapped!(self, "the insecure seed", self.randomness().insecure_seed(),
            (low, high) => HostCallResult::InsecureSeed(*low, *high),
            HostCallResult::InsecureSeed(low, high) => (*low, *high))
    }
}

impl poll::Host for State {
    async fn poll(&mut self, pollables: Vec<Resource<DynPollable>>) -> Result<Vec<u32>> {
        // A list without a timer in it depends on the guest alone.
        let log = self.log.clone().filter(|log| log.has_timer(pollables.iter().map(Resource::rep)));
        let Some(log) = log else { return self.host_call().table.poll(pollables).await };
        let count = pollables.len();
        let recorded = log.next("whether a timer has run out", |draw| match draw {
            // Of an untrusted list.
            HostCallResult::Poll(ready) if ready.iter().all(|index| (*index as usize) < count) => {
                Some(ready.clone())
            }
            _ => None,
        })?;
        match recorded {
            Some(ready) => Ok(ready),
            None => {
                let ready = self.ctx().table.poll(pollables).await?;
                log.note(HostCallResult::Poll(ready.clone()));
                Ok(ready)
            }
        }
    }
}

impl poll::HostPollable for State {
    async fn ready(&mut self, pollable: Resource<DynPollable>) -> Result<bool> {
        let log = self.log.clone().filter(|log| log.has_timer([pollable.rep()]));
        let Some(log) = log else { return self.host_call().table.ready(pollable).await };
        let recorded = log.next("whether a timer has run out", |draw| match draw {
            HostCallResult::Ready(ready) => Some(*ready),
            _ => None,
        })?;
        match recorded {
            Some(ready) => Ok(ready),
            None => {
                let ready = self.ctx().table.ready(pollable).await?;
                log.note(HostCallResult::Ready(ready));
                Ok(ready)
            }
        }
    }

    async fn block(&mut self, pollable: Resource<DynPollable>) -> Result<()> {
        let log = self.log.clone().filter(|log| log.has_timer([pollable.rep()]));
        let Some(log) = log else { return self.host_call().table.block(pollable).await };
        let recorded =
            log.next("the end of a wait", |draw| (*draw == HostCallResult::Waited).then_some(()))?;
        if recorded.is_none() {
            self.ctx().table.block(pollable).await?;
            log.note(HostCallResult::Waited);
        }
        Ok(())
    }

    fn drop(&mut self, pollable: Resource<DynPollable>) -> Result<()> {
        if let Some(log) = &self.log {
            log.forget(pollable.rep());
        }
        poll::HostPollable::drop(self.host_call().table, pollable)
    }
}
