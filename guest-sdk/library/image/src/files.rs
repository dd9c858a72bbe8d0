//! Picture files: the kind, the head, the pixels.
//!
//! In:  the bytes of a file. Out: its size before anything else, then its pixels, a byte for each value.
//! Invariant: memory for the pixels is asked for in one piece before the decoder begins, and its refusal is
//! an error, not the end of the instance.

use std::io::Cursor;

use image_webp::WebPDecoder;
use png::Transformations;
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use crate::{Error, Format, exif};

/// Rows and columns that a JPEG can have.
const JPEG_EXTENT: usize = u16::MAX as usize;

/// A file whose head was read.
pub struct File<'a> {
    pub format: Format,
    /// In pixels, as they lie in the file.
    pub width: u32,
    pub height: u32,
    /// As EXIF numbers it, 1 to 8.
    pub orientation: u8,
    bytes: &'a [u8],
    /// Whether a decoder holds the picture a second time, as coefficients of 16 bits.
    is_progressive: bool,
}

/// Pixels.
pub struct Picture {
    pub width: u32,
    pub height: u32,
    /// Row by row, `channels` values for each pixel.
    pub values: Vec<u8>,
    /// 3 for red, green and blue, 1 for grey.
    pub channels: usize,
}

impl<'a> File<'a> {
    /// Reads a file's head.
    ///
    /// # Errors
    /// It is of no known kind, or its head is broken.
    pub fn open(bytes: &'a [u8]) -> Result<File<'a>, Error> {
        if bytes.starts_with(&[0xff, 0xd8, 0xff]) {
            return File::jpeg(bytes);
        }
        if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
            return File::png(bytes);
        }
        if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP".as_slice()) {
            return File::webp(bytes);
        }
        Err(Error::Unsupported(match bytes {
            [] => "an empty file".to_owned(),
            _ => "no JPEG, PNG or WebP file".to_owned(),
        }))
    }

    fn jpeg(bytes: &'a [u8]) -> Result<File<'a>, Error> {
        let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), jpeg_options());
        decoder.decode_headers().map_err(jpeg_error)?;
        let (width, height) = decoder.dimensions().ok_or_else(|| invalid("JPEG", "it has no size"))?;
        Ok(File {
            format: Format::Jpeg,
            width: extent(width),
            height: extent(height),
            orientation: decoder.exif().map_or(1, |data| exif::orientation(data)),
            bytes,
            is_progressive: is_progressive(bytes),
        })
    }

    fn png(bytes: &'a [u8]) -> Result<File<'a>, Error> {
        let reader = png_decoder(bytes).read_info().map_err(png_error)?;
        let info = reader.info();
        Ok(File {
            format: Format::Png,
            width: info.width,
            height: info.height,
            orientation: info.exif_metadata.as_ref().map_or(1, |data| exif::orientation(data)),
            bytes,
            is_progressive: false,
        })
    }

    fn webp(bytes: &'a [u8]) -> Result<File<'a>, Error> {
        let mut decoder = WebPDecoder::new(Cursor::new(bytes)).map_err(|error| invalid("WebP", error))?;
        let (width, height) = decoder.dimensions();
        let exif = decoder.exif_metadata().ok().flatten();
        Ok(File {
            format: Format::Webp,
            width,
            height,
            orientation: exif.map_or(1, |data| exif::orientation(&data)),
            bytes,
            is_progressive: false,
        })
    }

    /// Decodes the picture, in colours.
    ///
    /// # Errors
    /// There is no memory for it, or it is broken.
    pub fn decode(&self) -> Result<Picture, Error> {
        let (width, height) = (self.width, self.height);
        let too_large = || Error::TooLarge(format!("no memory for a picture of {width} by {height}"));
        if width == 0 || height == 0 {
            return Err(Error::Invalid("a picture without pixels".to_owned()));
        }
        // Decoders hold pixels once more, or their coefficients.
        let held = match self.format {
            Format::Jpeg => {
                if self.is_progressive {
                    9
                } else {
                    3
                }
            }
            Format::Png => 4,
            Format::Webp => 8,
        };
        let held = bytes(width, height, held).filter(|held| has_memory(*held));
        held.ok_or_else(too_large)?;
        let values = match self.format {
            Format::Jpeg => self.decode_jpeg()?,
            Format::Png => self.decode_png()?,
            Format::Webp => self.decode_webp()?,
        };
        if Some(values.len()) != bytes(width, height, 3) {
            return Err(Error::Invalid("not as many pixels as the file's head says".to_owned()));
        }
        Ok(Picture { width, height, values, channels: 3 })
    }

    fn decode_jpeg(&self) -> Result<Vec<u8>, Error> {
        if is_cut_off(self.bytes) {
            return Err(invalid("JPEG", "it is cut off"));
        }
        let mut decoder = JpegDecoder::new_with_options(ZCursor::new(self.bytes), jpeg_options());
        decoder.decode().map_err(jpeg_error)
    }

    fn decode_png(&self) -> Result<Vec<u8>, Error> {
        let mut reader = png_decoder(self.bytes).read_info().map_err(png_error)?;
        let size = reader.output_buffer_size().ok_or_else(|| invalid("PNG", "it has no size"))?;
        let mut values = vec![0; size];
        let frame = reader.next_frame(&mut values).map_err(png_error)?;
        values.truncate(frame.buffer_size());
        Ok(in_colours(values, frame.color_type.samples()))
    }

    fn decode_webp(&self) -> Result<Vec<u8>, Error> {
        let mut decoder =
            WebPDecoder::new(Cursor::new(self.bytes)).map_err(|error| invalid("WebP", error))?;
        let size = decoder.output_buffer_size().ok_or_else(|| invalid("WebP", "it has no size"))?;
        let mut values = vec![0; size];
        decoder.read_image(&mut values).map_err(|error| invalid("WebP", error))?;
        Ok(in_colours(values, if decoder.has_alpha() { 4 } else { 3 }))
    }
}

impl Picture {
    /// Leaves one value for each pixel: the weights are those of ITU-R 601, in 16 bits.
    pub fn grey(&mut self) {
        if self.channels == 1 {
            return;
        }
        let mut at = 0;
        for start in (0..self.values.len()).step_by(3) {
            let Some(&[red, green, blue]) = self.values.get(start..start + 3) else { break };
            let sum = u32::from(red) * 19595 + u32::from(green) * 38470 + u32::from(blue) * 7471 + 0x8000;
            if let Some(value) = self.values.get_mut(at) {
                *value = (sum >> 16) as u8;
            }
            at += 1;
        }
        self.values.truncate(at);
        self.channels = 1;
    }
}

/// Bytes of a picture; `None` if no memory has as many.
pub fn bytes(width: u32, height: u32, channels: usize) -> Option<usize> {
    let (width, height) = (usize::try_from(width).ok()?, usize::try_from(height).ok()?);
    width.checked_mul(height)?.checked_mul(channels)
}

/// Whether the sandbox gives this instance so many bytes. It keeps them for those who ask next.
pub fn has_memory(bytes: usize) -> bool {
    Vec::<u8>::new().try_reserve_exact(bytes).is_ok()
}

fn extent(extent: usize) -> u32 {
    u32::try_from(extent).unwrap_or(u32::MAX)
}

fn jpeg_options() -> DecoderOptions {
    DecoderOptions::default()
        .jpeg_set_out_colorspace(ColorSpace::RGB)
        .set_max_width(JPEG_EXTENT)
        .set_max_height(JPEG_EXTENT)
}

/// A decoder that gives values of 8 bits for every kind of PNG, and holds neither texts nor profiles.
fn png_decoder(bytes: &[u8]) -> png::Decoder<Cursor<&[u8]>> {
    let mut decoder = png::Decoder::new(Cursor::new(bytes));
    decoder.set_transformations(Transformations::EXPAND | Transformations::STRIP_16);
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    decoder
}

/// Whether a JPEG's frame begins as that of a progressive one does: the decoder keeps all coefficients.
fn is_progressive(bytes: &[u8]) -> bool {
    let mut at = 2;
    while let Some(&[0xff, marker, high, low]) = bytes.get(at..at + 4) {
        match marker {
            0xc2 => return true,
            // The other frames, and a scan.
            0xc0 | 0xc1 | 0xda => return false,
            // A byte that fills.
            0xff => at += 1,
            _ => at += 2 + usize::from(u16::from_be_bytes([high, low])),
        }
    }
    true
}

/// Whether a JPEG lacks its end: the decoder would make up what is missing. A small picture inside the head
/// has an end as well, and anything may lie behind the file's own: a film, another picture.
fn is_cut_off(bytes: &[u8]) -> bool {
    // As almost all do.
    if bytes.ends_with(&[0xff, 0xd9]) {
        return false;
    }
    let mut at = 2;
    let mut is_in_scan = false;
    while let Some(&[first, marker]) = bytes.get(at..at + 2) {
        match (first, marker) {
            (0xff, 0xd9) => return false,
            // A byte that fills.
            (0xff, 0xff) => at += 1,
            // A byte of the scan's that looks like a marker, and what stands alone.
            (0xff, 0x00 | 0x01 | 0xd0..=0xd8) => at += 2,
            (0xff, _) => {
                let length = bytes.get(at + 2..at + 4).and_then(|length| length.try_into().ok());
                let Some(length) = length.map(u16::from_be_bytes) else { return true };
                is_in_scan = marker == 0xda;
                at += 2 + usize::from(length);
            }
            // The scan goes on up to the next marker.
            _ if is_in_scan => match bytes.get(at..).and_then(marker_in) {
                Some(next) => at += next,
                None => return true,
            },
            // Between segments there is nothing else; the decoder says what is wrong.
            _ => at += 1,
        }
    }
    true
}

/// Where the next byte is that a marker may begin with.
fn marker_in(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|byte| *byte == 0xff)
}

