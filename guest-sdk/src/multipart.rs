//! Bodies of several parts: `multipart/form-data`, as browsers send files (RFC 7578, RFC 2046 section 5.1).
//!
//! In: a whole body, hostile, and the boundary from its content type. Out: parts that borrow from it.
//! Invariants: the time is in proportion to the body; nothing is copied but names with escapes in them. What
//! is not exactly a multipart body is refused, never guessed at: line ends are CR LF, the closing boundary
//! has to be there. A boundary with other text behind it is content. The SDKs of all languages have the same
//! limits and the same words: `tests/languages/multipart.json`.

use std::borrow::Cow;

use crate::media_type::Parameterised;
use crate::{Result, invalid};

/// Most parts of a body.
const MAX_PARTS: usize = 1000;
/// Most bytes of a part's headers.
const MAX_HEADERS: usize = 8 << 10;
/// Most bytes of a boundary (RFC 2046, section 5.1.1).
const MAX_BOUNDARY: usize = 70;

/// One part of a `multipart/form-data` body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part<'a> {
    /// The field's name.
    pub name: Cow<'a, str>,
    /// The file's name, if the part is a file. The caller's choice, so no path to be opened.
    pub filename: Option<Cow<'a, str>>,
    /// Its content type, `text/plain` if it says none.
    pub content_type: &'a str,
    /// Its contents.
    pub body: &'a [u8],
}

impl Part<'_> {
    /// Its contents as UTF-8.
    ///
    /// # Errors
    /// [`Error::InvalidInput`](crate::Error::InvalidInput) that names the part.
    pub fn text(&self) -> Result<&str> {
        std::str::from_utf8(self.body).map_err(|_| invalid(format!("the part `{}` is not UTF-8", self.name)))
    }
}

/// The parts of `body`, in order.
pub(crate) fn parts<'a>(body: &'a [u8], boundary: &str) -> Result<Vec<Part<'a>>> {
    if !(1..=MAX_BOUNDARY).contains(&boundary.len()) {
        return Err(invalid(format!("malformed multipart: the boundary has not 1 to {MAX_BOUNDARY} bytes")));
    }
    let delimiter = [b"\r\n--", boundary.as_bytes()].concat();
    // The first delimiter may stand at the very beginning, without the line end before it.
    let start = body.strip_prefix(delimiter.get(2..).unwrap_or_default()).and_then(end_of_line);
    let mut rest = match start {
        Some(rest) => rest,
        None => delimited(body, &delimiter).ok_or_else(|| malformed("no boundary is in the body"))?.1,
    };
    let mut parts = Vec::new();
    while let Rest::Part(part) = rest {
        let (part, after) =
            delimited(part, &delimiter).ok_or_else(|| malformed("the last boundary is missing"))?;
        if parts.len() == MAX_PARTS {
            return Err(invalid(format!("more than {MAX_PARTS} parts")));
        }
        parts.push(read(part)?);
        rest = after;
    }
    Ok(parts)
}

/// The bytes after a boundary.
#[derive(Clone, Copy)]
enum Rest<'a> {
    /// Another part, from the end of the boundary's line on: without headers it is half of the empty line.
    Part(&'a [u8]),
    /// The epilogue.
    End,
}

/// The rest of a boundary's line: `--` after the last one, or white space; `None` if it is no boundary.
fn end_of_line(bytes: &[u8]) -> Option<Rest<'_>> {
    if bytes.starts_with(b"--") {
        return Some(Rest::End);
    }
    let end = bytes.iter().position(|byte| ![b' ', b'\t'].contains(byte))?;
    bytes.get(end..).filter(|line| line.starts_with(b"\r\n")).map(Rest::Part)
}

/// The bytes before the first boundary, and what comes after it.
fn delimited<'a>(bytes: &'a [u8], delimiter: &[u8]) -> Option<(&'a [u8], Rest<'a>)> {
    let mut from = 0;
    loop {
        let (before, after) = split(bytes.get(from..)?, delimiter)?;
        if let Some(rest) = end_of_line(after) {
            return Some((bytes.get(..from + before.len())?, rest));
        }
        from += before.len() + delimiter.len();
    }
}

