//! The module `PIL._jpeg`: files of JPEG to pixels and back, for `PIL/JpegCodec.py`.

use std::ffi::c_int;
use std::io::{Cursor, ErrorKind};

use jpeg_decoder::{CodingProcess, ColorTransform, Decoder, Error, PixelFormat};
use jpeg_encoder::{
    ChromaSubsamplingMethod, ColorType, Encoder, PixelDensity, PixelDensityUnit, QuantizationTableType,
    SamplingFactor,
};
use pyo3::exceptions::{PyMemoryError, PyOSError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Pixels that Python reads where they are: in an instance's memory a copy of them counts.
#[pyclass(frozen)]
struct Pixels(Vec<u8>);

#[pymethods]
impl Pixels {
    unsafe fn __getbuffer__(it: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let Pixels(bytes) = it.get();
        // SAFETY: the view holds a reference to `it`, whose bytes stay where they are; Python may only read
        // them.
        let done = unsafe {
            let start = bytes.as_ptr().cast_mut().cast();
            ffi::PyBuffer_FillInfo(view, it.as_ptr(), start, bytes.len().cast_signed(), 1, flags)
        };
        if done == 0 { Ok(()) } else { Err(PyErr::fetch(it.py())) }
    }
}

/// The pixels of `data` in Pillow's raw mode: in `width` and `height`, the file's own divided by 1, 2, 4 or
/// 8.
#[pyfunction]
fn decode(data: &[u8], mode: &str, width: u16, height: u16) -> PyResult<Pixels> {
    let mut decoder = Decoder::new(Cursor::new(data));
    decoder.read_info().map_err(said)?;
    let info = decoder.info().ok_or_else(|| broken("no frame"))?;
    let of_frame = usize::from(info.width) * usize::from(info.height);
    let scaled = decoder.scale(width, height).map_err(said)?;
    let size = usize::from(width) * usize::from(height);
    let channels = info.pixel_format.pixel_bytes();
    match (mode, info.pixel_format) {
        ("L", PixelFormat::L8) | ("RGB", PixelFormat::RGB24) | ("CMYK", PixelFormat::CMYK32) => {}
        // Brightness alone, or the colours as they are in the file.
        ("L" | "YCbCr", PixelFormat::RGB24) => decoder.set_color_transform(ColorTransform::None),
        (_, found) => return Err(broken(&format!("{found:?} in place of {mode}"))),
    }
    if scaled != (width, height) {
        return Err(broken("the frame has another size"));
    }
    // Coefficients of the whole frame, its planes, and the pixels.
    let coefficients = if info.coding_process == CodingProcess::DctProgressive { 2 * channels } else { 0 };
    room(of_frame, coefficients)?;
    room(size, 2 * channels)?;
    let mut pixels = decoder.decode().map_err(said)?;
    if mode == "L" && channels == 3 {
        pixels = pixels.chunks_exact(3).map(|pixel| pixel[0]).collect();
    }
    Ok(Pixels(pixels))
}

/// A file of JPEG of pixels in Pillow's raw mode. `tables`: of brightness and colours, row by row.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "one caller, by name")]
#[pyo3(signature = (pixels, mode, width, height, *, quality, tables, subsampling, progressive, optimize, restart, dpi))]
fn encode<'py>(
    py: Python<'py>,
    pixels: &[u8],
    mode: &str,
    width: u16,
    height: u16,
    quality: u8,
    tables: Option<([u16; 64], [u16; 64])>,
    subsampling: i32,
    progressive: bool,
    optimize: bool,
    restart: u16,
    dpi: (u16, u16),
) -> PyResult<Bound<'py, PyBytes>> {
    let (color, channels) = match mode {
        "L" => (ColorType::Luma, 1),
        "RGB" => (ColorType::Rgb, 3),
        "YCbCr" => (ColorType::Ycbcr, 3),
        "CMYK" => (ColorType::Cmyk, 4),
        other => return Err(PyValueError::new_err(format!("no JPEG of mode {other}"))),
    };
    let size = usize::from(width) * usize::from(height);
    // Coefficients of the whole picture, where the codes are chosen after all of it.
    room(size, if progressive || optimize { 3 * channels } else { channels })?;
    let mut made = Vec::new();
    let mut encoder = Encoder::new(&mut made, quality);
    encoder.set_sampling_factor(match (channels, subsampling) {
        (3, 1) => SamplingFactor::F_2_1,
        (3, -1 | 2) => SamplingFactor::F_2_2,
        _ => SamplingFactor::F_1_1,
    });
    encoder.set_chroma_subsampling_method(ChromaSubsamplingMethod::Average);
    if let Some((first, second)) = tables {
        let custom = |table| QuantizationTableType::Custom(Box::new(table));
        encoder.set_quantization_tables(custom(first), custom(second));
    }
    encoder.set_progressive(progressive);
    encoder.set_optimized_huffman_tables(optimize || progressive);
    encoder.set_restart_interval(restart);
    if dpi.0 > 0 && dpi.1 > 0 {
        encoder.set_density(PixelDensity { density: dpi, unit: PixelDensityUnit::Inches });
    }
    encoder.encode(pixels, width, height, color).map_err(|error| PyOSError::new_err(error.to_string()))?;
    Ok(PyBytes::new(py, &made))
}

/// An error of Python's where memory is not enough; the decoder would end the instance.
fn room(pixels: usize, bytes_per_pixel: usize) -> PyResult<()> {
    let wanted = pixels.checked_mul(bytes_per_pixel).filter(|wanted| isize::try_from(*wanted).is_ok());
    let mut memory = Vec::<u8>::new();
    match wanted.map(|wanted| memory.try_reserve_exact(wanted)) {
        Some(Ok(())) => Ok(()),
        _ => Err(PyMemoryError::new_err(())),
    }
}

fn said(error: Error) -> PyErr {
    match error {
        Error::Io(error) if error.kind() == ErrorKind::UnexpectedEof => {
            PyOSError::new_err("image file is truncated")
        }
        other => broken(&other.to_string()),
    }
}

fn broken(what: &str) -> PyErr {
    PyOSError::new_err(format!("broken data stream when reading image file: {what}"))
}

#[pymodule]
fn _jpeg(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(decode, module)?)?;
    module.add_function(wrap_pyfunction!(encode, module)?)
}
