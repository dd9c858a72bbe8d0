//! Bodies that the SDK reads inside a handler: forms, forms with files, text by its charset.
#![no_main]

use libfuzzer_sys::fuzz_target;
use modelhost_guest::Sample;

fuzz_target!(|data: &[u8]| {
    // A line with the content type, then the body.
    let end = data.iter().position(|byte| *byte == b'\n').unwrap_or(0);
    let (kind, body) = data.split_at(end);
    let sample = Sample::new(String::from_utf8_lossy(kind).into_owned(), body.get(1..).unwrap_or_default());
    let _ = sample.form();
    let _ = sample.text();
    if let Ok(parts) = sample.multipart() {
        for part in parts {
            assert!(part.body.len() <= sample.body.len());
        }
    }
});