/// A part: line end, headers, empty line, contents.
fn read(part: &[u8]) -> Result<Part<'_>> {
    let window = part.get(..MAX_HEADERS + 4).unwrap_or(part);
    let (headers, _) = split(window, b"\r\n\r\n").ok_or_else(|| {
        invalid(format!("malformed multipart: no end of a part's headers within {MAX_HEADERS} bytes"))
    })?;
    let body = part.get(headers.len() + 4..).unwrap_or_default();
    let headers =
        std::str::from_utf8(headers).map_err(|_| malformed("the headers of a part are not UTF-8"))?;
    let (mut disposition, mut content_type) = (None, "text/plain");
    for line in headers.split("\r\n").filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':').ok_or_else(|| malformed("a header without a colon"))?;
        if name.eq_ignore_ascii_case("content-disposition") {
            disposition = Some(Parameterised::new(value));
        } else if name.eq_ignore_ascii_case("content-type") {
            content_type = value.trim();
        } else if name.eq_ignore_ascii_case("content-transfer-encoding")
            && !["binary", "8bit", "7bit"].iter().any(|plain| value.trim().eq_ignore_ascii_case(plain))
        {
            return Err(malformed("a part with a transfer encoding, which forms do not have"));
        }
    }
    let disposition = disposition.filter(|value| value.is("form-data"));
    let name = disposition.and_then(|value| value.parameter("name"));
    let name = name.ok_or_else(|| malformed("a part without `content-disposition: form-data; name=…`"))?;
    let extended = disposition.and_then(|value| value.parameter("filename*"));
    let filename = match extended {
        Some(extended) => {
            let text = "a `filename*` that is not `UTF-8''` and a name with percent signs";
            Some(decoded(&extended).ok_or_else(|| malformed(text))?.into())
        }
        None => disposition.and_then(|value| value.parameter("filename")).map(unescaped),
    };
    Ok(Part { name: unescaped(name), filename, content_type, body })
}

/// The escapes that browsers and curl write in names in place of `"`, CR and LF.
fn unescaped(name: Cow<'_, str>) -> Cow<'_, str> {
    if !name.contains('%') {
        return name;
    }
    name.replace("%22", "\"").replace("%0D", "\r").replace("%0A", "\n").into()
}

/// The text of `UTF-8''na%C3%AFve.txt` (RFC 8187).
fn decoded(extended: &str) -> Option<String> {
    let (charset, rest) = extended.split_once('\'')?;
    let (_language, encoded) = rest.split_once('\'')?;
    let bytes = percent_encoding::percent_decode_str(encoded);
    match charset.to_ascii_lowercase().as_str() {
        "utf-8" => bytes.decode_utf8().ok().map(Cow::into_owned),
        "iso-8859-1" => Some(bytes.map(char::from).collect()),
        _ => None,
    }
}

/// The bytes before `delimiter` and after it.
fn split<'a>(bytes: &'a [u8], delimiter: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let first = delimiter.first()?;
    let mut from = 0;
    loop {
        let tail = bytes.get(from..)?;
        let at = from + tail.iter().position(|byte| byte == first)?;
        if let Some(after) = bytes.get(at..)?.strip_prefix(delimiter) {
            return Some((bytes.get(..at)?, after));
        }
        from = at + 1;
    }
}

