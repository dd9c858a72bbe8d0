//! Readers of single values: switches, numbers, ratios, sizes, durations, words.
//!
//! In: a [`RawValue`]. Out: the meaning, or a [`Diagnostic`]. A reader with a range is made of it:
//! `count(1..=64)`.

use std::ops::RangeInclusive;
use std::time::Duration;

use toml::Value;

use super::{Diagnostic, Hint, ParseResult, Ratio, RawValue, list};
use crate::text::similar;

/// Reads values.
pub trait Reader<T> {
    /// Reads a value.
    ///
    /// # Errors
    /// The defect of the value, and what to write instead.
    fn read(&self, raw: &RawValue<'_>) -> ParseResult<T>;

    /// The range of values, as in `1 to 64`; empty if it says nothing.
    fn range(&self) -> String {
        String::new()
    }
}

impl<T, F: Fn(&RawValue<'_>) -> ParseResult<T>> Reader<T> for F {
    fn read(&self, raw: &RawValue<'_>) -> ParseResult<T> {
        self(raw)
    }
}

/// A reader with a range.
struct Ranged<F> {
    read: F,
    range: String,
}

impl<T, F: Fn(&RawValue<'_>) -> ParseResult<T>> Reader<T> for Ranged<F> {
    fn read(&self, raw: &RawValue<'_>) -> ParseResult<T> {
        (self.read)(raw)
    }

    fn range(&self) -> String {
        self.range.clone()
    }
}

/// Any text.
pub fn text(raw: &RawValue<'_>) -> ParseResult<String> {
    let text = raw.value.as_str().map(str::to_owned);
    text.ok_or_else(|| raw.mistyped("a string", "put the value in double quotes"))
}

/// Reads with `reader`, or `word` for none of it.
pub fn or<T>(word: &'static str, reader: impl Reader<T>) -> impl Reader<Option<T>> {
    let range = reader.range();
    let read = move |raw: &RawValue<'_>| match raw.value.as_str() == Some(word) {
        true => Ok(None),
        false => reader.read(raw).map(Some),
    };
    Ranged { read, range }
}

/// On or off.
pub fn switch(raw: &RawValue<'_>) -> ParseResult<bool> {
    let hint = || Hint::Write("`true` or `false`".to_owned());
    match &*raw.value {
        Value::Boolean(on) => Ok(*on),
        Value::String(text) if text == "true" || text == "1" => Ok(true),
        Value::String(text) if text == "false" || text == "0" => Ok(false),
        Value::String(_) => Err(Diagnostic::new(format!("{raw} is neither true nor false"), hint())),
        _ => Err(raw.mistyped("true or false", hint())),
    }
}

/// One of `choices`.
pub fn choice<T: Copy>(choices: &[(&str, T)]) -> impl Reader<T> {
    move |raw: &RawValue<'_>| {
        let typed = text(raw)?;
        let words = || choices.iter().map(|(word, _)| *word);
        choices.iter().find(|(word, _)| *word == typed).map(|(_, meant)| *meant).ok_or_else(|| {
            let hint = match similar(&typed, words()) {
                Some(word) => format!("did you mean `{word}`?").into(),
                None => Hint::Write(list(words(), "or")),
            };
            Diagnostic::new(format!("`{typed}` is not one of {}", list(words(), "or")), hint)
        })
    }
}

/// A whole number within `range`.
pub fn count<T: TryFrom<u64>>(range: RangeInclusive<u64>) -> impl Reader<T> {
    let words = format!("{} to {}", range.start(), range.end());
    let read = move |raw: &RawValue<'_>| {
        let hint = || Hint::Write(format!("a whole number from {} to {}", range.start(), range.end()));
        let number = match &*raw.value {
            Value::Integer(number) => u64::try_from(*number).ok(),
            Value::String(text) => text.parse().ok(),
            _ => return Err(raw.mistyped("a whole number", hint())),
        };
        let number = number.ok_or_else(|| Diagnostic::new(format!("{raw} is not a count"), hint()))?;
        let within = range.contains(&number).then(|| T::try_from(number).ok()).flatten();
        within.ok_or_else(|| Diagnostic::new(format!("`{number}` is out of range"), hint()))
    };
    Ranged { read, range: words }
}

/// A number within `range`.
pub fn number(range: RangeInclusive<f64>) -> impl Reader<f64> {
    let words = format!("{} to {}", range.start(), range.end());
    let read = move |raw: &RawValue<'_>| {
        let hint = || Hint::Write(format!("a number from {} to {}", range.start(), range.end()));
        let number = match &*raw.value {
            Value::Float(number) => Some(*number),
            Value::Integer(number) => i32::try_from(*number).ok().map(f64::from),
            Value::String(text) => text.parse().ok(),
            _ => return Err(raw.mistyped("a number", hint())),
        };
        match number {
            Some(number) if range.contains(&number) => Ok(number),
            Some(_) => Err(Diagnostic::new(format!("{raw} is out of range"), hint())),
            None => Err(Diagnostic::new(format!("{raw} is not a number"), hint())),
        }
    };
    Ranged { read, range: words }
}

