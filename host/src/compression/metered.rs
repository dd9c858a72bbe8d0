//! The reader that every decoder of a compressed body reads from.
//!
//! Place in the flow: between the packed bytes and a decoder. Invariant: little is read of a body that holds
//! next to nothing.

use std::cell::Cell;
use std::io::{self, BufRead, Read};

/// The bytes that are read and written between two looks at the progress.
pub(super) const PIECE: usize = 16 << 10;
/// How much more may go into a decoder than has come out of it. The formats add a thousandth at most.
const SLACK: usize = 256 << 10;

/// The reader of a decoder, a little at a time. Fails once far more went in than came out: that is not how
/// anything is packed, but a megabyte of blocks that hold nothing keeps a decoder busy for seconds.
pub(super) struct Metered<'a> {
    pub(super) rest: &'a [u8],
    pub(super) fed: usize,
    pub(super) made: &'a Cell<usize>,
}

impl Read for Metered<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.fill_buf()?.read(buffer)?;
        self.consume(length);
        Ok(length)
    }
}

impl BufRead for Metered<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.fed > self.made.get().saturating_add(SLACK) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it holds next to nothing"));
        }
        Ok(self.rest.get(..PIECE).unwrap_or(self.rest))
    }

    fn consume(&mut self, length: usize) {
        self.fed += length;
        self.rest = self.rest.get(length..).unwrap_or_default();
    }
}
