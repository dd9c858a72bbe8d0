//! The library against Pillow: each case of `pictures/cases.json`, which `make.py` has written; and hostile
//! files.

use serde_json::Value;

use super::*;

/// Most that a byte may differ from Pillow's.
const TOLERANCE: u8 = 3;
/// The same in a JPEG's own size, if it has fewer colours than pixels: at sharp edges they are spread in
/// another way. Of ten thousand bytes two may be beyond the tolerance.
const OF_FEWER_COLOURS: (u8, usize) = (8, 10_000 / 2);

fn picture(name: &str) -> Vec<u8> {
    std::fs::read(format!("{}/pictures/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

fn plain() -> Preparation {
    Preparation {
        size: None,
        fit: Fit::Stretch,
        filter: Filter::Bilinear,
        colours: Colours::Rgb,
        layout: Layout::Pixels,
        datatype: Datatype::Uint8,
        scale: 1.0,
        mean: Vec::new(),
        deviation: Vec::new(),
        padding: 0,
        upright: true,
        most_pixels: 0,
    }
}

/// The pixels of a PNG file as they are in it, by another decoder's settings than the library's.
fn expected(name: &str) -> (Vec<u64>, Vec<u8>) {
    let mut reader = png::Decoder::new(std::io::Cursor::new(picture(name))).read_info().unwrap();
    let mut values = vec![0; reader.output_buffer_size().unwrap()];
    let frame = reader.next_frame(&mut values).unwrap();
    values.truncate(frame.buffer_size());
    (vec![u64::from(frame.height), u64::from(frame.width), frame.color_type.samples() as u64], values)
}

fn of_case(case: &Value) -> Preparation {
    let extent = |at: usize| case["size"][at].as_u64().map(|extent| extent as u32);
    Preparation {
        size: extent(0).zip(extent(1)),
        fit: match case["fit"].as_str() {
            Some("cover") => Fit::Cover,
            Some("contain") => Fit::Contain,
            _ => Fit::Stretch,
        },
        filter: match case["filter"].as_str() {
            Some("nearest") => Filter::Nearest,
            Some("box") => Filter::Box,
            Some("bicubic") => Filter::Bicubic,
            Some("lanczos") => Filter::Lanczos,
            _ => Filter::Bilinear,
        },
        colours: if case["colours"] == "grey" { Colours::Grey } else { Colours::Rgb },
        ..plain()
    }
}

#[test]
fn pixels_are_those_of_pillow() {
    let cases: Value = serde_json::from_slice(&picture("cases.json")).unwrap();
    let mut wrong = Vec::new();
    for case in cases.as_array().unwrap() {
        let made = prepare(&picture(case["file"].as_str().unwrap()), &of_case(case)).unwrap();
        let (shape, values) = expected(case["expected"].as_str().unwrap());
        assert_eq!(made.shape, shape, "{case}");
        let differences: Vec<u8> =
            made.data.iter().zip(&values).map(|(one, other)| one.abs_diff(*other)).collect();
        let most = differences.iter().max().copied().unwrap();
        let beyond = differences.iter().filter(|difference| **difference > TOLERANCE).count();
        let (limit, share) = if case["size"].is_null() { OF_FEWER_COLOURS } else { (TOLERANCE, 1) };
        if most > limit
            || beyond > values.len() / share && limit > TOLERANCE
            || differences.len() != values.len()
        {
            wrong.push(format!("{case}: {most}, {beyond} of {} beyond {TOLERANCE}", values.len()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn values_are_scaled_ordered_and_typed() {
    let file = picture("png.png");
    let bytes = prepare(&file, &Preparation { size: Some((5, 4)), ..plain() }).unwrap();
    assert_eq!(bytes.shape, [4, 5, 3]);
    assert_eq!((bytes.width, bytes.height), (150, 101));
    let (mean, deviation) = (vec![0.485, 0.456, 0.406], vec![0.229, 0.224, 0.225]);
    let scaled = Preparation {
        layout: Layout::Planes,
        datatype: Datatype::Fp32,
        scale: 1.0 / 255.0,
        mean: mean.clone(),
        deviation: deviation.clone(),
        size: Some((5, 4)),
        ..plain()
    };
    for (colours, order) in [(Colours::Rgb, [0, 1, 2]), (Colours::Bgr, [2, 1, 0])] {
        let made = prepare(&file, &Preparation { colours, ..scaled.clone() }).unwrap();
        assert_eq!(made.shape, [3, 4, 5]);
        let half = Preparation { colours, datatype: Datatype::Fp16, ..scaled.clone() };
        let half = prepare(&file, &half).unwrap();
        for (at, value) in made.data.chunks_exact(4).enumerate() {
            let (channel, pixel) = (at / 20, at % 20);
            let byte = f32::from(bytes.data[pixel * 3 + order[channel]]);
            let expected = (byte / 255.0 - mean[channel]) / deviation[channel];
            let value = f32::from_le_bytes(value.try_into().unwrap());
            assert!((value - expected).abs() < 1e-5, "{at}: {value}, expected {expected}");
            let rounded = half::f16::from_le_bytes([half.data[at * 2], half.data[at * 2 + 1]]);
            assert_eq!(rounded, half::f16::from_f32(value), "{at}");
        }
    }
    let padded = Preparation { fit: Fit::Contain, padding: 7, size: Some((8, 8)), ..plain() };
    let padded = prepare(&file, &padded).unwrap();
    assert_eq!(padded.data[..3], [7, 7, 7]);
    assert!(
        (padded.scale_x - 8.0 / 150.0).abs() < 1e-6 && padded.left == 0.0 && padded.top == 2.0,
        "{padded:?}"
    );
}

#[test]
fn a_head_is_read_without_the_picture() {
    for (file, format, orientation) in [
        ("jpeg.jpg", Format::Jpeg, 1),
        ("turned-6.jpg", Format::Jpeg, 6),
        ("png.png", Format::Png, 1),
        ("webp.webp", Format::Webp, 1),
    ] {
        let info = Info { format, width: 150, height: 101, orientation };
        assert_eq!(inspect(&picture(file)), Ok(info), "{file}");
    }
    let turned = prepare(&picture("turned-6.jpg"), &plain()).unwrap();
    assert_eq!((turned.width, turned.height, turned.shape), (101, 150, vec![150, 101, 3]));
    let lying = prepare(&picture("turned-6.jpg"), &Preparation { upright: false, ..plain() }).unwrap();
    assert_eq!(lying.shape, [101, 150, 3]);
}

/// A PNG file that says this size, and ends where the pixels begin.
fn png_of(width: u32, height: u32) -> Vec<u8> {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.write_header().unwrap().write_chunk(png::chunk::IDAT, &[0x78, 0x9c]).unwrap();
    file
}

#[test]
fn what_is_no_picture_is_refused_by_its_reason() {
    let jpeg = picture("jpeg.jpg");
    let mut large = jpeg.clone();
    let frame = large.windows(2).position(|pair| pair == [0xff, 0xc0]).unwrap();
    large[frame + 5..frame + 9].copy_from_slice(&[0xff, 0xff, 0xff, 0xff]);
    type IsExpected = fn(&Error) -> bool;
    let unsupported: IsExpected = |error| matches!(error, Error::Unsupported(_));
    let invalid: IsExpected = |error| matches!(error, Error::Invalid(_));
    let too_large: IsExpected = |error| matches!(error, Error::TooLarge(_));
    for (what, file, is_expected) in [
        ("nothing", Vec::new(), unsupported),
        ("text", b"no picture".to_vec(), unsupported),
        ("a GIF", b"GIF89a\x01\0\x01\0\0\0\0".to_vec(), unsupported),
        ("half a JPEG", jpeg[..jpeg.len() / 2].to_vec(), invalid),
        ("the head of a JPEG", jpeg[..20].to_vec(), invalid),
        ("half a PNG", picture("png.png")[..9000].to_vec(), invalid),
        ("half a WebP", picture("webp.webp")[..900].to_vec(), invalid),
        ("a JPEG that says 65535 by 65535", large, too_large),
        ("a PNG that says 60000 by 60000", png_of(60000, 60000), too_large),
        ("a PNG that says 4097 by 4096", png_of(4097, 4096), too_large),
        ("a PNG without pixels", png_of(4096, 4096), invalid),
    ] {
        let error = prepare(&file, &plain()).unwrap_err();
        assert!(is_expected(&error), "{what}: {error:?}");
    }
    let small = Preparation { most_pixels: 150 * 101 - 1, ..plain() };
    assert!(matches!(prepare(&jpeg, &small), Err(Error::TooLarge(_))));
    assert!(prepare(&jpeg, &Preparation { most_pixels: 150 * 101, ..plain() }).is_ok());
}

#[test]
fn a_preparation_that_contradicts_itself_is_refused() {
    let file = picture("png.png");
    for wrong in [
        Preparation { size: Some((0, 4)), ..plain() },
        Preparation { size: Some((4096, 4097)), ..plain() },
        Preparation { mean: vec![0.5], ..plain() },
        Preparation { deviation: vec![1.0, 0.0, 1.0], ..plain() },
        Preparation { scale: f32::NAN, ..plain() },
        Preparation { colours: Colours::Grey, mean: vec![0.5; 3], ..plain() },
    ] {
        assert!(matches!(prepare(&file, &wrong), Err(Error::Preparation(_))), "{wrong:?}");
    }
}

/// A file that has any of its bytes changed, or ends anywhere, is an answer or an error, not the end.
#[test]
fn broken_files_do_not_end_the_instance() {
    for name in ["jpeg.jpg", "jpeg-progressive.jpg", "png-palette.png", "webp.webp", "webp-lossless.webp"] {
        let file = picture(name);
        for at in (0..file.len()).step_by(101) {
            let mut changed = file.clone();
            changed[at] ^= 0x5a;
            let limited = Preparation { most_pixels: 1 << 20, size: Some((8, 8)), ..plain() };
            drop(prepare(&changed, &limited));
            drop(prepare(&file[..at], &limited));
        }
    }
}
