//! Pixels: decoded, scaled, cut out and turned, and as the models take them.
//!
//! Channels are in the order of the models: blue, green, red.

use std::io::Cursor;

use modelhost_guest::{Result, invalid};
use png::{ColorType, Transformations};
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use crate::geometry::{Point, Quad};

/// An image beyond this is refused by its header: it would take more than the handler's memory.
const MOST_PIXELS: usize = 16_000_000;

type Pixel = [u8; 3];

#[derive(Debug, Clone, PartialEq)]
pub struct Image {
    pub width: usize,
    pub height: usize,
    pixels: Vec<Pixel>,
}

impl Image {
    #[cfg(test)]
    pub fn new(width: usize, height: usize, pixel: Pixel) -> Image {
        Image { width, height, pixels: vec![pixel; width * height] }
    }

    /// A PNG or a JPEG.
    ///
    /// # Errors
    /// It is neither, or broken, or too large.
    pub fn decode(bytes: &[u8]) -> Result<Image> {
        if bytes.starts_with(b"\x89PNG") { Image::png(bytes) } else { Image::jpeg(bytes) }
    }

    fn png(bytes: &[u8]) -> Result<Image> {
        let broken = |error: png::DecodingError| invalid(format!("the image: {error}"));
        let mut decoder = png::Decoder::new(Cursor::new(bytes));
        decoder.set_transformations(Transformations::normalize_to_color8());
        let mut reader = decoder.read_info().map_err(broken)?;
        let (width, height) = checked(reader.info().width as usize, reader.info().height as usize)?;
        let size = reader.output_buffer_size().ok_or_else(|| invalid("the image is too large"))?;
        let mut bytes = vec![0; size];
        let frame = reader.next_frame(&mut bytes).map_err(broken)?;
        let channels = frame.color_type.samples();
        let pixels = bytes.chunks_exact(channels);
        let pixels: Vec<Pixel> = match frame.color_type {
            ColorType::Rgba | ColorType::GrayscaleAlpha => {
                let shown = pixels.map(|pixel| {
                    let (alpha, color) = pixel.split_last().unwrap_or((&0, &[]));
                    let color = if *alpha == 0 { [0; 3] } else { bgr(color) };
                    color.map(|channel| channel.saturating_add(255 - alpha))
                });
                shown.collect()
            }
            _ => pixels.map(bgr).collect(),
        };
        Ok(Image { width, height, pixels })
    }

    fn jpeg(bytes: &[u8]) -> Result<Image> {
        let broken = |error| invalid(format!("the image is no PNG, and as a JPEG: {error}"));
        let options = DecoderOptions::default().jpeg_set_out_colorspace(ColorSpace::RGB);
        let mut decoder = JpegDecoder::new_with_options(Cursor::new(bytes), options);
        decoder.decode_headers().map_err(broken)?;
        let (width, height) = decoder.dimensions().unwrap_or_default();
        let (width, height) = checked(width, height)?;
        let bytes = decoder.decode().map_err(broken)?;
        Ok(Image { width, height, pixels: bytes.chunks_exact(3).map(bgr).collect() })
    }

    /// Width over height.
    pub fn ratio(&self) -> f32 {
        self.width as f32 / self.height as f32
    }

    fn at(&self, x: usize, y: usize) -> Pixel {
        self.pixels.get(y * self.width + x).copied().unwrap_or_default()
    }

    /// In another size, by linear interpolation.
    pub fn resized(&self, width: usize, height: usize) -> Image {
        if (width, height) == (self.width, self.height) {
            return self.clone();
        }
        let columns = neighbours(self.width, width);
        let mut pixels = Vec::with_capacity(width * height);
        for (top, bottom, down) in neighbours(self.height, height) {
            for (left, right, along) in &columns {
                let corners = [
                    self.at(*left, top),
                    self.at(*right, top),
                    self.at(*left, bottom),
                    self.at(*right, bottom),
                ];
                pixels.push(mixed(corners, |[a, b, c, d]| {
                    let (upper, lower) = (a + (b - a) * along, c + (d - c) * along);
                    upper + (lower - upper) * down
                }));
            }
        }
        Image { width, height, pixels }
    }

    /// With rows of black above and below.
    pub fn padded(&self, rows: usize) -> Image {
        let padding = vec![[0; 3]; rows * self.width];
        let pixels = [&padding[..], &self.pixels, &padding].concat();
        Image { height: self.height + 2 * rows, pixels, ..*self }
    }

    /// The inside of a quadrilateral as a rectangle, by cubic interpolation.
    pub fn cut(&self, corners: Quad) -> Image {
        let [a, b, c, d] = corners;
        let side = |one: f32, other: f32| (one.max(other) as usize).max(1);
        let (width, height) = (side(a.distance(b), c.distance(d)), side(a.distance(d), b.distance(c)));
        let place = perspective(corners);
        let mut pixels = Vec::with_capacity(width * height);
        for y in 0..height {
            for x in 0..width {
                let at = place(x as f32 / width as f32, y as f32 / height as f32);
                pixels.push(self.cubic(at));
            }
        }
        Image { width, height, pixels }
    }

