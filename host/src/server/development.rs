//! The state of a handler that is being written, as requests and the page at `/docs` tell it.
//!
//! Place in the flow: set by `app/development.rs` after every build of `host dev`; elsewhere there is none.
//! In: the outcome of a build. Out: a header, the words of a refusal, what the page asks for.
//! Invariant: shown on the loopback only, by `commands/dev.rs`: an error of a build names its author's files.

use std::sync::Arc;

use axum::http::HeaderValue;
use axum::http::header::HeaderName;
use serde_json::{Value, json};

use crate::text;

/// Says on every answer that it is not the last source's: the first line of the build's error.
pub(super) const X_BUILD_ERROR: HeaderName = HeaderName::from_static("x-build-error");
/// Longest value of the header, in characters.
const LONGEST: usize = 200;

/// The state of `host dev`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Development {
    /// How often something was built that is served.
    pub builds: u64,
    /// The error of the last build, if it had one.
    pub error: Option<Arc<str>>,
}

impl Development {
    /// The value of [`X_BUILD_ERROR`].
    pub(super) fn header(&self) -> Option<HeaderValue> {
        let line = self.error.as_deref()?.lines().next().unwrap_or_default();
        let is_plain = |c: char| c.is_ascii_graphic() || c == ' ';
        let plain = line.chars().take(LONGEST).map(|c| if is_plain(c) { c } else { '?' });
        HeaderValue::try_from(plain.collect::<String>()).ok()
    }

    /// Why there is no handler to answer: in one line, and whole.
    pub(super) fn refusal(&self) -> (String, Option<String>) {
        match &self.error {
            None => ("the handler is being built".to_owned(), None),
            Some(error) => {
                let line = error.lines().next().unwrap_or_default();
                (format!("the handler does not build: {line}"), Some(text::cut(error.to_string())))
            }
        }
    }

    /// The state as the page reads it.
    pub(super) fn page(&self) -> Value {
        json!({ "builds": self.builds, "error": self.error })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_is_one_line_of_plain_characters() {
        let header = |error: &str| Development { builds: 1, error: Some(error.into()) }.header().unwrap();
        assert_eq!(header("app.py has no `X`\n  hint: write it"), "app.py has no `X`");
        assert_eq!(header("größe\tx"), "gr??e?x");
        assert_eq!(header(&"x".repeat(500)).len(), LONGEST);
        assert_eq!(Development::default().header(), None);
    }
}
