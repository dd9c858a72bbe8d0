//! Reads the text of an image with three models: a detector of lines, a classifier of those that are upside
//! down, a recogniser of characters.
//!
//! Flow: [`image`] (decoding) → detector → [`mod@detect`] (boxes) → [`image`] (cutting out) → [`lines`]
//!       (classifier, recogniser).
//! In:   `POST /` with a PNG or a JPEG.
//! Out:  `[{"text": "…", "score": 0.98, "box": [[x, y], …]}, …]`: lines in the order of reading, their
//!       corners in pixels, clockwise from the upper left.
//!
//! The models and their numbers are those of the package `rapidocr-onnxruntime`, and so are the answers.

mod detect;
mod geometry;
mod image;
mod lines;

use std::sync::LazyLock;

use modelhost_guest::app::{Json, Router};
use modelhost_guest::models::{self, Resident};
use modelhost_guest::{Handler, Metadata, Result, Sample, Tensor, export, internal};
use serde::Serialize;

use crate::geometry::{Point, Quad};
use crate::image::Image;

/// One character a line, in the order of the recogniser's classes.
const CHARACTERS: &str = "/mnt/project/characters.txt";
/// A line that the recogniser is less sure of is left out.
const LEAST_SCORE: f32 = 0.5;
/// An image is made as large as this, and no larger than that.
const LEAST_SIDE: usize = 30;
const LONGEST_SIDE: usize = 2000;
/// The detector sees images whose shorter side is at least this, and whose sides are multiples of `GRID`.
const DETECTOR_SIDE: usize = 736;
const GRID: f32 = 32.0;
/// A flatter image, width over height, gets black above and below, as does one that is lower than
/// `LEAST_SIDE`.
const FLATTEST: usize = 8;

#[derive(Debug, Serialize)]
struct Line {
    text: String,
    score: f32,
    #[serde(rename = "box")]
    corners: [[f32; 2]; 4],
}

struct Ocr {
    characters: Vec<String>,
}

static ROUTES: LazyLock<Router<Ocr>> = LazyLock::new(|| Router::new().post("/", read));

export!(Ocr: init, respond);

impl Handler for Ocr {
    fn new() -> Self {
        Ocr { characters: Vec::new() }
    }

    fn init(&mut self, _: &Metadata) -> Result<()> {
        let characters = std::fs::read_to_string(CHARACTERS)?;
        self.characters = characters.split('\n').map(str::to_owned).collect();
        // The recogniser's last class.
        self.characters.push(" ".to_owned());
        Ok(())
    }

    fn router() -> Option<&'static Router<Ocr>> {
        Some(&ROUTES)
    }
}

fn read(ocr: &mut Ocr, sample: Sample) -> Result<Json<Vec<Line>>> {
    let original = Image::decode(&sample.body)?;
    let sized = sized(&original);
    let padding = padding(&sized);
    let image = if padding > 0 { sized.padded(padding) } else { sized.clone() };
    let boxes = detect(&image)?;
    let mut cuts: Vec<Image> = boxes.iter().map(|corners| upright(image.cut(*corners))).collect();
    lines::turn(&mut cuts)?;
    let texts = lines::read(&cuts, &ocr.characters)?;
    let (across, down) =
        (original.width as f32 / sized.width as f32, original.height as f32 / sized.height as f32);
    let place = |corner: Point| {
        let (x, y) = (corner.x * across, (corner.y - padding as f32) * down);
        [x.clamp(0.0, original.width as f32), y.clamp(0.0, original.height as f32)]
    };
    let lines = boxes.into_iter().zip(texts).filter(|(_, text)| text.score >= LEAST_SCORE);
    let lines =
        lines.map(|(corners, lines::Text { text, score })| Line { text, score, corners: corners.map(place) });
    Ok(Json(lines.collect()))
}

/// The boxes of text.
fn detect(image: &Image) -> Result<Vec<Quad>> {
    let shorter = image.width.min(image.height);
    let scale = (DETECTOR_SIDE as f32 / shorter as f32).max(1.0);
    let (width, height) = on_grid(image, scale);
    let small = image.resized(width, height);
    let shape = [1, 3, height as u64, width as u64];
    let input = Tensor::build("", shape, |values: &mut [f32]| small.write_planes(values, width));
    let input = Resident::new(&input)?;
    let (_, output) = models::run("detector", &[("x", &input)])?
        .into_inner()
        .pop()
        .ok_or_else(|| internal("the detector has no output"))?;
    let output = output.read("")?;
    let values = output.values::<f32>()?;
    if values.len() != width * height {
        return Err(internal(format!("the detector answers with {:?} for {shape:?}", output.shape)));
    }
    let map = detect::Map { width, height, values: &values };
    Ok(detect::boxes(&map, image.width, image.height))
}

