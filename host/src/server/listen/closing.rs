//! Closes a listener without losing a connection that its client already sees.
//!
//! Place in the flow: when the drain begins. In: a listener. Out: its last connections, then a closed port.
//! The kernel completes handshakes by itself and keeps the connections until they are accepted; closing the
//! listener resets them, although their clients may have sent a request. So new handshakes are refused first,
//! those that have begun get the time to complete, everything in the queue is accepted, and only then is the
//! listener closed.
//! Invariant: this needs no privilege. Where the kernel does not refuse handshakes,
//! connections are accepted for the same time, and one that completes between the last `accept` and the
//! close, microseconds later, may be reset.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpStream};

/// How long a handshake that has begun may take to complete.
const HANDSHAKE: Duration = Duration::from_millis(100);
/// How long connections that cannot be accepted, for want of a file descriptor, are tried for.
const PATIENCE: Duration = Duration::from_secs(1);
/// Between two looks at the queue.
const PAUSE: Duration = Duration::from_millis(5);

/// Accepts what the kernel holds for a listener, then closes it.
///
/// # Errors
/// A connection could not be accepted.
pub(super) async fn close(listener: TcpListener, spawn: impl Fn((TcpStream, SocketAddr))) -> io::Result<()> {
    if let Err(error) = refuse_handshakes(&listener) {
        tracing::debug!("new connections cannot be refused before the listener is closed: {error}");
    }
    // The kernel's own answer is wanted, not what the runtime last heard from it.
    let listener = listener.into_std()?;
    let begun = Instant::now();
    loop {
        // Measured before the queue is looked at: what completes in time is accepted.
        let passed = begun.elapsed();
        match accept_all(&listener, &spawn) {
            Ok(()) if passed >= HANDSHAKE => return Ok(()),
            Err(error) if passed >= PATIENCE => return Err(error),
            Ok(()) | Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

fn accept_all(listener: &std::net::TcpListener, spawn: impl Fn((TcpStream, SocketAddr))) -> io::Result<()> {
    loop {
        match listener.accept() {
            Ok((stream, address)) => {
                stream.set_nonblocking(true)?;
                spawn((TcpStream::from_std(stream)?, address));
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            // Its client has gone again; there may be more behind it.
            Err(error) if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Binds the listener to a network interface that does not exist: from now on the kernel refuses new
/// connections as if the port were closed, while handshakes that have begun, and the queue, stay as they are.
/// Any user may do this since Linux 5.7. A socket filter would do the same, but is refused to ordinary users
/// on some systems.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "no library that is used here has this option")]
fn refuse_handshakes(listener: &TcpListener) -> io::Result<()> {
    use std::os::fd::AsRawFd as _;
    /// From `asm-generic/socket.h`.
    const SO_BINDTOIFINDEX: libc::c_int = 62;
    const LENGTH: libc::socklen_t = size_of::<libc::c_int>() as libc::socklen_t;
    let no_interface = libc::c_int::MAX;
    // SAFETY: the descriptor is open while the listener is borrowed; the value is only read, during the call,
    // and has this length.
    let done = unsafe {
        let value = (&raw const no_interface).cast();
        libc::setsockopt(listener.as_raw_fd(), libc::SOL_SOCKET, SO_BINDTOIFINDEX, value, LENGTH)
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(not(target_os = "linux"))]
fn refuse_handshakes(_: &TcpListener) -> io::Result<()> {
    Err(ErrorKind::Unsupported.into())
}
