//! Threads whose work may wait for that of others.
//!
//! Place in the flow: the first thing that such a thread does. Depends on nothing.
//! In:   how far it steps back. Out: what the kernel's scheduler makes of it.
//! Invariant: only the calling thread is concerned. Elsewhere than on Linux it would be the process, so
//! nothing is done there.

/// How far a thread steps back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Priority {
    /// It gets about a tenth of a core beside a thread that does not step back (`sched(7)`).
    Low,
    /// It gets what is left over, and gives its core away at once to any thread that wakes up: to the
    /// scheduler, a core that runs only this is an idle one. (The lowest niceness alone is not enough:
    /// threads are then not woken up on such a core, and wait for another.)
    Idle,
}

/// Lowers the calling thread's own priority, for good.
pub fn step_back(to: Priority) {
    #[cfg(target_os = "linux")]
    if let Err(error) = linux::step_back(to) {
        tracing::debug!(%error, "a thread that may wait cannot step back as far as it should");
    }
    #[cfg(not(target_os = "linux"))]
    let _ = to;
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io;

    use super::Priority;

    pub(super) fn step_back(to: Priority) -> io::Result<()> {
        let niceness = match to {
            Priority::Low => 10,
            Priority::Idle => 19,
        };
        rustix::process::setpriority_process(None, niceness)?;
        match to {
            Priority::Low => Ok(()),
            Priority::Idle => be_idle(),
        }
    }

    #[expect(unsafe_code, reason = "no library that is used here has this call")]
    fn be_idle() -> io::Result<()> {
        let parameters = libc::sched_param { sched_priority: 0 };
        // SAFETY: 0 is the calling thread, and the pointer is only read during the call.
        match unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &parameters) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}
