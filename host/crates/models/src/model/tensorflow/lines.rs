//! TensorFlow's own log: the lines its library writes to stderr, as lines of ours.
//!
//! Place in the flow: on the thread that reads the captured stderr. In: a line. Out: an event with the target
//! `tensorflow`.

use tracing::Level;

/// Logs line after line; one without a head of its own goes on what was said before.
pub fn logger() -> impl FnMut(&str) + Send + 'static {
    let mut level = Level::INFO;
    move |line| {
        let (head, text) = split(line);
        level = head.unwrap_or(level);
        match level {
            Level::ERROR => tracing::error!(target: "tensorflow", "{text}"),
            Level::WARN => tracing::warn!(target: "tensorflow", "{text}"),
            _ => tracing::info!(target: "tensorflow", "{text}"),
        }
    }
}

/// The level of a line that has one, and what it says without its head: neither its time nor its place in the
/// source.
///
/// `I0000 00:00:1795484418.802696   10606 reader.cc:83] text` since 2.17 or so, before that
/// `2026-11-24 01:40:18.802696: I tensorflow/cc/saved_model/reader.cc:83] text`.
fn split(line: &str) -> (Option<Level>, &str) {
    let whole = (None, line);
    let Some((head, text)) = line.split_once("] ") else { return whole };
    let mut words = head.split_whitespace();
    let (Some(first), Some(place)) = (words.next(), words.next_back()) else { return whole };
    let is_place = |(file, line): (&str, &str)| {
        [".cc", ".h"].iter().any(|end| file.ends_with(end)) && line.bytes().all(|byte| byte.is_ascii_digit())
    };
    if !place.rsplit_once(':').is_some_and(is_place) {
        return whole;
    }
    let letter = match first.strip_prefix(|c: char| c.is_ascii_uppercase()) {
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => first,
        _ => words.next_back().unwrap_or_default(),
    };
    match letter.as_bytes().first() {
        Some(b'I') => (Some(Level::INFO), text),
        Some(b'W') => (Some(Level::WARN), text),
        Some(b'E' | b'F') => (Some(Level::ERROR), text),
        _ => whole,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn real_lines() {
        for (line, level, text) in [
            (
                "I0000 00:00:1795484418.802696   10606 reader.cc:83] Reading SavedModel from: /m/[1] x",
                Some(Level::INFO),
                "Reading SavedModel from: /m/[1] x",
            ),
            ("W0000 00:00:1795484418.9 1 local_rendezvous.cc:407] aborting", Some(Level::WARN), "aborting"),
            ("E0000 00:00:1795484418.9 1 util.h:9] no", Some(Level::ERROR), "no"),
            (
                "F0000 00:00:1795484418.9 1 tensor.cc:5] Check failed: a == b",
                Some(Level::ERROR),
                "Check failed: a == b",
            ),
            (
                "2024-05-01 10:00:00.123456: W tensorflow/core/framework/op_kernel.cc:1827] INVALID_ARGUMENT: x",
                Some(Level::WARN),
                "INVALID_ARGUMENT: x",
            ),
            (
                "2024-05-01 10:00:00.123456: I external/local_tsl/tsl/cuda/cudart_stub.cc:32] Could not find cuda",
                Some(Level::INFO),
                "Could not find cuda",
            ),
        ] {
            assert_eq!(split(line), (level, text), "{line}");
        }
        for line in [
            "To enable the following instructions: AVX2 FMA, in other operations, rebuild TensorFlow",
            "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR",
            "tf.print says [1 2] of a.cc:1] what it likes",
            "X0000 1 2 reader.cc:83] text",
            "",
        ] {
            assert_eq!(split(line), (None, line));
        }
    }
}
