//! Points, and the smallest rectangle around some.

/// A point of an image, in pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    pub x: f32,
    pub y: f32,
}

/// Corners, clockwise from the upper left.
pub type Quad = [Point; 4];

impl Point {
    pub const fn new(x: f32, y: f32) -> Point {
        Point { x, y }
    }

    pub fn distance(self, other: Point) -> f32 {
        (self.x - other.x).hypot(self.y - other.y)
    }
}

/// A rectangle at any angle.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rectangle {
    pub corners: Quad,
    /// The shorter of its sides.
    pub short: f32,
}

/// The rectangle of the smallest area around the points; one side of it lies on a side of their hull.
pub fn smallest_rectangle(points: Vec<Point>) -> Option<Rectangle> {
    let hull = hull(points);
    let ends = hull.iter().cycle().skip(1);
    let around = |(from, to): (&Point, &Point)| {
        let length = from.distance(*to);
        // The direction of the side; any will do for a single point.
        let (x, y) =
            if length > 0.0 { ((to.x - from.x) / length, (to.y - from.y) / length) } else { (1.0, 0.0) };
        let (mut along, mut across) = (Range::default(), Range::default());
        for point in &hull {
            along.extend(point.x * x + point.y * y);
            across.extend(point.y * x - point.x * y);
        }
        let corner = |along: f32, across: f32| Point::new(along * x - across * y, along * y + across * x);
        let corners = [
            corner(along.least, across.least),
            corner(along.most, across.least),
            corner(along.most, across.most),
            corner(along.least, across.most),
        ];
        let (long, short) = (along.most - along.least, across.most - across.least);
        (long * short, Rectangle { corners: clockwise(corners), short: long.min(short) })
    };
    let rectangles = hull.iter().zip(ends).map(around);
    rectangles.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, rectangle)| rectangle)
}

struct Range {
    least: f32,
    most: f32,
}

impl Default for Range {
    fn default() -> Range {
        Range { least: f32::INFINITY, most: f32::NEG_INFINITY }
    }
}

impl Range {
    fn extend(&mut self, value: f32) {
        self.least = self.least.min(value);
        self.most = self.most.max(value);
    }
}

/// The convex hull, by Andrew's monotone chain.
fn hull(mut points: Vec<Point>) -> Vec<Point> {
    points.sort_by(|a, b| a.x.total_cmp(&b.x).then(a.y.total_cmp(&b.y)));
    points.dedup();
    if points.len() < 3 {
        return points;
    }
    let mut lower = chain(points.iter());
    lower.extend(chain(points.iter().rev()));
    lower
}

/// One half of the hull, without its last point.
fn chain<'a>(points: impl Iterator<Item = &'a Point>) -> Vec<Point> {
    let mut chain: Vec<Point> = Vec::new();
    for point in points {
        while let [.., a, b] = chain.as_slice() {
            if (b.x - a.x) * (point.y - a.y) - (b.y - a.y) * (point.x - a.x) > 0.0 {
                break;
            }
            chain.pop();
        }
        chain.push(*point);
    }
    chain.pop();
    chain
}

/// The corners from the upper left on: the two on the left by their height, then those on the right.
pub fn clockwise(mut corners: Quad) -> Quad {
    corners.sort_by(|a, b| a.x.total_cmp(&b.x));
    let [mut top_left, mut bottom_left, mut top_right, mut bottom_right] = corners;
    if top_left.y > bottom_left.y {
        std::mem::swap(&mut top_left, &mut bottom_left);
    }
    if top_right.y > bottom_right.y {
        std::mem::swap(&mut top_right, &mut bottom_right);
    }
    [top_left, top_right, bottom_right, bottom_left]
}

/// The area of a polygon, and how far it is around it.
pub fn area_and_perimeter(corners: &Quad) -> (f32, f32) {
    let sides = || corners.iter().zip(corners.iter().cycle().skip(1));
    let area: f32 = sides().map(|(a, b)| a.x * b.y - b.x * a.y).sum();
    (area.abs() / 2.0, sides().map(|(a, b)| a.distance(*b)).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(all: &[(f32, f32)]) -> Vec<Point> {
        all.iter().map(|(x, y)| Point::new(*x, *y)).collect()
    }

    #[test]
    fn the_smallest_rectangle_is_as_slanted_as_its_points() {
        for (given, corners, short) in [
            // A grid's corners, whatever lies inside.
            (
                &[(0.0, 0.0), (4.0, 0.0), (4.0, 2.0), (0.0, 2.0), (1.0, 1.0), (2.0, 0.0)][..],
                [(0.0, 0.0), (4.0, 0.0), (4.0, 2.0), (0.0, 2.0)],
                2.0,
            ),
            // On its corner: 3-4-5 triangles.
            (
                &[(0.0, 0.0), (8.0, 6.0), (5.0, 10.0), (-3.0, 4.0), (1.0, 4.0)],
                [(0.0, 0.0), (8.0, 6.0), (5.0, 10.0), (-3.0, 4.0)],
                5.0,
            ),
            (&[(1.0, 1.0), (3.0, 1.0), (2.0, 1.0)], [(1.0, 1.0), (3.0, 1.0), (3.0, 1.0), (1.0, 1.0)], 0.0),
            (&[(7.0, 7.0)], [(7.0, 7.0); 4], 0.0),
        ] {
            let found = smallest_rectangle(points(given)).unwrap();
            let expected = points(&corners);
            let near = found.corners.iter().zip(&expected).all(|(a, b)| a.distance(*b) < 1e-4);
            assert!(near && (found.short - short).abs() < 1e-4, "{found:?} for {given:?}");
        }
        assert_eq!(smallest_rectangle(Vec::new()), None);
    }

    #[test]
    fn area_and_perimeter_are_a_polygons() {
        let square = [(0.0, 0.0), (3.0, 0.0), (3.0, 2.0), (0.0, 2.0)].map(|(x, y)| Point::new(x, y));
        assert_eq!(area_and_perimeter(&square), (6.0, 10.0));
    }
}
