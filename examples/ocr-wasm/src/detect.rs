//! The boxes of text in what the detector says of an image.
//!
//! In:  for each pixel, how likely it belongs to text. Out: a quadrilateral around each line, in the pixels
//! of the image.
//!
//! The network sees lines thinner than they are, so that two of them do not touch ("differentiable
//! binarization"): the boxes around its regions are widened again.

use crate::geometry::{Point, Quad, area_and_perimeter, clockwise, smallest_rectangle};

/// From here on a pixel belongs to text.
const PIXEL: f32 = 0.3;
/// And a box, by the mean of its pixels.
const BOX: f32 = 0.5;
/// How much a box is widened, by its area over its perimeter.
const WIDENING: f32 = 1.6;
/// Boxes with a shorter side than this are noise, before and after widening.
const SHORTEST: f32 = 3.0;
const MOST_REGIONS: usize = 1000;

/// The output of the detector.
pub struct Map<'a> {
    pub width: usize,
    pub height: usize,
    pub values: &'a [f32],
}

/// The boxes of text in an image of this size, in the order of reading.
pub fn boxes(map: &Map<'_>, width: usize, height: usize) -> Vec<Quad> {
    let mask = thickened(map);
    let mut boxes = Vec::new();
    for region in regions(&mask, map.width, map.height).into_iter().take(MOST_REGIONS) {
        let Some(thin) = smallest_rectangle(region).filter(|it| it.short >= SHORTEST) else { continue };
        if mean(map, &thin.corners) < BOX {
            continue;
        }
        let wide = smallest_rectangle(widened(&thin.corners));
        let Some(wide) = wide.filter(|it| it.short >= SHORTEST + 2.0) else { continue };
        let scaled = wide.corners.map(|corner| {
            let x = corner.x / map.width as f32 * width as f32;
            let y = corner.y / map.height as f32 * height as f32;
            let limited = |at: f32, most: usize| at.round_ties_even().clamp(0.0, most as f32 - 1.0);
            Point::new(limited(x, width), limited(y, height))
        });
        let corners @ [a, b, _, d] = clockwise(scaled);
        if a.distance(b) >= SHORTEST + 1.0 && a.distance(d) >= SHORTEST + 1.0 {
            boxes.push(corners);
        }
    }
    in_reading_order(&mut boxes);
    boxes
}

/// Which pixels belong to text, and their neighbours to the right and below.
fn thickened(map: &Map<'_>) -> Vec<bool> {
    let width = map.width;
    let mut mask: Vec<bool> = map.values.iter().map(|value| *value > PIXEL).collect();
    for row in mask.chunks_exact_mut(width) {
        let mut before = false;
        for pixel in row {
            (before, *pixel) = (*pixel, *pixel || before);
        }
    }
    let above: Vec<bool> = std::iter::repeat_n(false, width).chain(mask.iter().copied()).collect();
    mask.iter_mut().zip(above).for_each(|(pixel, above)| *pixel |= above);
    mask
}

/// The outlines of all regions, in no order, and of the holes in them.
///
/// Of a region it is its pixels beside others, of a hole the pixels around it.
fn regions(mask: &[bool], width: usize, height: usize) -> Vec<Vec<Point>> {
    const BESIDE: [(isize, isize); 4] = [(0, -1), (-1, 0), (1, 0), (0, 1)];
    const DIAGONAL: [(isize, isize); 4] = [(-1, -1), (1, -1), (-1, 1), (1, 1)];
    let neighbour = |(x, y): (usize, usize), (dx, dy): (isize, isize)| {
        let (x, y) = (x.checked_add_signed(dx)?, y.checked_add_signed(dy)?);
        (x < width && y < height).then_some((x, y))
    };
    let at = |(x, y): (usize, usize)| y * width + x;
    let is_text = |place| mask.get(at(place)).copied().unwrap_or_default();
    let mut seen = vec![false; mask.len()];
    let mut visit = |place| seen.get_mut(at(place)).is_some_and(|seen| !std::mem::replace(seen, true));
    let mut found = Vec::new();
    for start in (0..height).flat_map(|y| (0..width).map(move |x| (x, y))) {
        if !visit(start) {
            continue;
        }
        let text = is_text(start);
        let (mut outline, mut reaches_the_edge) = (Vec::new(), false);
        let mut waiting = vec![start];
        while let Some(place) = waiting.pop() {
            let mut is_outline = false;
            for step in BESIDE {
                match neighbour(place, step) {
                    None => (is_outline, reaches_the_edge) = (true, true),
                    Some(next) if is_text(next) != text => {
                        is_outline = true;
                        if !text {
                            outline.push(next);
                        }
                    }
                    Some(next) if visit(next) => waiting.push(next),
                    Some(_) => {}
                }
            }
            if !text {
                continue;
            }
            if is_outline {
                outline.push(place);
            }
            // Text is connected by corners too, what is around it is not.
            for next in DIAGONAL.iter().filter_map(|step| neighbour(place, *step)) {
                if is_text(next) && visit(next) {
                    waiting.push(next);
                }
            }
        }
        if text || !reaches_the_edge {
            found.push(outline.into_iter().map(|(x, y)| Point::new(x as f32, y as f32)).collect());
        }
    }
    found
}

