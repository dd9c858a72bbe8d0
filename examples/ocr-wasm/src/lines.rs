//! The cut-out lines of an image: turned upright by the classifier, read by the recogniser.
//!
//! In:  images of lines. Out: their texts.
//!
//! Both models take lines of one height in batches. Lines of like shape are together, as many as six, and all
//! batches are started before the first is waited for.

use modelhost_guest::models::{self, Resident};
use modelhost_guest::{Result, Tensor, internal};

use crate::image::Image;

/// What both models take.
const HEIGHT: usize = 48;
const BATCH: usize = 6;
/// The classifier's width, and how sure it has to be.
const CLASSIFIER_WIDTH: usize = 192;
const UPSIDE_DOWN: f32 = 0.9;
/// The recogniser's least width over height.
const LEAST_RATIO: f32 = 320.0 / 48.0;

/// A line's text, and the mean of how sure the recogniser is of its characters.
#[derive(Debug, PartialEq)]
pub struct Text {
    pub text: String,
    pub score: f32,
}

/// Turns the lines that are upside down.
pub fn turn(lines: &mut [Image]) -> Result<()> {
    let outputs = run("classifier", lines, |_| CLASSIFIER_WIDTH)?;
    for (line, output) in lines.iter_mut().zip(outputs) {
        let scores = output.read("")?;
        let &[upright, upside_down] = &*scores.values::<f32>()? else {
            return Err(internal(format!("the classifier answers with {:?} for a line", scores.shape)));
        };
        if upside_down > upright.max(UPSIDE_DOWN) {
            line.flip();
        }
    }
    Ok(())
}

/// Reads the lines. `characters` are those of the recogniser's classes after the first.
pub fn read(lines: &[Image], characters: &[String]) -> Result<Vec<Text>> {
    let width = |batch: &[&Image]| {
        let ratio = batch.iter().map(|line| line.ratio()).fold(LEAST_RATIO, f32::max);
        (HEIGHT as f32 * ratio) as usize
    };
    let outputs = run("recogniser", lines, width)?;
    // One line's scores at a time are in the sandbox, a megabyte or two each.
    outputs.into_iter().map(|output| decoded(&output.read("")?, characters)).collect()
}

/// Runs a model for all lines; the rows of its output, which stay with the host, in the order of the lines.
fn run(model: &str, lines: &[Image], width: impl Fn(&[&Image]) -> usize) -> Result<Vec<Resident>> {
    let mut order: Vec<(usize, &Image)> = lines.iter().enumerate().collect();
    order.sort_by(|(_, a), (_, b)| a.ratio().total_cmp(&b.ratio()));
    let mut runs = Vec::new();
    for batch in order.chunks(BATCH) {
        let (places, lines): (Vec<usize>, Vec<&Image>) = batch.iter().copied().unzip();
        let input = Resident::new(&input(&lines, width(&lines)))?;
        runs.push((places, models::start(model, &[("x", &input)])?));
    }
    let mut outputs = Vec::new();
    for (places, run) in runs {
        let (_, output) =
            run.wait()?.into_inner().pop().ok_or_else(|| internal("the model has no output"))?;
        for (row, place) in (0..).zip(places) {
            outputs.push((place, output.rows(row, 1)?));
        }
    }
    outputs.sort_by_key(|(place, _)| *place);
    Ok(outputs.into_iter().map(|(_, output)| output).collect())
}

/// Lines as one tensor: scaled to the height, on the left of the width.
fn input(lines: &[&Image], width: usize) -> Tensor {
    let shape = [lines.len(), 3, HEIGHT, width];
    Tensor::build("", shape.map(|extent| extent as u64), |values: &mut [f32]| {
        for (values, line) in values.chunks_exact_mut(3 * HEIGHT * width).zip(lines) {
            let own = ((HEIGHT as f32 * line.ratio()).ceil() as usize).clamp(1, width);
            line.resized(own, HEIGHT).write_planes(values, width);
        }
    })
}

