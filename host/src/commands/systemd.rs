//! What a service manager is told that starts the host with `Type=notify`: that it is ready, that it stops.
//!
//! In: a state. Out: a datagram to the socket that `NOTIFY_SOCKET` names, as sd_notify(3) has it; nothing
//! without the variable.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use tracing::warn;

/// Tells it. A manager that cannot be told is no reason to end: it ends the host itself if it minds.
pub fn notify(state: &str) {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else { return };
    if let Err(error) = send(&socket, state) {
        warn!("cannot tell the service manager `{state}`: {error}");
    }
}

fn send(socket: &OsStr, state: &str) -> io::Result<()> {
    let sender = UnixDatagram::unbound()?;
    // A manager that does not read is not waited for.
    sender.set_nonblocking(true)?;
    sender.send_to_addr(state.as_bytes(), &address(socket)?)?;
    Ok(())
}

#[cfg(target_os = "linux")]
fn address(socket: &OsStr) -> io::Result<SocketAddr> {
    use std::os::linux::net::SocketAddrExt as _;
    match socket.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(socket),
    }
}

#[cfg(not(target_os = "linux"))]
fn address(socket: &OsStr) -> io::Result<SocketAddr> {
    SocketAddr::from_pathname(socket)
}
