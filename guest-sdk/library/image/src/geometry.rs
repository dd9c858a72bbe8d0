//! The size of a picture, on its way to that of the tensor.
//!
//! In:  the size and orientation of a file's picture, the preparation. Out: the part that is used, the size
//! that it is brought to, and its place in the tensor.
//! Invariant: numbers are rounded as Pillow's `ImageOps` does, so that the same pixels come out.

use crate::{Fit, Preparation};

/// From the file's picture to the tensor's.
#[derive(Debug, PartialEq)]
pub struct Geometry {
    /// Left, top, width and height of what is used, in the file's picture as it lies there.
    pub cut: (f64, f64, f64, f64),
    /// Columns and rows that it is brought to, as it lies in the file.
    pub resized: (u32, u32),
    /// The same, turned.
    pub turned: (u32, u32),
    /// Columns and rows of the tensor.
    pub size: (u32, u32),
    /// Where the turned picture begins in it.
    pub offset: (u32, u32),
    /// The file's picture, turned.
    pub original: (u32, u32),
    /// Where a point of it lies in the tensor: `(x * scale.0 + shift.0, y * scale.1 + shift.1)`.
    pub scale: (f64, f64),
    pub shift: (f64, f64),
    is_whole: bool,
}

impl Geometry {
    /// For a picture of this size.
    pub fn of(width: u32, height: u32, orientation: u8, preparation: &Preparation) -> Geometry {
        let is_on_its_side = orientation >= 5;
        let turn = |(x, y)| if is_on_its_side { (y, x) } else { (x, y) };
        let original = turn((width, height));
        let size = preparation.size.unwrap_or(original);
        let (w, h) = (f64::from(original.0), f64::from(original.1));
        let (columns, rows) = (f64::from(size.0), f64::from(size.1));
        let (mut cut, mut turned) = ((0.0, 0.0, w, h), size);
        match preparation.fit {
            Fit::Stretch => {}
            Fit::Cover => {
                let ratio = columns / rows;
                let (cut_width, cut_height) = if w / h >= ratio { (ratio * h, h) } else { (w, w / ratio) };
                cut = ((w - cut_width) * 0.5, (h - cut_height) * 0.5, cut_width, cut_height);
            }
            Fit::Contain => {
                let rounded = |extent: f64, most: u32| (extent.round_ties_even() as u32).clamp(1, most);
                if w / h > columns / rows {
                    turned.1 = rounded(h / w * columns, size.1);
                } else {
                    turned.0 = rounded(w / h * rows, size.0);
                }
            }
        }
        let centred = |whole: u32, part: u32| (f64::from(whole.saturating_sub(part)) * 0.5).round_ties_even();
        let offset = (centred(size.0, turned.0), centred(size.1, turned.1));
        let scale = (f64::from(turned.0) / cut.2, f64::from(turned.1) / cut.3);
        Geometry {
            // What is cut off is the same on both sides, so that turning moves it nowhere else.
            cut: if is_on_its_side { (cut.1, cut.0, cut.3, cut.2) } else { cut },
            resized: turn(turned),
            turned,
            size,
            offset: (offset.0 as u32, offset.1 as u32),
            original,
            scale,
            shift: (offset.0 - cut.0 * scale.0, offset.1 - cut.1 * scale.1),
            is_whole: (cut.2, cut.3) == (w, h),
        }
    }

    /// Whether nothing is cut off.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Whether the picture fills the tensor.
    pub fn is_filled(&self) -> bool {
        self.turned == self.size
    }
}
