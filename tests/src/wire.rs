//! HTTP/1.1 by hand, for tests that decide when each byte is sent and must see how a connection ends.
//!
//! In: bytes to send. Out: one [`Reply`] a response, whose length the host always announces.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};

use crate::{PATIENCE, Reply};

/// Where the bytes go: the socket itself, or TLS over it.
pub trait Stream: Read + Write + Send {}

impl<T: Read + Write + Send> Stream for T {}

/// One connection.
pub struct Wire {
    socket: TcpStream,
    stream: Box<dyn Stream>,
    /// Received, but not yet part of a reply.
    unread: Vec<u8>,
}

/// A whole `POST` with a JSON content type.
pub fn post(path: &str, headers: &[(&str, &str)], body: &str) -> Vec<u8> {
    let mut head = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(&format!("content-length: {}\r\n\r\n{body}", body.len()));
    head.into_bytes()
}

/// A whole `GET`.
pub fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").into_bytes()
}

impl Wire {
    /// Connects to `http://HOST:PORT`.
    ///
    /// # Errors
    /// The connection's, such as `ConnectionRefused`.
    pub fn connect(url: &str) -> io::Result<Wire> {
        Wire::over(url, |socket| Ok(Box::new(socket)))
    }

    /// Connects to `http://HOST:PORT` or `https://HOST:PORT`, and speaks over what `wrap` makes of the socket.
    ///
    /// # Errors
    /// The connection's.
    pub fn over(url: &str, wrap: impl FnOnce(TcpStream) -> io::Result<Box<dyn Stream>>) -> io::Result<Wire> {
        let address = url.split_once("://").map_or(url, |(_, address)| address);
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.set_write_timeout(Some(PATIENCE))?;
        let stream = wrap(socket.try_clone()?)?;
        Ok(Wire { socket, stream, unread: Vec::new() })
    }

    /// Says that nothing more will be sent, and goes on reading.
    ///
    /// # Errors
    /// The connection's.
    pub fn finish(&self) -> io::Result<()> {
        self.socket.shutdown(Shutdown::Write)
    }

    /// What was received and is no reply yet.
    pub fn unread(&self) -> &[u8] {
        &self.unread
    }

    /// Forgets what was received and is no reply yet; how many bytes that were.
    pub fn forget(&mut self) -> usize {
        std::mem::take(&mut self.unread).len()
    }

    /// Waits until the host has closed the connection, and gives all that came before.
    pub fn until_closed(mut self) -> Vec<u8> {
        while self.receive().is_ok() {}
        self.unread
    }

    /// Sends bytes: a whole request, or any part of one.
    ///
    /// # Errors
    /// The connection's.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Reads the next response to its end.
    ///
    /// # Errors
    /// The connection's; `UnexpectedEof` with the number of bytes that came, if it ended too early.
    pub fn read(&mut self) -> io::Result<Reply> {
        let end_of_head = loop {
            if let Some(at) = self.unread.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break at + 4;
            }
            self.receive()?;
        };
        let head = String::from_utf8_lossy(&self.unread[..end_of_head]).into_owned();
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok());
        let status = status.unwrap_or_else(|| panic!("no status in {head:?}"));
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let mut reply = Reply { status, headers, body: Vec::new() };
        let length = reply.header("content-length").and_then(|length| length.parse::<usize>().ok());
        // An interim response, `100 Continue`, is its head alone, and so is one without content.
        let length = length.or((status < 200 || status == 204).then_some(0));
        let end = end_of_head + length.unwrap_or_else(|| panic!("no length in {head:?}"));
        while self.unread.len() < end {
            self.receive()?;
        }
        let rest = self.unread.split_off(end);
        reply.body = std::mem::replace(&mut self.unread, rest).split_off(end_of_head);
        Ok(reply)
    }

    /// Waits for at least one more byte.
    ///
    /// # Errors
    /// As [`Wire::read`].
    pub fn receive(&mut self) -> io::Result<()> {
        let mut bytes = [0; 16 << 10];
        match self.stream.read(&mut bytes)? {
            0 => {
                let text = format!("the host closed the connection after {} bytes", self.unread.len());
                Err(io::Error::new(ErrorKind::UnexpectedEof, text))
            }
            n => {
                self.unread.extend_from_slice(&bytes[..n]);
                Ok(())
            }
        }
    }
}