/// The image in a size that the models were made for.
fn sized(image: &Image) -> Image {
    let (shorter, longer) = (image.width.min(image.height), image.width.max(image.height));
    let scale = if longer > LONGEST_SIDE {
        LONGEST_SIDE as f32 / longer as f32
    } else if shorter < LEAST_SIDE {
        LEAST_SIDE as f32 / shorter as f32
    } else {
        return image.clone();
    };
    let (width, height) = on_grid(image, scale);
    image.resized(width, height)
}

/// Its scaled sides, as multiples of the grid.
fn on_grid(image: &Image, scale: f32) -> (usize, usize) {
    let side = |side: usize| {
        let cells = ((side as f32 * scale).floor() / GRID).round_ties_even().max(1.0);
        (cells * GRID) as usize
    };
    (side(image.width), side(image.height))
}

/// Rows of black above and below.
fn padding(image: &Image) -> usize {
    let is_flat = image.width > FLATTEST * image.height;
    if image.height > LEAST_SIDE && !is_flat {
        return 0;
    }
    ((image.width / FLATTEST).max(LEAST_SIDE) * 2).abs_diff(image.height) / 2
}

/// A line that stands on its end is laid down.
fn upright(line: Image) -> Image {
    if 2 * line.height >= 3 * line.width { line.turned() } else { line }
}

#[cfg(test)]
mod tests {
    use modelhost_guest::Context;
    use modelhost_guest::app::answer;

    use super::*;

    /// A detector that finds what is dark, a classifier that is content, a recogniser that knows one letter.
    fn serve() {
        models::answer_with(|model, inputs| {
            let shape = inputs[0].shape.clone();
            let values = inputs[0].values::<f32>().unwrap();
            Ok(vec![match model {
                "detector" => {
                    let plane = &values[..(shape[2] * shape[3]) as usize];
                    let found: Vec<f32> = plane.iter().map(|it| if *it < 0.0 { 0.9 } else { 0.0 }).collect();
                    Tensor::new("y", [1, 1, shape[2], shape[3]], &found)
                }
                "classifier" => Tensor::new("y", [shape[0], 2], &vec![0.5_f32; 2 * shape[0] as usize]),
                _ => Tensor::new("y", [shape[0], 1, 3], &[0.1_f32, 0.8, 0.1].repeat(shape[0] as usize)),
            }])
        });
    }

    fn png(width: u32, height: u32, is_dark: impl Fn(u32, u32) -> bool) -> Vec<u8> {
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, width, height);
        encoder.set_color(png::ColorType::Grayscale);
        let places = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
        let bytes: Vec<u8> = places.map(|(x, y)| if is_dark(x, y) { 0 } else { 255 }).collect();
        encoder.write_header().unwrap().write_image_data(&bytes).unwrap();
        file
    }

    #[test]
    fn an_image_goes_through_all_three_models() {
        serve();
        let mut ocr = Ocr { characters: ["x", " "].map(str::to_owned).into() };
        let mut ask = |file: Vec<u8>| {
            answer(&mut ocr, Context::builder().method("POST").path("/").body("image/png", file)).unwrap()
        };
        let answered = ask(png(736, 736, |x, y| (100..300).contains(&x) && (200..230).contains(&y)));
        let score = "\"score\":0.8";
        assert!(answered.text().starts_with("[{\"text\":\"x\","), "{}", answered.text());
        assert!(answered.text().contains(score) && answered.text().matches("text").count() == 1);
        assert_eq!(ask(png(736, 736, |_, _| false)).text(), "[]");
    }

    #[test]
    fn images_are_fitted_to_the_models() {
        let image = |width, height| Image::new(width, height, [0; 3]);
        let size = |image: &Image| (image.width, image.height);
        for (given, expected, rows) in [
            ((640, 480), (640, 480), 0),
            ((4000, 1000), (1984, 512), 0),
            ((20, 400), (32, 608), 0),
            ((900, 100), (900, 100), 62),
            ((100, 30), (100, 30), 15),
        ] {
            let sized = sized(&image(given.0, given.1));
            assert_eq!((size(&sized), padding(&sized)), (expected, rows), "{given:?}");
        }
        assert_eq!(size(&upright(image(20, 30))), (30, 20));
        assert_eq!(size(&upright(image(20, 29))), (20, 29));
    }
}
