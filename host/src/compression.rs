//! Compressed bodies: gzip (RFC 1952), deflate (RFC 1950, as RFC 9110 has it), zstd and brotli.
//!
//! Place in the flow: [`Coding::of_body`] and [`Coding::decode`] between a request's body and its reader, for
//! every call; [`Coding::wanted`] and [`Coding::encode`] between an answer and the wire, for protocols whose
//! clients ask for it.
//! Invariant: a body that is unpacked is as long as a body may be, however small it came.

mod accepted;
mod brotli;
mod coding;
mod metered;
mod zstd;

use std::cell::Cell;
use std::io::{self, Read, Write};

use bytes::Bytes;
use flate2::Compression;
use flate2::bufread::{MultiGzDecoder, ZlibDecoder};
use flate2::write::{GzEncoder, ZlibEncoder};
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING};
use http::{HeaderMap, HeaderValue};

use self::brotli::BrotliReader;
pub use self::coding::Coding;
use self::metered::{Metered, PIECE};
use self::zstd::ZstdReader;
use crate::blocking;
use crate::error::{Code, RequestError, Stage};
use crate::memory::{Account, Charge, Exhausted};
use crate::text;

impl Coding {
    /// How a request's body is packed; `None` if it is not.
    ///
    /// # Errors
    /// `unsupported_media_type` for any other coding, or more than one.
    pub fn of_body(headers: &HeaderMap) -> Result<Option<Coding>, RequestError> {
        Coding::of_values(headers.get_all(CONTENT_ENCODING).into_iter().map(HeaderValue::as_bytes))
    }

    /// The same, by the values of `content-encoding`.
    ///
    /// # Errors
    /// As [`Coding::of_body`].
    pub fn of_values<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> Result<Option<Coding>, RequestError> {
        let mut found = None;
        for value in values {
            let name = String::from_utf8_lossy(value);
            let coding = Coding::named(name.trim());
            if coding.is_none() && !name.trim().eq_ignore_ascii_case("identity") || found.is_some() {
                let name = text::cut(name.into_owned());
                let message = format!(
                    "expected content encoding `gzip`, `deflate`, `br` or `zstd`, once, got `{name}`"
                );
                let mut error = RequestError::new(Code::UnsupportedMediaType, Stage::Admit, message);
                error.is_of_coding = true;
                return Err(error);
            }
            found = coding;
        }
        Ok(found)
    }

    /// The coding that a client would like its answer in.
    pub fn wanted(headers: &HeaderMap) -> Option<Coding> {
        let values = headers.get_all(ACCEPT_ENCODING).into_iter();
        accepted::best(values.filter_map(|value| value.to_str().ok()))
    }

    /// Unpacks a body to at most `limit` bytes, which are charged as they come.
    ///
    /// # Errors
    /// `body_too_large`; `overloaded`; `invalid_input` for what is not packed like this, cut short or goes on
    /// after its end.
    pub fn decode(self, body: &[u8], limit: usize, memory: Account) -> Result<Bytes, RequestError> {
        let mut charge = memory.open();
        let unpacked = match self {
            Coding::Gzip => {
                let made = Cell::new(0);
                let decoder = MultiGzDecoder::new(Metered { rest: body, fed: 0, made: &made });
                unpack(decoder, &made, body.len(), limit, &mut charge).map(|(unpacked, _)| unpacked)
            }
            Coding::Deflate => Coding::inflate(body, limit, &mut charge).and_then(|all| whole(all, limit)),
            Coding::Brotli => {
                let made = Cell::new(0);
                let decoder = BrotliReader::new(Metered { rest: body, fed: 0, made: &made });
                unpack(decoder, &made, body.len(), limit, &mut charge)
                    .and_then(|(unpacked, decoder)| whole((unpacked, decoder.left()), limit))
            }
            Coding::Zstd => ZstdReader::new(body, limit).and_then(|decoder| {
                let made = Cell::new(0);
                unpack(decoder, &made, body.len(), limit, &mut charge).map(|(unpacked, _)| unpacked)
            }),
        };
        match unpacked {
            Ok(unpacked) if unpacked.len() <= limit => Ok(charge.own(unpacked.into())),
            Err(error) if error.kind() == io::ErrorKind::OutOfMemory => Err(Exhausted.at(Stage::Admit)),
            Err(error) if error.kind() != io::ErrorKind::FileTooLarge => {
                let message = format!("the body is not the `{}` data that it is announced as", self.name());
                Err(RequestError::invalid(Stage::Admit, message).with_detail(error))
            }
            Ok(_) | Err(_) => {
                let message = format!("the body is longer than {limit} bytes when it is unpacked");
                Err(RequestError::new(Code::BodyTooLarge, Stage::Admit, message))
            }
        }
    }