/// A part of a whole.
pub fn ratio() -> impl Reader<Ratio> {
    let number = number(0.0..=1.0);
    let range = number.range();
    // Within these bounds it is one.
    let read = move |raw: &RawValue<'_>| number.read(raw).map(|n| Ratio::new(n).unwrap_or(Ratio::ZERO));
    Ranged { read, range }
}

/// A part of all requests, from 0 to 1; `expected` says so in words.
pub fn share(expected: &'static str) -> impl Reader<Ratio> {
    let read = move |raw: &RawValue<'_>| {
        let wrong = |message| Diagnostic::new(message, Hint::Write(expected.to_owned()));
        ratio().read(raw).map_err(|other| match &*raw.value {
            Value::Float(_) | Value::Integer(_) | Value::String(_) => wrong(format!("{raw} is no share")),
            _ => wrong(other.message),
        })
    };
    Ranged { read, range: ratio().range() }
}

/// A part of all requests, more than 0 and at most 1; `expected` says so in words.
pub fn share_above_zero(expected: &'static str) -> impl Reader<Ratio> {
    let read = move |raw: &RawValue<'_>| match share(expected).read(raw)? {
        Ratio::ZERO => Err(Diagnostic::new(format!("{raw} is no share"), Hint::Write(expected.to_owned()))),
        share => Ok(share),
    };
    Ranged { read, range: "above 0, up to 1".to_owned() }
}

/// A number of bytes within `range`, both ends in whole `KiB`, `MiB` or `GiB`.
pub fn size<T: TryFrom<u64>>(range: RangeInclusive<u64>) -> impl Reader<T> {
    let words = format!("{} to {}", bytes_as_text(*range.start()), bytes_as_text(*range.end()));
    let read = move |raw: &RawValue<'_>| {
        let hint = || Hint::Write("a number of bytes, or a number with a unit, such as `64MiB`".to_owned());
        let size = match &*raw.value {
            Value::Integer(bytes) => u64::try_from(*bytes).ok(),
            Value::String(text) => parse_size::parse_size(text).ok(),
            _ => return Err(raw.mistyped("a size", hint())),
        };
        let wrong = || Diagnostic::new(format!("{raw} is not a size"), hint());
        let size = within(&range, size.ok_or_else(wrong)?, raw, |bytes| bytes_as_text(*bytes))?;
        T::try_from(size).map_err(|_| wrong())
    };
    Ranged { read, range: words }
}

/// A duration within `range`.
pub fn duration(range: RangeInclusive<Duration>) -> impl Reader<Duration> {
    let words = {
        let [least, most] = [range.start(), range.end()].map(|limit| humantime::format_duration(*limit));
        format!("{least} to {most}")
    };
    let read = move |raw: &RawValue<'_>| {
        let hint = || Hint::Write("a number with a unit, such as `500ms`, `30s` or `1m`".to_owned());
        let no_unit = |hint| Diagnostic::new(format!("{raw} has no unit"), hint);
        let text = match &*raw.value {
            Value::String(text) => text,
            Value::Integer(number) => {
                let (s, ms) = (format!("`\"{number}s\"`"), format!("`\"{number}ms\"`"));
                return Err(no_unit(Hint::Write(format!("{s} for seconds, {ms} for milliseconds"))));
            }
            _ => return Err(raw.mistyped("a duration", hint())),
        };
        match humantime::parse_duration(text) {
            Ok(duration) => {
                within(&range, duration, raw, |limit| humantime::format_duration(*limit).to_string())
            }
            Err(_) if text.parse::<f64>().is_ok() => {
                let expected = format!("`{text}s` for seconds, `{text}ms` for milliseconds");
                Err(no_unit(Hint::Write(expected)))
            }
            Err(_) => Err(Diagnostic::new(format!("{raw} is not a duration"), hint())),
        }
    };
    Ranged { read, range: words }
}

fn within<T: PartialOrd>(
    range: &RangeInclusive<T>,
    number: T,
    raw: &RawValue<'_>,
    show: impl Fn(&T) -> String,
) -> ParseResult<T> {
    let (what, limit, most) = if number < *range.start() {
        ("too little", range.start(), "the least")
    } else if number > *range.end() {
        ("too much", range.end(), "the most")
    } else {
        return Ok(number);
    };
    Err(Diagnostic::new(format!("{raw} is {what}"), format!("{most} is `{}`", show(limit))))
}

fn bytes_as_text(bytes: u64) -> String {
    [("GiB", 30), ("MiB", 20), ("KiB", 10)]
        .into_iter()
        .find(|(_, shift)| bytes >= 1 << shift)
        .map_or_else(|| format!("{bytes}"), |(unit, shift)| format!("{}{unit}", bytes >> shift))
}
