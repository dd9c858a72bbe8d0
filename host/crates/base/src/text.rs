//! Rules for text that comes from outside.
//!
//! Place in the flow: wherever such a text is checked or kept; depends on nothing.

use std::fmt::Write as _;

/// Longest text that is kept of a caller's or author's own words, in bytes.
const LONGEST: usize = 4 << 10;
/// Most characters of a name that an error shows.
const SHOWN: usize = 64;
/// Most names of a list that a log line shows.
const LISTED: usize = 20;

/// Whether `name` is a token, as names of headers are (RFC 9110, section 5.6.2).
pub fn is_token(name: &str) -> bool {
    !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

/// Whether two names of headers are the same but for case and for `-` in place of `_`.
pub fn is_similar(one: &str, other: &str) -> bool {
    let dashed = |byte: u8| if byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
    one.len() == other.len() && one.bytes().map(dashed).eq(other.bytes().map(dashed))
}

/// The lines of a text below one that is shown, each indented by four columns. They steer no terminal.
pub fn below_the_line(text: &str) -> String {
    let mut below = String::new();
    for line in text.lines() {
        below.push_str("\n    ");
        for character in line.chars() {
            match character.is_control() && character != '\t' {
                true => below.extend(character.escape_default()),
                false => below.push(character),
            }
        }
    }
    below
}

/// Bytes of ISO-8859-1, in which each is a character.
pub fn of_latin1(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}

/// A text in ISO-8859-1; `None` if it has other characters.
pub fn latin1(text: &str) -> Option<Vec<u8>> {
    text.chars().map(|letter| u8::try_from(u32::from(letter)).ok()).collect()
}

/// The one of `known` that `typed` was probably meant to be.
pub fn similar<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|word| (strsim::damerau_levenshtein(typed, word), word))
        // A third of the letters may be wrong; more, and the guess would be noise.
        .filter(|(distance, word)| distance * 3 <= word.len().max(3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word)
}

/// A caller's or author's own words, of a length that a response, a log line and a list can bear.
pub fn cut(mut text: String) -> String {
    if text.len() > LONGEST {
        text.truncate(text.floor_char_boundary(LONGEST));
        text.push('…');
        // What was cut off may be megabytes.
        text.shrink_to_fit();
    }
    text
}

/// The beginning of a text, of at most `longest` bytes.
pub fn beginning(text: &str, longest: usize) -> &str {
    text.get(..text.floor_char_boundary(longest)).unwrap_or(text)
}

/// Names, one after the other: the first of them, and how many more there are.
pub fn listed(names: &[String]) -> String {
    let (first, more) = names.split_at(names.len().min(LISTED));
    match more.len() {
        0 => first.join(", "),
        more => format!("{}, and {more} more", first.join(", ")),
    }
}

/// Bytes in hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A name of a caller's or a guest's as errors show it.
pub fn shown(name: &str) -> String {
    name.escape_debug().take(SHOWN).collect()
}

/// An error with its hint, on one line, its own lines kept apart by `; `.
pub fn on_one_line(error: &impl ToString) -> String {
    let text = error.to_string();
    let mut line = String::with_capacity(text.len());
    for part in text.lines().map(str::trim).filter(|part| !part.is_empty()) {
        match line.chars().next_back() {
            None => {}
            // What follows belongs to it.
            Some(':' | ';') => line.push(' '),
            Some(_) => line.push_str("; "),
        }
        line.push_str(part);
    }
    line
}

/// The text of an engine's error without places in the engine's own source: `/build/core/graph.cc:123`, and
/// the C++ function that ONNX Runtime names behind one. They say nothing to who serves a model, and hold
/// paths of the machine that built the engine.
pub fn without_sources(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = split_at_source(rest) {
        kept.push_str(before);
        rest = after;
    }
    kept.push_str(rest);
    kept
}

/// The text before and after the first place in a source file.
fn split_at_source(text: &str) -> Option<(&str, &str)> {
    const KINDS: [&str; 6] = [".cc:", ".cpp:", ".cu:", ".h:", ".hpp:", ".rs:"];
    let found = KINDS.iter().flat_map(|kind| text.match_indices(kind));
    let (at, kind) = found
        .filter(|(at, kind)| {
            text.get(at + kind.len()..).is_some_and(|line| line.starts_with(|c: char| c.is_ascii_digit()))
        })
        .min()?;
    let start =
        text.get(..at)?.rfind(|c: char| c.is_whitespace() || "([\"':".contains(c)).map_or(0, |end| end + 1);
    let line = text.get(at + kind.len()..)?;
    let after = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let after = after.strip_prefix(']').unwrap_or(after).trim_start_matches([':', ' ']);
    Some((text.get(..start)?, without_signature(after)))
}

/// The text behind the C++ signature that it begins with: `virtual Status ns::F<T>::Run(X*) const [with T =
/// float] text`.
fn without_signature(text: &str) -> &str {
    let Some(open) = text.find('(') else { return text };
    let is_signature = text.get(..open).is_some_and(|name| name.contains("::") && !name.contains(". "));
    if !is_signature {
        return text;
    }
    let mut depth = 0usize;
    let close = text.char_indices().skip_while(|(at, _)| *at < open).find(|(_, c)| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0
    });
    let behind = close.and_then(|(at, _)| text.get(at + 1..)).unwrap_or_default().trim_start();
    let behind = behind.strip_prefix("const").unwrap_or(behind).trim_start();
    let behind =
        behind.strip_prefix("[with ").and_then(|with| with.split_once(']')).map_or(behind, |with| with.1);
    behind.trim_start_matches([':', ' '])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_in_an_engines_source_are_left_out() {
        for (text, expected) in [
            ("Protobuf parsing failed.", "Protobuf parsing failed."),
            (
                "Status Message: /onnxruntime_src/onnxruntime/core/providers/cpu/math/element_wise_ops.h:560 void \
                 onnxruntime::BroadcastIterator::Append(ptrdiff_t, ptrdiff_t) axis == 1 || axis == largest was \
                 false. 2 by 3",
                "Status Message: axis == 1 || axis == largest was false. 2 by 3",
            ),
            (
                "Load model from m.onnx failed:/onnxruntime_src/onnxruntime/core/graph/model.cc:181 \
                 onnxruntime::Model::Model(onnx::ModelProto&&, const PathString&, bool (*)(int)) Unsupported \
                 model IR version: 99",
                "Load model from m.onnx failed:Unsupported model IR version: 99",
            ),
            (
                "a.cc:1 virtual onnxruntime::common::Status onnxruntime::Gather<T>::Compute(C*) const \
                 [with T = float] x; b.cc:2] y",
                "x; y",
            ),
            (
                "/onnxruntime_src/math/binary_elementwise_ops.cc:63 onnxruntime::Status onnxruntime::cuda::Shape(const \
                 S&) : right operand cannot broadcast",
                "right operand cannot broadcast",
            ),
            (
                "provider_bridge_ort.cc:2400 TryGetProviderInfo_CUDA Failed to load library (no file)",
                "TryGetProviderInfo_CUDA Failed to load library (no file)",
            ),
            ("a ratio .h:x, and 1.h: no line", "a ratio .h:x, and 1.h: no line"),
        ] {
            assert_eq!(without_sources(text), expected);
        }
    }
}