fn malformed(text: &str) -> crate::Error {
    invalid(format!("malformed multipart: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `name|filename|type|body` for each part, or the error.
    fn show(body: &[u8]) -> String {
        match parts(body, "XX") {
            Err(error) => error.to_string(),
            Ok(parts) => {
                let part = |part: &Part<'_>| {
                    let filename = part.filename.as_deref().unwrap_or("-");
                    format!("{}|{filename}|{}|{}", part.name, part.content_type, part.body.escape_ascii())
                };
                parts.iter().map(part).collect::<Vec<_>>().join("; ")
            }
        }
    }

    fn lines(text: &str) -> Vec<u8> {
        text.replace('\n', "\r\n").into_bytes()
    }

    const FORM: &str = "content-disposition: form-data; name=\"a\"";

    #[test]
    fn parts_are_found() {
        let two = "preamble\n--XX\nContent-Disposition: form-data; name=\"title\"\n\nhello\n--XX  \ncontent-type: \
                   image/png\nContent-Disposition: form-data; name=file; filename=\"a \\\"b\\\".png\"\n\n\u{0}\n--X\n\n--XX--\nepilogue";
        assert_eq!(
            show(&lines(two)),
            "title|-|text/plain|hello; file|a \"b\".png|image/png|\\x00\\r\\n--X\\r\\n"
        );
        assert_eq!(show(&lines("--XX--")), "");
        assert_eq!(show(&lines(&format!("--XX\n{FORM}\n\n\n--XX--\n"))), "a|-|text/plain|");
        let named = |more: &str| show(&lines(&format!("--XX\n{FORM}{more}\n\n1\n--XX--")));
        assert_eq!(named("; filename=\"a%22%0D%0A%20.txt\""), "a|a\"\r\n%20.txt|text/plain|1");
        assert_eq!(named("; filename=\"ü.txt\""), "a|ü.txt|text/plain|1");
        assert_eq!(named("; filename=x; filename*=utf-8'de'%C3%BC%2F.txt"), "a|ü/.txt|text/plain|1");
        assert_eq!(named("; filename*=ISO-8859-1''%FC"), "a|ü|text/plain|1");
        // What only begins as a boundary does is content.
        let like = format!("--XX\n{FORM}\n\n--X\n--XXY\n--XX-\n--XX--");
        assert_eq!(show(&lines(&like)), "a|-|text/plain|--X\\r\\n--XXY\\r\\n--XX-");
        // Binary contents are as they were sent.
        let bytes: Vec<u8> = (0..=255).collect();
        let body = [lines(&format!("--XX\n{FORM}\n\n")), bytes.clone(), lines("\n--XX--")].concat();
        assert_eq!(parts(&body, "XX").unwrap()[0].body, bytes);
    }

    #[test]
    fn what_is_no_form_is_refused() {
        for (body, expected) in [
            ("", "no boundary is in the body"),
            ("nothing", "no boundary is in the body"),
            ("--X", "no boundary is in the body"),
            ("--XX", "no boundary is in the body"),
            ("--XXY\n", "no boundary is in the body"),
            ("--XX\n", "the last boundary is missing"),
            (&format!("--XX\n{FORM}\n\nhello"), "the last boundary is missing"),
            (&format!("--XX\n{FORM}\n\nhello\n--XX"), "the last boundary is missing"),
            (&format!("--XX\n{FORM}\n\nhello\n--XXY--"), "the last boundary is missing"),
            (
                &format!("--XX\n{FORM}; filename*=utf-16''a\n\n\n--XX--"),
                "a `filename*` that is not `UTF-8''` and a name with percent signs",
            ),
            (
                &format!("--XX\n{FORM}; filename*=UTF-8''%FF\n\n\n--XX--"),
                "a `filename*` that is not `UTF-8''` and a name with percent signs",
            ),
            (&format!("--XX\n{FORM}\n--XX--"), "no end of a part's headers within 8192 bytes"),
            ("--XX\n\nhello\n--XX--", "a part without `content-disposition: form-data; name=…`"),
            (
                "--XX\ncontent-disposition: attachment; name=a\n\n\n--XX--",
                "a part without `content-disposition: form-data; name=…`",
            ),
            ("--XX\nnonsense\n\n\n--XX--", "a header without a colon"),
            (
                &format!("--XX\n{FORM}\ncontent-transfer-encoding: base64\n\n\n--XX--"),
                "a part with a transfer encoding, which forms do not have",
            ),
        ] {
            assert_eq!(show(&lines(body)), format!("malformed multipart: {expected}"), "{body}");
        }
        // Line ends of another kind are none.
        assert_eq!(
            show(format!("--XX\n{FORM}\n\nx\n--XX--").as_bytes()),
            "malformed multipart: no boundary is in the body"
        );
        let invalid_utf8 = [&lines("--XX\nx: ")[..], b"\xff", &lines("\n\n\n--XX--")].concat();
        assert_eq!(show(&invalid_utf8), "malformed multipart: the headers of a part are not UTF-8");
    }

    #[test]
    fn everything_has_a_limit() {
        let part = lines(&format!("--XX\n{FORM}\n\n1\n"));
        let many = |count: usize| [part.repeat(count), lines("--XX--")].concat();
        assert_eq!(parts(&many(1000), "XX").map(|parts| parts.len()), Ok(1000));
        assert_eq!(show(&many(1001)), "more than 1000 parts");
        let long = |length: usize| lines(&format!("--XX\n{FORM}\nx: {}\n\nbody\n--XX--", "y".repeat(length)));
        assert_eq!(show(&long(8000)), "a|-|text/plain|body");
        assert_eq!(show(&long(9000)), "malformed multipart: no end of a part's headers within 8192 bytes");
        for boundary in ["".to_owned(), "x".repeat(71)] {
            let error = parts(b"", &boundary).unwrap_err().to_string();
            assert_eq!(error, "malformed multipart: the boundary has not 1 to 70 bytes");
        }
        // Nearly a boundary, over and over.
        let near =
            [lines(&format!("--XX\n{FORM}\n\n")), b"\r\n--X".repeat(1 << 18), lines("\n--XX--")].concat();
        assert_eq!(parts(&near, "XX").map(|parts| parts[0].body.len()), Ok(5 << 18));
    }

    /// Bodies put together from pieces of real ones: all that is found is a part of the body.
    #[test]
    fn noise() {
        let mut seed = 0x2545_f491_4f6c_dd1d_u64;
        let mut random = move || {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed as usize
        };
        let pieces: [&[u8]; 8] = [
            b"\r\n",
            b"--XX",
            b"--",
            b"\r\n\r\n",
            b"content-disposition: form-data; name=\"",
            b"\"",
            b"; filename=\"\\",
            b"\xff: a",
        ];
        let mut found = 0;
        for _ in 0..20_000 {
            let mut body = b"--XX\r\ncontent-disposition: form-data; name=a\r\n\r\n".to_vec();
            for _ in 0..random() % 12 {
                body.extend_from_slice(pieces[random() % pieces.len()]);
            }
            if let Ok(parts) = parts(&body, "XX") {
                found += parts.len();
                let within = |part: &Part<'_>| body.as_ptr_range().contains(&part.body.as_ptr());
                assert!(parts.iter().all(within), "{}", body.escape_ascii());
            }
        }
        assert!(found > 100, "{found} parts: the noise is too wild to test anything");
    }
}