/// The mean of the map inside a box.
fn mean(map: &Map<'_>, corners: &Quad) -> f32 {
    let corners = corners.map(|corner| Point::new(corner.x.trunc(), corner.y.trunc()));
    let (mut sum, mut count) = (0.0_f64, 0_usize);
    for (y, row) in map.values.chunks_exact(map.width).enumerate() {
        let y = y as f32;
        let (mut left, mut right) = (f32::INFINITY, f32::NEG_INFINITY);
        for (a, b) in corners.iter().zip(corners.iter().cycle().skip(1)) {
            if y < a.y.min(b.y) || y > a.y.max(b.y) {
                continue;
            }
            let share = if a.y == b.y { 0.0 } else { (y - a.y) / (b.y - a.y) };
            let crossing = a.x + share * (b.x - a.x);
            let ends = if a.y == b.y { [a.x, b.x] } else { [crossing; 2] };
            for x in ends {
                (left, right) = (left.min(x), right.max(x));
            }
        }
        if left > right {
            continue;
        }
        // A negative number is 0 as an index.
        let (left, right) = (left.round() as usize, (right.round() as usize).min(map.width - 1));
        for value in row.get(left..=right).unwrap_or_default() {
            sum += f64::from(*value);
            count += 1;
        }
    }
    (sum / count.max(1) as f64) as f32
}

/// The outline of a box that is wider on all sides, with round corners.
fn widened(corners: &Quad) -> Vec<Point> {
    const STEPS: usize = 64;
    let (area, perimeter) = area_and_perimeter(corners);
    let distance = area * WIDENING / perimeter;
    let around = |corner: &Point| {
        let (x, y) = (corner.x.trunc(), corner.y.trunc());
        (0..STEPS).map(move |step| {
            let angle = std::f32::consts::TAU * step as f32 / STEPS as f32;
            Point::new((x + distance * angle.cos()).round(), (y + distance * angle.sin()).round())
        })
    };
    corners.iter().flat_map(around).collect()
}

/// From top to bottom; what is on one line, within 10 pixels, from left to right.
fn in_reading_order(boxes: &mut [Quad]) {
    boxes.sort_by(|[a, ..], [b, ..]| a.y.total_cmp(&b.y).then(a.x.total_cmp(&b.x)));
    for end in 2..=boxes.len() {
        for start in (0..end - 1).rev() {
            let Some([one, other]) = boxes.get_mut(start..start + 2) else { break };
            let ([a, ..], [b, ..]) = (&*one, &*other);
            if (b.y - a.y).abs() >= 10.0 || b.x >= a.x {
                break;
            }
            std::mem::swap(one, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(rows: &[&str]) -> (usize, usize, Vec<f32>) {
        let value = |character| match character {
            '#' => 0.9,
            '+' => 0.4,
            _ => 0.0,
        };
        (rows[0].len(), rows.len(), rows.iter().flat_map(|row| row.chars().map(value)).collect())
    }

    #[test]
    fn regions_and_holes_have_outlines() {
        let (width, height, values) = map(&["......", ".###..", ".#.#..", ".####.", "......", "....##"]);
        let mask: Vec<bool> = values.iter().map(|value| *value > PIXEL).collect();
        let mut sizes: Vec<usize> = regions(&mask, width, height).iter().map(Vec::len).collect();
        sizes.sort_unstable();
        // The pair at the edge, what is around the hole (its four sides), the ring.
        assert_eq!(sizes, [2, 4, 9]);
    }

    #[test]
    fn a_line_of_text_becomes_a_box_that_is_wider() {
        let blank = ".".repeat(40);
        let line = format!("{blank:.8}{}{blank:.8}", "#".repeat(24));
        let faint = format!("{blank:.8}{}{blank:.8}", "+".repeat(24));
        let rows = |middle: &str| {
            let rows: Vec<&str> =
                (0..24).map(|y| if (8..14).contains(&y) { middle } else { &blank }).collect();
            map(&rows)
        };
        let (width, height, values) = rows(&line);
        let found = boxes(&Map { width, height, values: &values }, 80, 48);
        // 25 by 7 pixels after thickening, of which centres are 24 and 6 apart: 144 · 1.6 / 60 is 3.84 on
        // each side.
        let expected = [(8.0, 8.0), (72.0, 8.0), (72.0, 36.0), (8.0, 36.0)].map(|(x, y)| Point::new(x, y));
        assert_eq!(found, [expected]);
        let (width, height, values) = rows(&faint);
        assert_eq!(boxes(&Map { width, height, values: &values }, 80, 48), Vec::<Quad>::new());
    }

    #[test]
    fn boxes_are_read_by_lines() {
        let at = |x: f32, y: f32| [Point::new(x, y); 4];
        let mut boxes = [at(50.0, 0.0), at(0.0, 40.0), at(0.0, 4.0), at(90.0, 35.0), at(20.0, 8.0)];
        in_reading_order(&mut boxes);
        assert_eq!(
            boxes.map(|[a, ..]| (a.x, a.y)),
            [(0.0, 4.0), (20.0, 8.0), (50.0, 0.0), (0.0, 40.0), (90.0, 35.0)]
        );
    }
}