    /// The unpacked bytes, and the number of bytes that came after their end.
    fn inflate(body: &[u8], limit: usize, charge: &mut Charge) -> io::Result<(Vec<u8>, usize)> {
        let made = Cell::new(0);
        let decoder = ZlibDecoder::new(Metered { rest: body, fed: 0, made: &made });
        let (unpacked, decoder) = unpack(decoder, &made, body.len(), limit, charge)?;
        Ok((unpacked, decoder.into_inner().rest.len()))
    }

    /// Packs pieces, one after the other.
    pub fn encode(self, pieces: &[Bytes]) -> Bytes {
        let bytes = pieces.iter().map(Bytes::len).sum();
        let packed = blocking::if_large(bytes, || match self {
            Coding::Gzip => {
                let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
                pieces.iter().try_for_each(|piece| encoder.write_all(piece)).and_then(|()| encoder.finish())
            }
            Coding::Brotli => brotli::encode(pieces),
            Coding::Zstd => Ok(zstd::encode(Chained(pieces, 0))),
            Coding::Deflate => {
                let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
                pieces.iter().try_for_each(|piece| encoder.write_all(piece)).and_then(|()| encoder.finish())
            }
        });
        // Cannot fail: a `Vec` takes everything.
        packed.unwrap_or_default().into()
    }
}

/// The unpacked bytes, unless some came after their end.
fn whole((unpacked, left): (Vec<u8>, usize), limit: usize) -> io::Result<Vec<u8>> {
    // Of what is too long the end was never looked for.
    let goes_on = left > 0 && unpacked.len() <= limit;
    if goes_on { Err(io::ErrorKind::InvalidData.into()) } else { Ok(unpacked) }
}

/// Pieces, one after the other, and the position in the first of them.
struct Chained<'a>(&'a [Bytes], usize);

impl Read for Chained<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some((first, others)) = self.0.split_first() {
            let length = first.get(self.1..).unwrap_or_default().read(buffer)?;
            if length > 0 || buffer.is_empty() {
                self.1 += length;
                return Ok(length);
            }
            *self = Chained(others, 0);
        }
        Ok(0)
    }
}

/// All that `decoder` has, or one byte more than `limit`; and the decoder. `made` is how much that is so far.
fn unpack<D: Read>(
    mut decoder: D,
    made: &Cell<usize>,
    packed: usize,
    limit: usize,
    charge: &mut Charge,
) -> io::Result<(Vec<u8>, D)> {
    let mut unpacked = Vec::new();
    let mut piece = |unpacked: &mut Vec<u8>| -> io::Result<bool> {
        let most = PIECE.min((limit + 1).saturating_sub(unpacked.len()));
        charge.grow(unpacked.len() + most).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let length = decoder.by_ref().take(most as u64).read_to_end(unpacked)?;
        made.set(unpacked.len());
        Ok(length > 0)
    };
    // A little can become a lot, so how long this takes is known only on the way.
    while packed < blocking::LARGE && unpacked.len() < blocking::LARGE {
        if !piece(&mut unpacked)? {
            return Ok((unpacked, decoder));
        }
    }
    blocking::off_worker(|| {
        while piece(&mut unpacked)? {}
        Ok(())
    })
    .map(|()| (unpacked, decoder))
}

#[cfg(test)]
mod tests {
    use http::HeaderName;

    use super::*;

    fn headers(name: HeaderName, values: &[&str]) -> HeaderMap {
        values.iter().map(|value| (name.clone(), HeaderValue::from_str(value).unwrap())).collect()
    }

    #[test]
    fn both_ways_for_every_length() {
        for coding in Coding::ALL {
            for length in [0, 1, blocking::LARGE - 1, blocking::LARGE, 3 * blocking::LARGE] {
                let body: Bytes = (0..length).map(|i| (i / 7) as u8).collect();
                let pieces = [body.slice(..length / 3), body.slice(length / 3..)];
                let packed = coding.encode(&pieces);
                assert_eq!(
                    coding.decode(&packed, length, Account::default()).unwrap(),
                    body,
                    "{coding:?} {length}"
                );
                if length > 0 {
                    let error = coding.decode(&packed, length - 1, Account::default()).unwrap_err();
                    assert_eq!(error.code, Code::BodyTooLarge, "{coding:?} {length}");
                }
            }
        }
    }

    #[test]
    fn a_bomb_is_read_no_further_than_a_body_may_be_long() {
        for coding in Coding::ALL {
            let bomb = coding.encode(&[vec![0; 64 << 20].into()]);
            assert!(bomb.len() < 1 << 20);
            assert_eq!(
                coding.decode(&bomb, 1 << 20, Account::default()).unwrap_err().code,
                Code::BodyTooLarge
            );
        }
    }

