//! Picture files to a model's tensor, by the library `image`: a component of its own, which `modelhost build`
//! puts into the handler's (`[build] with = ["image"]` in modelhost.toml).
//!
//! In a component every function is a call to the library. Natively, in a unit test, there is none: a picture
//! is what the test says, [`answer_with`].
//!
//! ```no_run
//! use modelhost_guest::image::Preparation;
//! use modelhost_guest::{Result, Tensor};
//!
//! fn pixels(file: &[u8]) -> Result<Tensor> {
//!     let preparation = Preparation::new()
//!         .size(224, 224)
//!         .mean([0.485, 0.456, 0.406])
//!         .deviation([0.229, 0.224, 0.225]);
//!     Ok(preparation.picture(file)?.tensor)
//! }
//! ```

use std::fmt;

use crate::bindings::image::modelhost::image::images;
use crate::{Datatype, Tensor, internal, invalid};

pub use images::{Colours, Filter, Fit, Format, Info, Layout};

/// Why there is no picture.
#[derive(Debug, Clone, PartialEq)]
pub enum ImageError {
    /// The file is of no known kind, or of a rare variant of one.
    Unsupported(String),
    /// The file is broken or cut off.
    Invalid(String),
    /// The picture has more pixels than allowed, or than there is memory for.
    TooLarge(String),
    /// A value of the preparation cannot be used.
    Preparation(String),
}