    fn cubic(&self, at: Point) -> Pixel {
        let (left, top) = (at.x.floor(), at.y.floor());
        let (across, down) = (weights(at.x - left), weights(at.y - top));
        let inside = |at: f32, most: usize| at.clamp(0.0, most as f32 - 1.0) as usize;
        let mut sums = [0.0_f32; 3];
        for (row, down) in (-1_i8..).zip(down) {
            let y = inside(top + f32::from(row), self.height);
            for (column, across) in (-1_i8..).zip(across) {
                let pixel = self.at(inside(left + f32::from(column), self.width), y);
                sums.iter_mut().zip(pixel).for_each(|(sum, it)| *sum += f32::from(it) * across * down);
            }
        }
        sums.map(|sum| sum.round() as u8)
    }

    /// A quarter turn against the clock.
    pub fn turned(&self) -> Image {
        let places = (0..self.width).rev().flat_map(|x| (0..self.height).map(move |y| (x, y)));
        let pixels = places.map(|(x, y)| self.at(x, y)).collect();
        Image { width: self.height, height: self.width, pixels }
    }

    /// Upside down.
    pub fn flip(&mut self) {
        self.pixels.reverse();
    }

    /// Writes it to planes of floats from -1 to 1, one a channel, whose rows are `stride` long; on the left.
    pub fn write_planes(&self, values: &mut [f32], stride: usize) {
        for (channel, plane) in values.chunks_exact_mut(stride * self.height).enumerate() {
            for (row, pixels) in plane.chunks_exact_mut(stride).zip(self.pixels.chunks_exact(self.width)) {
                for (value, pixel) in row.iter_mut().zip(pixels) {
                    let byte = pixel.get(channel).copied().unwrap_or_default();
                    *value = (f32::from(byte) / 255.0 - 0.5) / 0.5;
                }
            }
        }
    }
}

fn checked(width: usize, height: usize) -> Result<(usize, usize)> {
    if width == 0 || height == 0 {
        return Err(invalid("the image has no pixels"));
    }
    if width.saturating_mul(height) > MOST_PIXELS {
        return Err(invalid(format!("the image has more than {MOST_PIXELS} pixels")));
    }
    Ok((width, height))
}

fn bgr(pixel: &[u8]) -> Pixel {
    match pixel {
        [red, green, blue, ..] => [*blue, *green, *red],
        [gray, ..] => [*gray; 3],
        [] => [0; 3],
    }
}

/// For each of `to` places the two of `from` that it lies between, and how near it is to the second.
fn neighbours(from: usize, to: usize) -> Vec<(usize, usize, f32)> {
    let scale = from as f64 / to as f64;
    let place = |index: usize| {
        let at = ((index as f64 + 0.5) * scale - 0.5).clamp(0.0, from as f64 - 1.0);
        let first = at as usize;
        (first, (first + 1).min(from - 1), (at - first as f64) as f32)
    };
    (0..to).map(place).collect()
}

/// A pixel of four, channel by channel.
fn mixed([a, b, c, d]: [Pixel; 4], mix: impl Fn([f32; 4]) -> f32) -> Pixel {
    let mut pixel = [0; 3];
    for (out, (((a, b), c), d)) in pixel.iter_mut().zip(a.into_iter().zip(b).zip(c).zip(d)) {
        *out = mix([a, b, c, d].map(f32::from)).round() as u8;
    }
    pixel
}

/// The weights of four pixels in a row for a place between the second and the third.
fn weights(at: f32) -> [f32; 4] {
    const A: f32 = -0.75;
    let near = |distance: f32| ((A + 2.0) * distance - (A + 3.0)) * distance * distance + 1.0;
    let far = |distance: f32| ((A * distance - 5.0 * A) * distance + 8.0 * A) * distance - 4.0 * A;
    [far(1.0 + at), near(at), near(1.0 - at), far(2.0 - at)]
}