    #[test]
    fn a_bomb_takes_no_more_than_there_is_memory_for() {
        for coding in Coding::ALL {
            let memory = Account::alone(8 << 20);
            let bomb = coding.encode(&[vec![0; 64 << 20].into()]);
            assert_eq!(coding.decode(&bomb, 128 << 20, memory).unwrap_err().code, Code::Overloaded);
            assert_eq!(memory.held(), 0, "{coding:?}");
            let small = coding.encode(&[vec![0; 4 << 20].into()]);
            let unpacked = coding.decode(&small, 128 << 20, memory).unwrap();
            assert_eq!(memory.held(), unpacked.len(), "{coding:?}");
        }
    }

    #[test]
    fn what_holds_nothing_is_soon_given_up() {
        let empty = Coding::Gzip.encode(&[]);
        let members = empty.repeat((32 << 20) / empty.len());
        // Blocks of the fixed code that end at once, ten bits each.
        let blocks = [&[0x78, 0x9c][..], &[0x02, 0x08, 0x20, 0x80, 0x00].repeat(6 << 20)].concat();
        let frames = Coding::Zstd.encode(&[]).repeat(1 << 18);
        // Blocks of metadata without any, after the size of the window.
        let metadata = [&[0x0c][..], &[0x06].repeat(8 << 20)].concat();
        for (coding, body) in [
            (Coding::Gzip, &members),
            (Coding::Deflate, &blocks),
            (Coding::Zstd, &frames),
            (Coding::Brotli, &metadata),
        ] {
            let error = coding.decode(body, 32 << 20, Account::default()).unwrap_err();
            assert_eq!(error.code, Code::InvalidInput, "{coding:?}");
            assert_eq!(error.detail.as_deref(), Some("it holds next to nothing"), "{coding:?}");
        }
    }

    #[test]
    fn nonsense_is_the_callers_mistake() {
        for coding in Coding::ALL {
            let packed = coding.encode(&["body".into()]);
            let longer = [&packed[..], b"more"].concat();
            for body in [&b""[..], b"{}", &packed[..packed.len() - 1], &longer] {
                let error = coding.decode(body, 100, Account::default()).unwrap_err();
                assert_eq!(error.code, Code::InvalidInput, "{coding:?} {body:?}");
            }
        }
    }

    #[test]
    fn frames_of_zstd_come_one_after_the_other() {
        let packed = |text: &'static str| Coding::Zstd.encode(&[text.into()]);
        let skipped = [&[0x5e, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"abc"].concat();
        let body = [&packed("one ")[..], &skipped, &packed(""), &packed("two")].concat();
        assert_eq!(Coding::Zstd.decode(&body, 7, Account::default()).unwrap(), "one two");
        assert_eq!(Coding::Zstd.decode(&body, 6, Account::default()).unwrap_err().code, Code::BodyTooLarge);
    }

    #[test]
    fn a_frame_of_zstd_that_wants_much_memory_gets_none() {
        const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
        // One last block of one byte, repeated once.
        const BLOCK: [u8; 4] = [0x0b, 0, 0, b'a'];
        for (head, expected) in [
            // Windows of 8 MiB and of one step more.
            (&[0x00, 13 << 3][..], Ok("a")),
            (&[0x00, 13 << 3 | 1], Err(Code::InvalidInput)),
            (&[0x00, 0xff], Err(Code::InvalidInput)),
            // In one segment: of a byte, of more than a body may have.
            (&[0x20, 1], Ok("a")),
            (&[0xa0, 0xff, 0xff, 0xff, 0x7f], Err(Code::BodyTooLarge)),
        ] {
            let body = [&MAGIC[..], head, &BLOCK].concat();
            let decoded = Coding::Zstd.decode(&body, 1 << 20, Account::default()).map_err(|error| error.code);
            assert_eq!(decoded.as_deref().map_err(|code| *code), expected.map(str::as_bytes), "{head:?}");
        }
    }

    #[test]
    fn headers_say_how() {
        for (values, expected) in [
            (&[][..], Some(None)),
            (&["identity"], Some(None)),
            (&["gzip"], Some(Some(Coding::Gzip))),
            (&["X-GZIP"], Some(Some(Coding::Gzip))),
            (&["Deflate"], Some(Some(Coding::Deflate))),
            (&["br"], Some(Some(Coding::Brotli))),
            (&["Zstd"], Some(Some(Coding::Zstd))),
            (&["compress"], None),
            (&["gzip, gzip"], None),
            (&["gzip", "deflate"], None),
            (&[""], None),
        ] {
            assert_eq!(Coding::of_body(&headers(CONTENT_ENCODING, values)).ok(), expected, "{values:?}");
        }
        let error = Coding::of_body(&headers(CONTENT_ENCODING, &["compress"])).unwrap_err();
        assert!(error.is_of_coding);
        for coding in Coding::ALL {
            assert!(Coding::TAKEN.to_str().unwrap().split(", ").any(|name| name == coding.name()));
        }
    }
}