/// Red, green and blue of pixels with so many values.
fn in_colours(mut values: Vec<u8>, samples: usize) -> Vec<u8> {
    match samples {
        1 | 2 => {
            values.chunks_exact(samples).flat_map(|pixel| [pixel.first().copied().unwrap_or(0); 3]).collect()
        }
        4 => {
            let pixels = values.len() / 4;
            for pixel in 0..pixels {
                values.copy_within(pixel * 4..pixel * 4 + 3, pixel * 3);
            }
            values.truncate(pixels * 3);
            values
        }
        _ => values,
    }
}

fn invalid(kind: &str, error: impl std::fmt::Display) -> Error {
    Error::Invalid(on_one_line(&format!("a broken {kind} file: {error}")))
}

fn jpeg_error(error: zune_jpeg::errors::DecodeErrors) -> Error {
    match error {
        zune_jpeg::errors::DecodeErrors::Unsupported(what) => {
            Error::Unsupported(on_one_line(&format!("a JPEG file of a rare kind: {what:?}")))
        }
        zune_jpeg::errors::DecodeErrors::LargeDimensions(extent) => {
            Error::TooLarge(format!("a picture with {extent} pixels on a side"))
        }
        error => Error::Invalid(on_one_line(&format!("a broken JPEG file: {error:?}"))),
    }
}

fn png_error(error: png::DecodingError) -> Error {
    match error {
        png::DecodingError::LimitsExceeded => {
            Error::TooLarge("a PNG file that takes too much memory".to_owned())
        }
        error => invalid("PNG", error),
    }
}

/// A decoder's text, for one line of a response.
fn on_one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").trim_end_matches('.').to_owned()
}
