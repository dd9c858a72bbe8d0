//! Places in a JSON document, and patterns that name them: JSON Pointers (RFC 6901).
//!
//! Place in the flow: `config` reads [`Pattern`]s from settings; what walks a document keeps the [`Path`] to
//! where it is and asks whether a pattern names that. A pattern names a value with all that is in it. `*`
//! stands for any one key or index.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use crate::text::is_token;

/// Most steps of a pattern.
const MOST_STEPS: usize = 32;

/// The way to a value: keys and indices.
#[derive(Debug, Default)]
pub struct Path<'a>(Vec<Step<'a>>);

/// One step of a [`Path`].
#[derive(Debug)]
pub enum Step<'a> {
    /// Into an object.
    Key(Cow<'a, str>),
    /// Into a list, from 0.
    Index(usize),
}

impl<'a> Path<'a> {
    /// Goes one step down.
    pub fn push(&mut self, step: Step<'a>) {
        self.0.push(step);
    }

    /// Goes back up.
    pub fn pop(&mut self) {
        self.0.pop();
    }

    /// Steps from the root.
    pub fn depth(&self) -> usize {
        self.0.len()
    }

    /// Whether one of `patterns` names this very value.
    pub fn is_named_by(&self, patterns: &[Pattern]) -> bool {
        patterns.iter().any(|pattern| pattern.names(self))
    }
}

/// As a JSON Pointer; the root is `/`.
impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_char('/');
        }
        for step in &self.0 {
            f.write_char('/')?;
            match step {
                Step::Index(index) => write!(f, "{index}")?,
                Step::Key(key) => {
                    for character in key.chars() {
                        match character {
                            '~' => f.write_str("~0")?,
                            '/' => f.write_str("~1")?,
                            other => f.write_char(other)?,
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

/// Names values of a document, or a header by its name.
#[derive(Clone, PartialEq, Eq)]
pub enum Pattern {
    /// `/predictions/*/score`
    Place(Vec<Segment>),
    /// `x-took`, in lower case: not a place in a document at all.
    Name(String),
}

/// One step of a [`Pattern`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Segment {
    /// `*`
    Any,
    /// This key, or the element of this index.
    One(String),
}

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// The defect of the pattern, for the operator.
    pub fn parse(text: &str) -> Result<Pattern, String> {
        let Some(place) = text.strip_prefix('/') else {
            return match text != "*" && is_token(text) {
                true => Ok(Pattern::Name(text.to_ascii_lowercase())),
                false => Err(format!("`{}` is neither a path nor a header's name", text.escape_debug())),
            };
        };
        let parts = place.split('/').map(|part| match part {
            "*" => Ok(Segment::Any),
            part => unescaped(part).map(Segment::One),
        });
        let parts = parts.collect::<Result<Vec<_>, _>>()?;
        match parts.len() <= MOST_STEPS {
            true => Ok(Pattern::Place(parts)),
            false => Err(format!("a path has at most {MOST_STEPS} steps")),
        }
    }

    /// Steps of the deepest place that one of `patterns` names; `None` if none names any.
    pub fn deepest(patterns: &[Pattern]) -> Option<usize> {
        let depth = |pattern: &Pattern| match pattern {
            Pattern::Place(parts) => Some(parts.len()),
            Pattern::Name(_) => None,
        };
        patterns.iter().filter_map(depth).max()
    }

    /// Whether it is the name of this header, in any case.
    pub fn is_name(&self, name: &str) -> bool {
        matches!(self, Pattern::Name(own) if own.eq_ignore_ascii_case(name))
    }

    /// Whether it names this member of the whole document, or anything in it.
    pub fn begins_with(&self, key: &str) -> bool {
        match self {
            Pattern::Place(parts) => match parts.first() {
                Some(Segment::One(first)) => first == key,
                Some(Segment::Any) => true,
                None => false,
            },
            Pattern::Name(_) => false,
        }
    }

    fn names(&self, path: &Path<'_>) -> bool {
        let Pattern::Place(parts) = self else { return false };
        parts.len() == path.0.len()
            && parts.iter().zip(&path.0).all(|(part, step)| match (part, step) {
                (Segment::Any, _) => true,
                (Segment::One(wanted), Step::Key(key)) => wanted == key,
                (Segment::One(wanted), Step::Index(index)) => wanted.parse() == Ok(*index),
            })
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// As it is written.
impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pattern::Name(name) => f.write_str(name),
            Pattern::Place(parts) => parts.iter().try_for_each(|part| match part {
                Segment::Any => f.write_str("/*"),
                Segment::One(key) => write!(f, "/{}", key.replace('~', "~0").replace('/', "~1")),
            }),
        }
    }
}

/// `~1` is a slash and `~0` a tilde.
fn unescaped(part: &str) -> Result<String, String> {
    let mut pieces = part.split('~');
    let mut key = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        match (piece.strip_prefix('0'), piece.strip_prefix('1')) {
            (Some(rest), _) => key.extend(['~'].into_iter().chain(rest.chars())),
            (_, Some(rest)) => key.extend(['/'].into_iter().chain(rest.chars())),
            _ => return Err("in a path, `~` is written `~0` and a `/` within a key `~1`".to_owned()),
        }
    }
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(steps: Vec<Step<'static>>) -> Path<'static> {
        Path(steps)
    }

    fn key(key: &'static str) -> Step<'static> {
        Step::Key(Cow::Borrowed(key))
    }

    #[test]
    fn a_pattern_names_a_place() {
        for (pattern, steps, expected) in [
            ("/a", vec![key("a")], true),
            ("/a", vec![key("A")], false),
            ("/a", vec![key("a"), key("b")], false),
            ("/a/b", vec![key("a")], false),
            ("/a/*/b", vec![key("a"), Step::Index(7), key("b")], true),
            ("/a/*/b", vec![key("a"), key("x"), key("b")], true),
            ("/a/7", vec![key("a"), Step::Index(7)], true),
            ("/a/07", vec![key("a"), Step::Index(8)], false),
            ("/a/7", vec![key("a"), key("7")], true),
            ("/", vec![key("")], true),
            ("/a~1b/~0", vec![key("a/b"), key("~")], true),
            ("/~01", vec![key("~1")], true),
            ("a", vec![key("a")], false),
        ] {
            let read = Pattern::parse(pattern).unwrap();
            assert_eq!(path(steps).is_named_by(std::slice::from_ref(&read)), expected, "{pattern}");
            assert_eq!(read.to_string(), pattern);
        }
        assert!(Pattern::parse("X-Took").unwrap().is_name("x-tooK"));
    }

    #[test]
    fn what_names_nothing_is_refused() {
        for (pattern, reason) in [
            ("", "neither"),
            ("*", "neither"),
            ("a b", "neither"),
            ("a:b", "neither"),
            ("/a~2", "`~`"),
            ("/a~", "`~`"),
            (&*"/a".repeat(MOST_STEPS + 1), "at most"),
        ] {
            let error = Pattern::parse(pattern).unwrap_err();
            assert!(error.contains(reason), "{pattern}: {error}");
        }
    }

    #[test]
    fn a_path_is_written_as_a_pointer() {
        assert_eq!(path(vec![]).to_string(), "/");
        assert_eq!(path(vec![key("a/b~"), Step::Index(3), key("")]).to_string(), "/a~1b~0/3/");
    }
}
