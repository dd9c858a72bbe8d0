//! A WebSocket by hand (RFC 6455), for tests that send frames which no client's library would.
//!
//! In: frames to send. Out: frames as they come, and the close.

use std::io;

use crate::Reply;
use crate::wire::Wire;

/// Kinds of frames.
pub const CONTINUATION: u8 = 0;
/// See [`CONTINUATION`].
pub const TEXT: u8 = 1;
/// See [`CONTINUATION`].
pub const BINARY: u8 = 2;
/// See [`CONTINUATION`].
pub const CLOSE: u8 = 8;
/// See [`CONTINUATION`].
pub const PING: u8 = 9;
/// See [`CONTINUATION`].
pub const PONG: u8 = 10;
/// In the first byte of a frame: it is the last of its message.
pub const FINAL: u8 = 0x80;

/// A frame of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SocketFrame {
    /// Its kind.
    pub kind: u8,
    /// What it holds.
    pub payload: Vec<u8>,
}

/// An open socket.
pub struct WebSocket {
    wire: Wire,
    read: usize,
    /// The answer to the handshake.
    pub opening: Reply,
}

/// The bytes of a handshake.
pub fn handshake(path: &str, headers: &[(&str, &str)]) -> Vec<u8> {
    let mut head = format!(
        "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: keep-alive, Upgrade\r\nupgrade: WebSocket\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    );
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    head.into_bytes()
}

/// The bytes of a frame as a client sends it.
pub fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
    const MASK: [u8; 4] = [7, 11, 13, 17];
    let mut frame = vec![first];
    match payload.len() {
        length @ 0..=125 => frame.push(0x80 | length as u8),
        length @ 126..=0xffff => {
            frame.push(0x80 | 126);
            frame.extend((length as u16).to_be_bytes());
        }
        length => {
            frame.push(0x80 | 127);
            frame.extend((length as u64).to_be_bytes());
        }
    }
    frame.extend(MASK);
    frame.extend(payload.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}

impl WebSocket {
    /// Opens a socket at `http://HOST:PORT`.
    ///
    /// # Errors
    /// The answer, if it is another than 101.
    pub fn open(url: &str, path: &str, headers: &[(&str, &str)]) -> Result<WebSocket, Reply> {
        WebSocket::over(Wire::connect(url).unwrap(), path, headers)
    }

    /// The same on a connection.
    ///
    /// # Errors
    /// As [`WebSocket::open`].
    pub fn over(mut wire: Wire, path: &str, headers: &[(&str, &str)]) -> Result<WebSocket, Reply> {
        wire.send(&handshake(path, headers)).unwrap();
        let opening = wire.read().unwrap();
        if opening.status != 101 { Err(opening) } else { Ok(WebSocket { wire, read: 0, opening }) }
    }

    /// Sends bytes as they are.
    ///
    /// # Errors
    /// The connection's.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.wire.send(bytes)
    }

    /// Sends a text.
    pub fn say(&mut self, text: &str) {
        self.send(&masked(FINAL | TEXT, text.as_bytes())).unwrap();
    }

    /// Says a close.
    pub fn close(&mut self, code: u16) {
        self.send(&masked(FINAL | CLOSE, &code.to_be_bytes())).unwrap();
    }

    /// The next frame.
    ///
    /// # Errors
    /// The connection's; `UnexpectedEof` at its end.
    pub fn receive(&mut self) -> io::Result<SocketFrame> {
        loop {
            let bytes = &self.wire.unread()[self.read..];
            if let [first, second, rest @ ..] = bytes {
                assert_eq!(first & 0xf0, FINAL, "the host sends messages in one piece, without extensions");
                assert_eq!(second & 0x80, 0, "a server masks nothing");
                let (length, rest) = match (second, rest) {
                    (126, [a, b, rest @ ..]) => (usize::from(u16::from_be_bytes([*a, *b])), Some(rest)),
                    (127, rest) if rest.len() >= 8 => {
                        let (length, rest) = rest.split_at(8);
                        (u64::from_be_bytes(length.try_into().unwrap()) as usize, Some(rest))
                    }
                    (126 | 127, _) => (0, None),
                    (length, rest) => (usize::from(*length), Some(rest)),
                };
                if let Some(rest) = rest
                    && rest.len() >= length
                {
                    let frame = SocketFrame { kind: first & 0x0f, payload: rest[..length].to_vec() };
                    self.read += bytes.len() - rest.len() + length;
                    return Ok(frame);
                }
            }
            self.wire.receive()?;
        }
    }

    /// The next message, which is a text.
    pub fn hear(&mut self) -> String {
        let frame = self.receive().unwrap();
        assert_eq!(frame.kind, TEXT, "{:?}", frame.closed());
        String::from_utf8(frame.payload).unwrap()
    }

    /// Says a text and gives what is said next.
    pub fn ask(&mut self, text: &str) -> String {
        self.say(text);
        self.hear()
    }

    /// Passes over messages until the close, and sees the connection end after it.
    pub fn closed(mut self) -> (u16, String) {
        loop {
            let frame = self.receive().unwrap();
            if let Some((code, reason)) = frame.closed() {
                // As a client does.
                let _ = self.send(&masked(FINAL | CLOSE, &frame.payload));
                assert!(self.receive().is_err(), "nothing comes after a close");
                return (code, reason);
            }
        }
    }
}

impl SocketFrame {
    /// Code and reason of a close.
    pub fn closed(&self) -> Option<(u16, String)> {
        match (self.kind, &*self.payload) {
            (CLOSE, [a, b, reason @ ..]) => {
                Some((u16::from_be_bytes([*a, *b]), String::from_utf8(reason.to_vec()).unwrap()))
            }
            (CLOSE, _) => Some((1005, String::new())),
            _ => None,
        }
    }
}