/// From a place in the unit square to one in the quadrilateral (Heckbert, 1989).
fn perspective([a, b, c, d]: Quad) -> impl Fn(f32, f32) -> Point {
    let (right, left) = (Point::new(b.x - c.x, b.y - c.y), Point::new(d.x - c.x, d.y - c.y));
    let skew = Point::new(a.x - b.x + c.x - d.x, a.y - b.y + c.y - d.y);
    let area = right.x * left.y - left.x * right.y;
    let (g, h) = if area == 0.0 {
        (0.0, 0.0)
    } else {
        ((skew.x * left.y - left.x * skew.y) / area, (right.x * skew.y - skew.x * right.y) / area)
    };
    let (across, down) = (
        Point::new(b.x - a.x + g * b.x, b.y - a.y + g * b.y),
        Point::new(d.x - a.x + h * d.x, d.y - a.y + h * d.y),
    );
    move |u, v| {
        let depth = g * u + h * v + 1.0;
        Point::new((across.x * u + down.x * v + a.x) / depth, (across.y * u + down.y * v + a.y) / depth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each pixel tells where it is: 10 · x + y.
    fn image(width: usize, height: usize) -> Image {
        let pixels = (0..height).flat_map(|y| (0..width).map(move |x| [(10 * x + y) as u8; 3])).collect();
        Image { width, height, pixels }
    }

    fn gray(image: &Image) -> Vec<u8> {
        image.pixels.iter().map(|pixel| pixel[0]).collect()
    }

    fn quad(corners: [(f32, f32); 4]) -> Quad {
        corners.map(|(x, y)| Point::new(x, y))
    }

    #[test]
    fn images_are_scaled_turned_and_padded() {
        let small = image(4, 2);
        assert_eq!(small.resized(4, 2), small);
        assert_eq!(gray(&small.resized(2, 1)), [6, 26]);
        assert_eq!(gray(&image(2, 1).resized(4, 1)), [0, 3, 8, 10]);
        let turned = small.turned();
        assert_eq!((turned.width, turned.height, gray(&turned)), (2, 4, vec![30, 31, 20, 21, 10, 11, 0, 1]));
        let padded = small.padded(1);
        assert_eq!((padded.height, gray(&padded)[4..12].to_vec()), (4, gray(&small)));
        let mut flipped = small.clone();
        flipped.flip();
        assert_eq!(gray(&flipped), [31, 21, 11, 1, 30, 20, 10, 0]);
    }

    #[test]
    fn a_quadrilateral_is_cut_out() {
        let whole = image(10, 10);
        let straight = whole.cut(quad([(2.0, 3.0), (6.0, 3.0), (6.0, 5.0), (2.0, 5.0)]));
        assert_eq!((straight.width, straight.height), (4, 2));
        assert_eq!(gray(&straight), [23, 33, 43, 53, 24, 34, 44, 54]);
        // On its side: its upper edge is the right one of the image.
        let aside = whole.cut(quad([(6.0, 3.0), (6.0, 5.0), (2.0, 5.0), (2.0, 3.0)]));
        assert_eq!((aside.width, aside.height, gray(&aside)[..4].to_vec()), (2, 4, vec![63, 64, 53, 54]));
        // Corners of no parallelogram are met all the same.
        let corners = quad([(0.0, 0.0), (9.0, 1.0), (7.0, 8.0), (1.0, 6.0)]);
        let place = perspective(corners);
        let reached = [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0)].map(|(u, v)| place(u, v));
        assert!(reached.iter().zip(corners).all(|(a, b)| a.distance(b) < 1e-4), "{reached:?}");
    }

    #[test]
    fn planes_are_blue_green_red_and_padded() {
        let image = Image::new(1, 1, [0, 255, 51]);
        let mut values = [9.0; 6];
        image.write_planes(&mut values, 2);
        assert_eq!(values, [-1.0, 9.0, 1.0, 9.0, -0.6, 9.0]);
    }

    #[test]
    fn png_of_any_kind_is_decoded_and_the_rest_refused() {
        let encoded = |color: ColorType, bytes: &[u8]| {
            let mut file = Vec::new();
            let mut encoder = png::Encoder::new(&mut file, 2, 1);
            encoder.set_color(color);
            encoder.write_header().unwrap().write_image_data(bytes).unwrap();
            file
        };
        for (color, bytes, expected) in [
            (ColorType::Rgb, &[1, 2, 3, 4, 5, 6][..], [[3, 2, 1], [6, 5, 4]]),
            (ColorType::Grayscale, &[1, 2], [[1; 3], [2; 3]]),
            // What is transparent is on white.
            (ColorType::Rgba, &[1, 2, 3, 255, 9, 9, 9, 0], [[3, 2, 1], [255; 3]]),
            (ColorType::GrayscaleAlpha, &[7, 255, 7, 0], [[7; 3], [255; 3]]),
        ] {
            let image = Image::decode(&encoded(color, bytes)).unwrap();
            assert_eq!((image.width, image.height, image.pixels), (2, 1, expected.to_vec()), "{color:?}");
        }
        let broken = &encoded(ColorType::Rgb, &[0; 6])[..40];
        for (bytes, says) in [(&b"hello"[..], "no PNG, and as a JPEG"), (broken, "the image: ")] {
            assert!(Image::decode(bytes).unwrap_err().to_string().contains(says));
        }
        assert!(checked(4001, 4000).unwrap_err().to_string().contains("more than 16000000 pixels"));
    }
}
