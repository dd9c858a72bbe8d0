//! Brotli (RFC 7932).
//!
//! Place in the flow: [`Coding::decode`](super::Coding::decode), [`Coding::encode`](super::Coding::encode).
//! In: a body. Out: its bytes.
//! Invariant: a decoder keeps 16 MiB at most of what it has made, the largest window of the format.

use std::io::{self, BufRead as _, Read, Write as _};

use brotli::enc::StandardAlloc;
use brotli::{BrotliDecompressStream, BrotliResult, BrotliState, CompressorWriter};
use bytes::Bytes;

use super::metered::{Metered, PIECE};

/// How much time is spent for how few bytes, of 11.
const QUALITY: u32 = 4;
/// The window, as a power of two.
const WINDOW: u32 = 20;

pub(super) fn encode(pieces: &[Bytes]) -> io::Result<Vec<u8>> {
    let mut encoder = CompressorWriter::new(Vec::new(), PIECE, QUALITY, WINDOW);
    pieces.iter().try_for_each(|piece| encoder.write_all(piece))?;
    Ok(encoder.into_inner())
}

/// Unpacks a body.
pub(super) struct BrotliReader<'a> {
    state: BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>,
    body: Metered<'a>,
    made: usize,
    has_ended: bool,
}

impl<'a> BrotliReader<'a> {
    pub(super) fn new(body: Metered<'a>) -> BrotliReader<'a> {
        let alloc = StandardAlloc::default;
        let mut state = BrotliState::new(alloc(), alloc(), alloc());
        // An extension with windows of up to a gigabyte, which is no coding of HTTP.
        state.large_window = false;
        BrotliReader { state, body, made: 0, has_ended: false }
    }

    /// Bytes that came after the end.
    pub(super) fn left(&self) -> usize {
        self.body.rest.len()
    }
}

impl Read for BrotliReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.has_ended || buffer.is_empty() {
            return Ok(0);
        }
        loop {
            let packed = self.body.fill_buf()?;
            let is_all = packed.is_empty();
            let (mut available, mut taken) = (packed.len(), 0);
            let (mut room, mut written) = (buffer.len(), 0);
            let result = BrotliDecompressStream(
                &mut available,
                &mut taken,
                packed,
                &mut room,
                &mut written,
                buffer,
                &mut self.made,
                &mut self.state,
            );
            self.body.consume(taken);
            match result {
                BrotliResult::ResultSuccess => self.has_ended = true,
                BrotliResult::ResultFailure => return Err(io::ErrorKind::InvalidData.into()),
                BrotliResult::NeedsMoreInput if written == 0 && is_all => {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                BrotliResult::NeedsMoreInput if written == 0 => continue,
                BrotliResult::NeedsMoreInput | BrotliResult::NeedsMoreOutput => {}
            }
            return Ok(written);
        }
    }
}
