//! HTTP/2 by hand (RFC 9113), for tests that do with frames what no client does.
//!
//! In: frames to send. Out: frames as they come, headers not decoded.

use std::io;

use crate::wire::Wire;

/// Types of frames.
pub const DATA: u8 = 0;
/// See [`DATA`].
pub const HEADERS: u8 = 1;
/// See [`DATA`].
pub const PRIORITY: u8 = 2;
/// See [`DATA`].
pub const RST_STREAM: u8 = 3;
/// See [`DATA`].
pub const SETTINGS: u8 = 4;
/// See [`DATA`].
pub const PING: u8 = 6;
/// See [`DATA`].
pub const GOAWAY: u8 = 7;
/// See [`DATA`].
pub const WINDOW_UPDATE: u8 = 8;
/// See [`DATA`].
pub const CONTINUATION: u8 = 9;

/// Flags of HEADERS and DATA.
pub const END_STREAM: u8 = 1;
/// Flag of SETTINGS and PING.
pub const ACK: u8 = 1;
/// See [`END_STREAM`].
pub const END_HEADERS: u8 = 4;

/// One frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Its type.
    pub kind: u8,
    /// Its flags.
    pub flags: u8,
    /// The stream; 0 is the connection.
    pub stream: u32,
    /// What it holds.
    pub payload: Vec<u8>,
}

/// A connection that speaks HTTP/2.
pub struct Http2 {
    wire: Wire,
    read: usize,
}

impl Http2 {
    /// Begins on a connection: preface and empty settings.
    ///
    /// # Errors
    /// The connection's.
    pub fn begin(mut wire: Wire) -> io::Result<Http2> {
        wire.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")?;
        let mut this = Http2 { wire, read: 0 };
        this.send(SETTINGS, 0, 0, &[])?;
        Ok(this)
    }

    /// Sends one frame.
    ///
    /// # Errors
    /// The connection's.
    pub fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> io::Result<()> {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let mut frame = length[1..].to_vec();
        frame.extend([kind, flags]);
        frame.extend(stream.to_be_bytes());
        frame.extend(payload);
        self.wire.send(&frame)
    }

    /// The next frame.
    ///
    /// # Errors
    /// The connection's; `UnexpectedEof` at its end.
    pub fn receive(&mut self) -> io::Result<Frame> {
        loop {
            let bytes = &self.wire.unread()[self.read..];
            if bytes.len() >= 9 {
                let length = u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]) as usize;
                if bytes.len() >= 9 + length {
                    let stream = u32::from_be_bytes([bytes[5], bytes[6], bytes[7], bytes[8]]);
                    let payload = bytes[9..9 + length].to_vec();
                    let frame = Frame { kind: bytes[3], flags: bytes[4], stream, payload };
                    self.read += 9 + length;
                    return Ok(frame);
                }
            }
            self.wire.receive()?;
        }
    }

    /// Waits for a frame of this type.
    ///
    /// # Errors
    /// As [`Http2::receive`].
    pub fn receive_kind(&mut self, kind: u8) -> io::Result<Frame> {
        loop {
            let frame = self.receive()?;
            if frame.kind == kind {
                return Ok(frame);
            }
        }
    }
}

/// The header block of a `POST` without a body's length.
pub fn post(path: &str, headers: &[(&str, &str)]) -> Vec<u8> {
    head("POST", path, headers)
}

/// The header block of a request: HPACK (RFC 7541) without compression.
pub fn head(method: &str, path: &str, headers: &[(&str, &str)]) -> Vec<u8> {
    let text = |text: &str| {
        let mut bytes =
            vec![u8::try_from(text.len()).ok().filter(|length| *length < 127).expect("a short text")];
        bytes.extend(text.as_bytes());
        bytes
    };
    // `:method`, `:authority` and `:path` by their names in the static table; of it `:scheme: http`.
    let mut block = vec![0x02];
    block.extend(text(method));
    block.extend([0x86, 0x01]);
    block.extend(text("test"));
    block.push(0x04);
    block.extend(text(path));
    for (name, value) in headers {
        block.push(0x00);
        block.extend(text(name));
        block.extend(text(value));
    }
    block
}

/// Whether a response's header block begins with status 200: the entry of the static table.
pub fn is_ok(headers: &Frame) -> bool {
    headers.kind == HEADERS && headers.payload.first() == Some(&0x88)
}
