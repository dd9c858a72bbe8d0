//! The image library: picture files to tensors, as a component that is composed into a handler.
//!
//! Place in the flow: a handler calls `modelhost:image/images` (`wit/library/image.wit`); `files.rs` decodes,
//! `geometry.rs` says what becomes of the size, `numbers.rs` writes the tensor.
//! In:  the bytes of a file. Out: the bytes of a tensor.
//! Invariants: what a file says of its size is checked before anything is decoded, and the memory for it
//! asked for; nothing outlives a call.

mod exif;
mod files;
mod geometry;
mod numbers;

#[allow(missing_docs, unsafe_code, reason = "generated")]
mod bindings {
    wit_bindgen::generate!({
        path: "../../../wit/library/image.wit",
        world: "library",
        additional_derives: [PartialEq],
        pub_export_macro: true,
    });
}

use fast_image_resize::images::{TypedImage, TypedImageRef};
use fast_image_resize::pixels::{U8, U8x3};
use fast_image_resize::{FilterType, PixelTrait, ResizeAlg, ResizeOptions, Resizer};

pub use self::bindings::exports::modelhost::image::images::{
    Colours, Datatype, Error, Filter, Fit, Format, Guest, Info, Layout, Pixels, Preparation,
};
use self::files::{File, Picture};
use self::geometry::Geometry;

/// Most pixels of a picture where the preparation does not say.
const MOST_PIXELS: u32 = 4096 * 4096;

/// The component.
#[derive(Debug)]
pub struct Library;

impl Guest for Library {
    fn inspect(file: Vec<u8>) -> Result<Info, Error> {
        inspect(&file)
    }

    fn prepare(file: Vec<u8>, preparation: Preparation) -> Result<Pixels, Error> {
        prepare(&file, &preparation)
    }
}

#[cfg(target_family = "wasm")]
#[allow(unsafe_code, reason = "generated")]
mod component {
    use super::{Library, bindings};

    bindings::export!(Library with_types_in bindings);
}

/// Reads what a file says of its picture.
///
/// # Errors
/// It is no picture.
pub fn inspect(file: &[u8]) -> Result<Info, Error> {
    let file = File::open(file)?;
    Ok(Info { format: file.format, width: file.width, height: file.height, orientation: file.orientation })
}

/// A file's picture as a tensor.
///
/// # Errors
/// It is no picture, is too large, or `preparation` contradicts itself.
pub fn prepare(file: &[u8], preparation: &Preparation) -> Result<Pixels, Error> {
    let channels = numbers::channels(preparation)?;
    let most = if preparation.most_pixels == 0 { MOST_PIXELS } else { preparation.most_pixels };
    if let Some((columns, rows)) = preparation.size
        && (columns == 0 || rows == 0 || u64::from(columns) * u64::from(rows) > u64::from(most))
    {
        let text = format!("a size of {columns} by {rows}, expected 1 to {most} pixels");
        return Err(Error::Preparation(text));
    }
    let file = File::open(file)?;
    let (width, height) = (file.width, file.height);
    if u64::from(width) * u64::from(height) > u64::from(most) {
        return Err(Error::TooLarge(format!(
            "a picture of {width} by {height}, expected at most {most} pixels"
        )));
    }
    let orientation = if preparation.upright { file.orientation } else { 1 };
    let geometry = Geometry::of(width, height, orientation, preparation);
    let mut picture = file.decode()?;
    if channels == 1 {
        picture.grey();
    }
    let picture = resized(picture, &geometry, preparation.filter)?;
    numbers::tensor(picture, &geometry, orientation, preparation)
}

/// The picture in the size, and without what is cut off, that `geometry` asks for.
fn resized(picture: Picture, geometry: &Geometry, filter: Filter) -> Result<Picture, Error> {
    let (width, height) = geometry.resized;
    if (picture.width, picture.height) == (width, height) && geometry.is_whole() {
        return Ok(picture);
    }
    let algorithm = match filter {
        Filter::Nearest => ResizeAlg::Nearest,
        Filter::Box => ResizeAlg::Convolution(FilterType::Box),
        Filter::Bilinear => ResizeAlg::Convolution(FilterType::Bilinear),
        Filter::Bicubic => ResizeAlg::Convolution(FilterType::CatmullRom),
        Filter::Lanczos => ResizeAlg::Convolution(FilterType::Lanczos3),
    };
    let (left, top, cut_width, cut_height) = geometry.cut;
    let options = ResizeOptions::new().resize_alg(algorithm).crop(left, top, cut_width, cut_height);
    let values = match picture.channels {
        1 => scaled::<U8>(&picture, width, height, &options),
        _ => scaled::<U8x3>(&picture, width, height, &options),
    };
    let too_large = || Error::TooLarge(format!("no memory for a picture of {width} by {height}"));
    Ok(Picture { width, height, values: values.ok_or_else(too_large)?, channels: picture.channels })
}

/// Pixels of one type in another size; `None` if there is no memory for them.
fn scaled<P: PixelTrait>(
    picture: &Picture,
    width: u32,
    height: u32,
    options: &ResizeOptions,
) -> Option<Vec<u8>> {
    let source = TypedImageRef::<P>::from_buffer(picture.width, picture.height, &picture.values).ok()?;
    let size = files::bytes(width, height, picture.channels)?;
    // Rows become narrower first, or wider.
    let between = files::bytes(width, picture.height, picture.channels)?;
    files::has_memory(between.saturating_add(size)).then_some(())?;
    let mut values = vec![0; size];
    let mut target = TypedImage::<P>::from_buffer(width, height, &mut values).ok()?;
    Resizer::new().resize_typed(&source, &mut target, options).ok()?;
    Some(values)
}

#[cfg(test)]
mod tests;
