//! Pixels to a tensor: turned, in the order and of the type that a model takes.
//!
//! In:  a picture of the final size. Out: the bytes of the tensor.
//! Invariant: each byte of a picture has one value for each channel, which is computed once.

use half::f16;

use crate::files::{Picture, bytes, has_memory};
use crate::geometry::Geometry;
use crate::{Colours, Datatype, Error, Layout, Pixels, Preparation};

/// The values of a byte, 0 to 255.
type Values<const SIZE: usize> = [[u8; SIZE]; 256];

#[expect(clippy::indexing_slicing, reason = "there is one for each byte")]
fn of<const SIZE: usize>(values: &Values<SIZE>, byte: u8) -> [u8; SIZE] {
    values[usize::from(byte)]
}

/// Values of a pixel.
///
/// # Errors
/// There is not a mean and a deviation for each of them, or one is no number to divide by.
pub fn channels(preparation: &Preparation) -> Result<usize, Error> {
    let channels = if preparation.colours == Colours::Grey { 1 } else { 3 };
    for (name, values) in [("mean", &preparation.mean), ("deviation", &preparation.deviation)] {
        if !values.is_empty() && values.len() != channels {
            let text =
                format!("`{name}` has {} values, expected one for each of {channels}, or none", values.len());
            return Err(Error::Preparation(text));
        }
    }
    let is_usable = |value: &f32| value.is_finite();
    let is_divisor = |value: &f32| value.is_finite() && *value != 0.0;
    if !is_usable(&preparation.scale)
        || !preparation.mean.iter().all(is_usable)
        || !preparation.deviation.iter().all(is_divisor)
    {
        let text = "`scale`, `mean` and `deviation` have to be finite, and a deviation not 0";
        return Err(Error::Preparation(text.to_owned()));
    }
    Ok(channels)
}

/// Makes the tensor.
///
/// # Errors
/// There is no memory for it.
pub fn tensor(
    picture: Picture,
    geometry: &Geometry,
    orientation: u8,
    preparation: &Preparation,
) -> Result<Pixels, Error> {
    let (columns, rows) = geometry.size;
    let channels = picture.channels;
    let width = match preparation.datatype {
        Datatype::Uint8 => 1,
        Datatype::Fp16 => 2,
        Datatype::Fp32 => 4,
    };
    let is_as_it_is = orientation == 1
        && geometry.is_filled()
        && preparation.datatype == Datatype::Uint8
        && (channels == 1 || preparation.layout == Layout::Pixels && preparation.colours == Colours::Rgb);
    let data = if is_as_it_is {
        picture.values
    } else {
        let size = bytes(columns, rows, channels * width).filter(|size| has_memory(*size));
        let Some(size) = size else {
            return Err(Error::TooLarge(format!("no memory for a tensor of {columns} by {rows}")));
        };
        let write = Write { picture: &picture, geometry, orientation, preparation };
        match preparation.datatype {
            Datatype::Uint8 => write.values(size, |_, byte| [byte]),
            Datatype::Fp16 => write.values(size, |channel, byte| {
                f16::from_f32(number(preparation, channel, byte)).to_le_bytes()
            }),
            Datatype::Fp32 => {
                write.values(size, |channel, byte| number(preparation, channel, byte).to_le_bytes())
            }
        }
    };
    let (channels, rows, columns) = (channels as u64, u64::from(rows), u64::from(columns));
    Ok(Pixels {
        shape: match preparation.layout {
            Layout::Planes => vec![channels, rows, columns],
            Layout::Pixels => vec![rows, columns, channels],
        },
        data,
        width: geometry.original.0,
        height: geometry.original.1,
        left: geometry.shift.0 as f32,
        top: geometry.shift.1 as f32,
        scale_x: geometry.scale.0 as f32,
        scale_y: geometry.scale.1 as f32,
    })
}

/// The value of a byte.
fn number(preparation: &Preparation, channel: usize, byte: u8) -> f32 {
    let mean = preparation.mean.get(channel).copied().unwrap_or(0.0);
    let deviation = preparation.deviation.get(channel).copied().unwrap_or(1.0);
    (f32::from(byte) * preparation.scale - mean) / deviation
}

struct Write<'a> {
    picture: &'a Picture,
    geometry: &'a Geometry,
    orientation: u8,
    preparation: &'a Preparation,
}

impl Write<'_> {
    /// The tensor's bytes, `size` of them, each byte of the picture written as `value` of its channel.
    fn values<const SIZE: usize>(&self, size: usize, value: impl Fn(usize, u8) -> [u8; SIZE]) -> Vec<u8> {
        let channels = self.picture.channels;
        let tables: Vec<Values<SIZE>> =
            (0..channels).map(|channel| std::array::from_fn(|byte| value(channel, byte as u8))).collect();
        let (columns, rows) = (self.geometry.size.0 as usize, self.geometry.size.1 as usize);
        let mut data = vec![0; size];
        for (channel, table) in tables.iter().enumerate() {
            // In the order of the tensor's values, which the mean and the deviation have too.
            let source =
                if self.preparation.colours == Colours::Bgr { channels - 1 - channel } else { channel };
            let (start, step) = match self.preparation.layout {
                Layout::Planes => (channel * rows * columns, 1),
                Layout::Pixels => (channel, channels),
            };
            if !self.geometry.is_filled() {
                let padding = of(table, self.preparation.padding);
                let cells = data.as_chunks_mut::<SIZE>().0.iter_mut().skip(start).step_by(step);
                cells.take(rows * columns).for_each(|cell| *cell = padding);
            }
            self.channel(&mut data, table, source, start, step);
        }
        data
    }

    /// Writes one channel of the picture to every `step`th value from `start`.
    fn channel<const SIZE: usize>(
        &self,
        data: &mut [u8],
        table: &Values<SIZE>,
        source: usize,
        start: usize,
        step: usize,
    ) {
        let Geometry { size: (columns, _), turned, offset, .. } = *self.geometry;
        let way = Way::of(self.picture.width as usize, self.picture.height as usize, self.orientation);
        let channels = self.picture.channels;
        let cells = data.as_chunks_mut::<SIZE>().0;
        for row in 0..turned.1 as usize {
            let first = (row + offset.1 as usize) * columns as usize + offset.0 as usize;
            let cells = cells.iter_mut().skip(start + first * step).step_by(step).take(turned.0 as usize);
            let mut at = way.first.wrapping_add(way.down.wrapping_mul(row)).wrapping_mul(channels) + source;
            for cell in cells {
                if let Some(byte) = self.picture.values.get(at) {
                    *cell = of(table, *byte);
                }
                at = at.wrapping_add(way.right.wrapping_mul(channels));
            }
        }
    }
}

/// Where the pixels of a turned picture are found, in pixels: the first, and the distance of the next to the
/// right and of the next below, which may be negative and wrap around.
struct Way {
    first: usize,
    right: usize,
    down: usize,
}

impl Way {
    fn of(width: usize, height: usize, orientation: u8) -> Way {
        let (last_column, last_row) = (width.saturating_sub(1), height.saturating_sub(1) * width);
        let (back, up) = (1usize.wrapping_neg(), width.wrapping_neg());
        let (first, right, down) = match orientation {
            2 => (last_column, back, width),
            3 => (last_row + last_column, back, up),
            4 => (last_row, 1, up),
            5 => (0, width, 1),
            6 => (last_row, up, 1),
            7 => (last_row + last_column, up, back),
            8 => (last_column, width, back),
            _ => (0, 1, width),
        };
        Way { first, right, down }
    }
}