/// The text of a line's scores, `[1, steps, classes]`. Class 0 is no character, and a character that goes on
/// for several steps is one ("connectionist temporal classification").
fn decoded(scores: &Tensor, characters: &[String]) -> Result<Text> {
    let classes = scores.shape.last().and_then(|extent| usize::try_from(*extent).ok()).unwrap_or_default();
    if classes != characters.len() + 1 {
        return Err(internal(format!("{} characters for {classes} classes", characters.len())));
    }
    let (mut text, mut sum, mut count, mut before) = (String::new(), 0.0, 0_u16, 0);
    for step in scores.values::<f32>()?.chunks_exact(classes) {
        let best = step.iter().enumerate().reduce(|a, b| if b.1 > a.1 { b } else { a });
        let Some((class, score)) = best else { continue };
        if let Some(character) = class.checked_sub(1).filter(|_| class != before) {
            text.extend(characters.get(character).map(String::as_str));
            (sum, count) = (sum + score, count + 1);
        }
        before = class;
    }
    Ok(Text { text, score: sum / f32::from(count.max(1)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn characters() -> Vec<String> {
        ["a", "b", " "].map(str::to_owned).into()
    }

    #[test]
    fn repeated_classes_are_one_character_unless_parted() {
        let scores = |classes: &[usize]| {
            let rows: Vec<[f32; 4]> = classes
                .iter()
                .map(|class| {
                    let mut row = [0.0, 0.1, 0.1, 0.1];
                    row[*class] = 0.8;
                    row
                })
                .collect();
            Tensor::new("", [1, classes.len() as u64, 4], &rows.concat())
        };
        for (classes, text) in
            [(&[1, 1, 0, 1, 2, 2, 3, 2][..], "aab b"), (&[0, 0], ""), (&[], ""), (&[3, 3, 1], " a")]
        {
            assert_eq!(decoded(&scores(classes), &characters()).unwrap().text, text, "{classes:?}");
        }
        let read = decoded(&scores(&[1, 0, 2]), &characters()).unwrap();
        assert!((read.score - 0.8).abs() < 1e-6);
        assert!(decoded(&scores(&[1]), &["a".to_owned()]).is_err());
    }

    #[test]
    fn lines_go_in_batches_of_like_shape_and_come_back_in_their_order() {
        // The longest come first; the model answers with the width of each line.
        let mut lines: Vec<Image> = (0..8).rev().map(|n| Image::new(10 * (n + 1), 10, [255; 3])).collect();
        models::answer_with(|model, inputs| {
            let &[count, 3, 48, width] = inputs[0].shape.as_slice() else { panic!("{:?}", inputs[0].shape) };
            let values = inputs[0].values::<f32>().unwrap();
            let white = values
                .chunks_exact((3 * 48 * width) as usize)
                .map(|line| line[..width as usize].iter().filter(|value| **value == 1.0).count() as f32);
            Ok(vec![match model {
                "classifier" => {
                    let scores = white.flat_map(|it| if it > 150.0 { [0.05, 0.95_f32] } else { [0.2, 0.8] });
                    Tensor::new("y", [count, 2], &scores.collect::<Vec<_>>())
                }
                _ => Tensor::new("y", [count, 1, 1], &white.collect::<Vec<_>>()),
            }])
        });
        let widths = run("recogniser", &lines, |_| 400).unwrap();
        let width = |output: &Resident| output.read("").unwrap().values::<f32>().unwrap()[0];
        assert_eq!(
            widths.iter().map(width).collect::<Vec<_>>(),
            [384.0, 336.0, 288.0, 240.0, 192.0, 144.0, 96.0, 48.0]
        );
        let before = lines.clone();
        turn(&mut lines).unwrap();
        // Of one colour, they look the same upside down.
        assert_eq!(lines, before);
    }
}
