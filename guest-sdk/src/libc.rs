//! Lets go of the handles that the C library keeps for itself.
//!
//! Place in the flow: the end of the export `init`. The host copies the memory that `init` leaves, and every
//! instance begins with the copy; handles are the host's and not in it. So what the C library would go on
//! using has to be forgotten: the folder it opened to find files in and the streams it prints to. It opens
//! them again when they are needed.

/// Forgets them. Files that the handler itself has open are its own to close.
pub(crate) fn release_handles() {
    // What waits for the end of its line would be printed by every instance.
    let _ = std::io::Write::flush(&mut std::io::stdout());
    #[cfg(libc_releases)]
    release();
}

#[cfg(libc_releases)]
#[expect(unsafe_code, reason = "functions of the C library that this component is linked with")]
fn release() {
    unsafe extern "C" {
        fn __wasilibc_reset_preopens();
        fn __wasilibc_init_stdio() -> i32;
        fn close(descriptor: i32) -> i32;
    }
    // SAFETY: none takes a pointer, and no other thread exists. A descriptor that is not open makes `close`
    // return an error, no more.
    unsafe {
        // The table gives out first what was freed last, so the three get their numbers back.
        let open = [2, 1, 0].map(|descriptor| close(descriptor) == 0);
        if open == [true; 3] {
            __wasilibc_init_stdio();
        }
        // Last: `close` opens the folders if they are not.
        __wasilibc_reset_preopens();
    }
}
