//! Rules for text that comes from outside.
//!
//! Place in the flow: wherever such a text is checked or kept; depends on nothing.

/// Longest text that is kept of a caller's or author's own words, in bytes.
const LONGEST: usize = 4 << 10;

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