impl fmt::Display for ImageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ImageError::Unsupported(text)
            | ImageError::Invalid(text)
            | ImageError::TooLarge(text)
            | ImageError::Preparation(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for ImageError {}

/// A file is the caller's, the preparation the handler's.
impl From<ImageError> for crate::Error {
    fn from(error: ImageError) -> crate::Error {
        match error {
            ImageError::Preparation(text) => internal(text),
            error => invalid(error.to_string()),
        }
    }
}

/// How a picture becomes a tensor: without more, of its own size, red, green and blue in planes, upright,
/// from 0 to 1.
#[derive(Debug, Clone)]
#[cfg_attr(not(target_family = "wasm"), allow(dead_code, reason = "natively a test says what a picture is"))]
pub struct Preparation {
    size: Option<(u32, u32)>,
    fit: Fit,
    filter: Filter,
    colours: Colours,
    layout: Layout,
    datatype: Datatype,
    scale: f32,
    mean: Vec<f32>,
    deviation: Vec<f32>,
    padding: u8,
    upright: bool,
    most_pixels: u32,
}

/// A picture as a tensor.
#[derive(Debug, Clone, PartialEq)]
pub struct Picture {
    /// `[1, values, rows, columns]`, or `[1, rows, columns, values]`, without a name.
    pub tensor: Tensor,
    /// Columns and rows of the file's picture, turned as it says.
    pub width: u32,
    /// See `width`.
    pub height: u32,
    /// Where it lies in the tensor: a point of it is at `(x * scale.0 + offset.0, y * scale.1 + offset.1)`.
    pub offset: (f32, f32),
    /// See `offset`.
    pub scale: (f32, f32),
}

impl Default for Preparation {
    fn default() -> Preparation {
        Preparation {
            size: None,
            fit: Fit::Stretch,
            filter: Filter::Bilinear,
            colours: Colours::Rgb,
            layout: Layout::Planes,
            datatype: Datatype::Fp32,
            scale: 1.0 / 255.0,
            mean: Vec::new(),
            deviation: Vec::new(),
            padding: 0,
            upright: true,
            most_pixels: 0,
        }
    }
}

impl Preparation {
    /// The one that the type's text describes.
    pub fn new() -> Preparation {
        Preparation::default()
    }

    /// Brings the picture to this size.
    pub fn size(self, columns: u32, rows: u32) -> Preparation {
        Preparation { size: Some((columns, rows)), ..self }
    }

    /// How it is brought there: stretched, if not said otherwise.
    pub fn fit(self, fit: Fit) -> Preparation {
        Preparation { fit, ..self }
    }

    /// How new pixels are made: bilinear, if not said otherwise.
    pub fn filter(self, filter: Filter) -> Preparation {
        Preparation { filter, ..self }
    }

    /// The values of a pixel.
    pub fn colours(self, colours: Colours) -> Preparation {
        Preparation { colours, ..self }
    }

    /// The order of the values.
    pub fn layout(self, layout: Layout) -> Preparation {
        Preparation { layout, ..self }
    }

    /// The type of the values: `Uint8`, the bytes as they are, `Fp16` or `Fp32`.
    pub fn datatype(self, datatype: Datatype) -> Preparation {
        Preparation { datatype, ..self }
    }

    /// A value is `(byte * scale - mean) / deviation`: 1/255, if not said otherwise.
    pub fn scale(self, scale: f32) -> Preparation {
        Preparation { scale, ..self }
    }

    /// One for each value of a pixel.
    pub fn mean(self, mean: impl Into<Vec<f32>>) -> Preparation {
        Preparation { mean: mean.into(), ..self }
    }

    /// One for each value of a pixel.
    pub fn deviation(self, deviation: impl Into<Vec<f32>>) -> Preparation {
        Preparation { deviation: deviation.into(), ..self }
    }

    /// The byte around a picture that does not fill its size.
    pub fn padding(self, padding: u8) -> Preparation {
        Preparation { padding, ..self }
    }

    /// Whether it is turned as the file says: it is, if not said otherwise.
    pub fn upright(self, upright: bool) -> Preparation {
        Preparation { upright, ..self }
    }

    /// Most pixels of a file's picture: 4096 by 4096, if not said otherwise.
    pub fn most_pixels(self, most_pixels: u32) -> Preparation {
        Preparation { most_pixels, ..self }
    }

    /// Decodes a file and prepares its picture.
    ///
    /// # Errors
    /// [`ImageError`].
    pub fn picture(&self, file: &[u8]) -> Result<Picture, ImageError> {
        imported::picture(self, file)
    }
}

/// Reads what a file says of its picture, without decoding it.
///
/// # Errors
/// [`ImageError`].
pub fn inspect(file: &[u8]) -> Result<Info, ImageError> {
    imported::inspect(file)
}

#[cfg(not(target_family = "wasm"))]
pub use imported::answer_with;

#[cfg(target_family = "wasm")]
mod imported {
    use super::*;

    pub(super) fn inspect(file: &[u8]) -> Result<Info, ImageError> {
        images::inspect(file).map_err(from_library)
    }

    pub(super) fn picture(preparation: &Preparation, file: &[u8]) -> Result<Picture, ImageError> {
        let (datatype, name) = match preparation.datatype {
            Datatype::Uint8 => (images::Datatype::Uint8, Datatype::Uint8),
            Datatype::Fp16 => (images::Datatype::Fp16, Datatype::Fp16),
            Datatype::Fp32 => (images::Datatype::Fp32, Datatype::Fp32),
            other => {
                let text = format!("pixels of {other:?}, expected Uint8, Fp16 or Fp32");
                return Err(ImageError::Preparation(text));
            }
        };
        let given = images::Preparation {
            size: preparation.size,
            fit: preparation.fit,
            filter: preparation.filter,
            colours: preparation.colours,
            layout: preparation.layout,
            datatype,
            scale: preparation.scale,
            mean: preparation.mean.clone(),
            deviation: preparation.deviation.clone(),
            padding: preparation.padding,
            upright: preparation.upright,
            most_pixels: preparation.most_pixels,
        };
        let pixels = images::prepare(file, &given).map_err(from_library)?;
        let shape = std::iter::once(1).chain(pixels.shape).collect();
        Ok(Picture {
            tensor: Tensor { name: String::new(), datatype: name, shape, data: pixels.data },
            width: pixels.width,
            height: pixels.height,
            offset: (pixels.left, pixels.top),
            scale: (pixels.scale_x, pixels.scale_y),
        })
    }

    fn from_library(error: images::Error) -> ImageError {
        match error {
            images::Error::Unsupported(text) => ImageError::Unsupported(text),
            images::Error::Invalid(text) => ImageError::Invalid(text),
            images::Error::TooLarge(text) => ImageError::TooLarge(text),
            images::Error::Preparation(text) => ImageError::Preparation(text),
        }
    }
}

#[cfg(not(target_family = "wasm"))]
mod imported {
    use std::cell::RefCell;

    use super::*;

    type Answer = Box<dyn FnMut(&[u8], &Preparation) -> Result<Picture, ImageError>>;

    thread_local! {
        static ANSWER: RefCell<Option<Answer>> = const { RefCell::new(None) };
    }

    /// From here on, pictures of this thread are what `answer` makes of a file and a preparation.
    pub fn answer_with(answer: impl FnMut(&[u8], &Preparation) -> Result<Picture, ImageError> + 'static) {
        ANSWER.set(Some(Box::new(answer)));
    }

    pub(super) fn inspect(_: &[u8]) -> Result<Info, ImageError> {
        Err(ImageError::Unsupported("a test looks at no files".to_owned()))
    }

    pub(super) fn picture(preparation: &Preparation, file: &[u8]) -> Result<Picture, ImageError> {
        ANSWER.with_borrow_mut(|answer| match answer {
            Some(answer) => answer(file, preparation),
            None => {
                Err(ImageError::Unsupported("the test says of no picture: `image::answer_with`".to_owned()))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_what_the_test_says_and_errors_blame_the_right_side() {
        let preparation = Preparation::new().size(2, 1);
        assert!(matches!(preparation.picture(b""), Err(ImageError::Unsupported(_))));
        answer_with(|file, preparation| {
            assert_eq!((file, preparation.size), (b"file".as_slice(), Some((2, 1))));
            let tensor = Tensor::new("", [1, 3, 1, 2], &[0.0f32; 6]);
            Ok(Picture { tensor, width: 4, height: 2, offset: (0.0, 0.0), scale: (0.5, 0.5) })
        });
        assert_eq!(preparation.picture(b"file").unwrap().tensor.shape, [1, 3, 1, 2]);
        assert_eq!(crate::Error::from(ImageError::Invalid("x".into())), invalid("x"));
        assert_eq!(crate::Error::from(ImageError::Preparation("x".into())), internal("x"));
    }
}
