//! Says which colour a picture has.
//!
//! In:   a JPEG file.
//! Out:  `{"colour": "red", "probability": 0.99, "width": 96, "height": 64}`.
//!
//! The model takes `[pictures, 3, rows, columns]` floats from 0 to 1: a plane of red, one of green, one of blue.

use modelhost_guest::{Context, Handler, Response, Result, Sample, Tensor, handler, internal, invalid};
use serde::Serialize;
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

const COLOURS: [&str; 3] = ["red", "green", "blue"];
/// Rows and columns of what the model gets.
const SIZE: usize = 32;
/// Pixels along a side of what is taken: what is decoded has to fit the sandbox's memory.
const LARGEST: usize = 4096;

/// What the response's body holds.
#[derive(Serialize)]
struct Answer {
    colour: &'static str,
    probability: f32,
    width: usize,
    height: usize,
}

/// Width and height are kept from the one function to the other: both run for one request before the next begins.
#[derive(Default)]
struct Picture {
    width: usize,
    height: usize,
}

#[handler]
impl Handler for Picture {
    /// From the file to the model's pixels.
    fn pre_inference(&mut self, sample: Sample, _context: &Context) -> Result<Vec<Tensor>> {
        let options = DecoderOptions::default()
            .jpeg_set_out_colorspace(ColorSpace::RGB)
            .set_max_width(LARGEST)
            .set_max_height(LARGEST);
        let mut decoder = JpegDecoder::new_with_options(ZCursor::new(&sample.body), options);
        let rgb = decoder.decode().map_err(|error| invalid(format!("this is no JPEG: {error}")))?;
        (self.width, self.height) = decoder.dimensions().ok_or_else(|| internal("a picture has a size"))?;
        let pixels = smaller(&rgb, self.width, self.height);
        Ok(vec![Tensor::new("pixels", [1, 3, SIZE as u64, SIZE as u64], &pixels)])
    }

    /// From the probabilities to the response.
    fn post_inference(&mut self, prediction: Vec<Tensor>, _context: &Context) -> Result<Response> {
        let probabilities = prediction.first().ok_or_else(|| internal("the model has no output"))?;
        let probabilities = probabilities.values::<f32>()?;
        let best = COLOURS.into_iter().zip(probabilities.iter().copied()).max_by(|a, b| a.1.total_cmp(&b.1));
        let (colour, probability) = best.ok_or_else(|| internal("the model's output is empty"))?;
        Response::json(&Answer { colour, probability, width: self.width, height: self.height })
    }
}

/// Planes of `SIZE` rows and columns, from 0 to 1: each pixel is the mean of those that it stands for.
fn smaller(rgb: &[u8], width: usize, height: usize) -> Vec<f32> {
    let span = |at: usize, extent: usize| {
        let start = at * extent / SIZE;
        start..((at + 1) * extent / SIZE).max(start + 1).min(extent)
    };
    let mut planes = Vec::with_capacity(3 * SIZE * SIZE);
    for channel in 0..3 {
        for row in 0..SIZE {
            for column in 0..SIZE {
                let (mut sum, mut count) = (0u32, 0u32);
                for y in span(row, height) {
                    for x in span(column, width) {
                        sum += u32::from(rgb[(y * width + x) * 3 + channel]);
                        count += 1;
                    }
                }
                planes.push(sum as f32 / (count.max(1) as f32 * 255.0));
            }
        }
    }
    planes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_becomes_planes_of_one_size() {
        let mut picture = Picture::new();
        let sample = Sample::new("image/jpeg", include_bytes!("../sample.jpg").as_slice());
        let tensors = picture.pre_inference(sample, &Context::builder().build()).unwrap();
        assert_eq!(tensors[0].shape, [1, 3, 32, 32]);
        assert_eq!((picture.width, picture.height), (96, 64));
        let pixels = tensors[0].values::<f32>().unwrap();
        assert!((pixels[0] - 200.0 / 255.0).abs() < 0.05, "red begins in the upper left corner: {}", pixels[0]);
    }

    #[test]
    fn what_is_no_picture_is_refused() {
        let sample = Sample::new("image/jpeg", b"no picture".as_slice());
        let refused = Picture::new().pre_inference(sample, &Context::builder().build());
        assert!(matches!(refused, Err(modelhost_guest::Error::InvalidInput(_))), "{refused:?}");
    }

    #[test]
    fn a_picture_of_one_pixel_is_that_pixel_everywhere() {
        let planes = smaller(&[255, 0, 51], 1, 1);
        assert_eq!((planes[0], planes[SIZE * SIZE], planes[3 * SIZE * SIZE - 1]), (1.0, 0.0, 0.2));
    }
}
