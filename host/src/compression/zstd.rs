//! Zstandard (RFC 8878) as a coding of HTTP (RFC 9659).
//!
//! Place in the flow: [`Coding::decode`](super::Coding::decode), [`Coding::encode`](super::Coding::encode).
//! In: a body of any number of frames. Out: its bytes.
//! Invariants: no frame asks for a window of more than 8 MiB, or than a body may have; the frames of a body
//! are looked at before any is unpacked, by the lengths that their blocks have in front, so one that holds
//! next to nothing is refused before it costs anything.

use std::io::{self, Read};

use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

/// Largest window (RFC 9659, section 3).
const WINDOW: u64 = 8 << 20;
/// Most blocks of a body, and most frames. One has up to 128 KiB when it is unpacked; an encoder that is
/// flushed often makes smaller ones.
const MOST: usize = 1 << 16;
const MAGIC: u32 = 0xfd2f_b528;
/// The first of 16 that begin a frame which is passed over.
const SKIPPABLE: u32 = 0x184d_2a50;

pub(super) fn encode(bytes: impl Read) -> Vec<u8> {
    compress_to_vec(bytes, CompressionLevel::Fastest)
}

/// Unpacks the frames of a body, one after the other.
pub(super) struct ZstdReader<'a> {
    frames: std::vec::IntoIter<&'a [u8]>,
    /// Of the frame that is under way: the rest of it.
    rest: Option<&'a [u8]>,
    decoder: FrameDecoder,
}

impl<'a> ZstdReader<'a> {
    /// Of a body that may have `limit` bytes.
    ///
    /// # Errors
    /// It is no sequence of frames, or `FileTooLarge`.
    pub(super) fn new(body: &'a [u8], limit: usize) -> io::Result<ZstdReader<'a>> {
        let frames = frames(body, limit)?;
        if frames.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(ZstdReader { frames: frames.into_iter(), rest: None, decoder: FrameDecoder::new() })
    }
}

impl Read for ZstdReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            if let Some(rest) = &mut self.rest {
                let length = read_frame(&mut self.decoder, rest, buffer)?;
                if length > 0 {
                    return Ok(length);
                }
                let expected = self.decoder.get_checksum_from_data();
                if expected.is_some() && expected != self.decoder.get_calculated_checksum() {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "its checksum is another"));
                }
            }
            let Some(mut next) = self.frames.next() else { return Ok(0) };
            self.decoder.init(&mut next).map_err(io::Error::other)?;
            self.rest = Some(next);
        }
    }
}

/// Reads on in a frame that has begun.
fn read_frame(decoder: &mut FrameDecoder, rest: &mut &[u8], buffer: &mut [u8]) -> io::Result<usize> {
    while decoder.can_collect() == 0 && !decoder.is_finished() {
        decoder
            .decode_blocks(&mut *rest, BlockDecodingStrategy::UptoBytes(buffer.len()))
            .map_err(io::Error::other)?;
    }
    decoder.read(buffer)
}

/// The frames of a body that hold something.
fn frames(mut body: &[u8], limit: usize) -> io::Result<Vec<&[u8]>> {
    let cut_off = || io::Error::from(io::ErrorKind::UnexpectedEof);
    let (mut found, mut blocks, mut count) = (Vec::new(), 0, 0);
    while !body.is_empty() {
        count += 1;
        let magic = u32::from_le_bytes(*body.first_chunk().ok_or_else(cut_off)?);
        let length = if magic & !0xf == SKIPPABLE {
            skipped_length(body).ok_or_else(cut_off)?
        } else if magic == MAGIC {
            let (window, begin) = window(body).ok_or_else(cut_off)?;
            match window {
                Window::Whole(size) if size > limit as u64 => return Err(io::ErrorKind::FileTooLarge.into()),
                Window::Sliding(size) if size > WINDOW => {
                    return Err(io::Error::new(
                        io::ErrorKind::InvalidData,
                        "its window is larger than 8 MiB",
                    ));
                }
                Window::Whole(_) | Window::Sliding(_) => {}
            }
            let length = end(body, begin, &mut blocks).ok_or_else(cut_off)?;
            found.push(body.get(..length).ok_or_else(cut_off)?);
            length
        } else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        if blocks > MOST || count > MOST {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it holds next to nothing"));
        }
        body = body.get(length..).ok_or_else(cut_off)?;
    }
    Ok(found)
}

/// The length of a frame that is passed over.
fn skipped_length(body: &[u8]) -> Option<usize> {
    let length = u32::from_le_bytes(*body.get(4..)?.first_chunk()?);
    usize::try_from(length).ok()?.checked_add(8)
}

/// The part of a frame that a decoder keeps.
enum Window {
    /// All of it.
    Whole(u64),
    /// The last bytes.
    Sliding(u64),
}

/// Of the frame that a body begins with, and where its blocks begin.
fn window(body: &[u8]) -> Option<(Window, usize)> {
    let descriptor = *body.get(4)?;
    let is_single = descriptor & 0x20 != 0;
    let dictionary = match descriptor & 0x03 {
        3 => 4,
        flag => usize::from(flag),
    };
    let size = match descriptor >> 6 {
        0 => usize::from(is_single),
        flag => 1 << flag,
    };
    if is_single {
        let begin = 5 + dictionary;
        let field = body.get(begin..begin + size)?;
        let value = field.iter().rev().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
        return Some((Window::Whole(if size == 2 { value + 256 } else { value }), begin + size));
    }
    let byte = *body.get(5)?;
    let base = 1u64 << (10 + (byte >> 3));
    Some((Window::Sliding(base + base / 8 * u64::from(byte & 0x07)), 6 + dictionary + size))
}

/// Where the frame ends whose blocks begin `at`; their number is added to `blocks`.
fn end(body: &[u8], mut at: usize, blocks: &mut usize) -> Option<usize> {
    const ONE_BYTE_REPEATED: u32 = 1;
    let has_checksum = *body.get(4)? & 0x04 != 0;
    loop {
        *blocks += 1;
        let [a, b, c] = *body.get(at..)?.first_chunk()?;
        let header = u32::from_le_bytes([a, b, c, 0]);
        let (is_last, kind, size) = (header & 1 != 0, header >> 1 & 3, (header >> 3) as usize);
        at = at.checked_add(3 + if kind == ONE_BYTE_REPEATED { 1 } else { size })?;
        if is_last {
            return Some(at + if has_checksum { 4 } else { 0 });
        }
    }
}
