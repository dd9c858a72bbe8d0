//! Huge pages, which the allocator asks the kernel for.
//!
//! Place in the flow: once, when the budget is known. In: nothing. Out: memory of the process comes in pages
//! of 4 KiB from here on.
//! A thread that keeps 1 MiB of a stream has a huge page or two for it, which no charge knows of: 60 streams
//! that were charged 57 MiB took 237 MiB, and 129 MiB without huge pages.

/// Has the kernel give the process no huge pages; children of it neither.
pub(super) fn avoid() {
    #[cfg(target_os = "linux")]
    if let Err(error) = linux::avoid() {
        tracing::debug!(%error, "huge pages stay on");
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io;

    #[expect(unsafe_code, reason = "no library that is used here has this call")]
    pub(super) fn avoid() -> io::Result<()> {
        let (on, unused): (libc::c_ulong, libc::c_ulong) = (1, 0);
        // SAFETY: the call reads its five numbers and no memory (`PR_SET_THP_DISABLE(2const)`).
        match unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, on, unused, unused, unused) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}
