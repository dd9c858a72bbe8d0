//! An endpoint whose body is a file, not JSON: the media types that it takes, and an example.
//!
//! Place in the flow: held against every request with a body before the handler runs, as the
//! [schema](super) of inputs is otherwise; the source of the endpoint's documentation and of the body that is
//! tried before it serves.
//! In: the configuration. Out: whether a body is one of these.

use bytes::Bytes;

use crate::values::list;

/// The files that an endpoint takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawBody {
    /// In lower case, without parameters; `image/*` is every image. Not empty.
    pub media_types: Vec<String>,
    /// A body that the handler answers.
    pub example: Option<RawExample>,
}

/// An example of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawExample {
    /// One of the types that are taken.
    pub media_type: String,
    /// The file's contents.
    pub body: Bytes,
}

/// Why a body is not taken. The text is for the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RawBodyError {
    /// Its media type is another one.
    MediaType(String),
    /// There are no bytes.
    Empty(String),
}

impl RawBody {
    /// Whether a body of this `content-type` is taken.
    pub fn takes(&self, content_type: &str) -> bool {
        let essence = content_type.split(';').next().unwrap_or_default().trim();
        self.media_types.iter().any(|own| match own.strip_suffix('*') {
            // With the slash: `image/`.
            Some(range) => essence.get(..range.len()).is_some_and(|start| start.eq_ignore_ascii_case(range)),
            None => own.eq_ignore_ascii_case(essence),
        })
    }

    /// Holds a body against this.
    ///
    /// # Errors
    /// [`RawBodyError`].
    pub fn check(&self, content_type: &str, body: &[u8]) -> Result<(), RawBodyError> {
        let expected = list(self.media_types.iter().map(String::as_str), "or");
        if !self.takes(content_type) {
            let text =
                format!("expected {expected}, got `{content_type}`; say it in the header `content-type`");
            return Err(RawBodyError::MediaType(text));
        }
        if body.is_empty() {
            return Err(RawBodyError::Empty(format!("the body is empty; expected {expected}")));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn types(media_types: &[&str]) -> RawBody {
        RawBody { media_types: media_types.iter().map(|own| (*own).to_owned()).collect(), example: None }
    }

    #[test]
    fn media_types_match_in_any_case_and_without_parameters() {
        let (one, any) = (types(&["image/jpeg"]), types(&["image/*", "text/csv"]));
        for (content_type, is_one, is_any) in [
            ("image/jpeg", true, true),
            ("Image/JPEG; q=1", true, true),
            ("image/png", false, true),
            ("IMAGE/webp", false, true),
            ("text/csv; charset=utf-8", false, true),
            ("imagery/x", false, false),
            ("image", false, false),
            ("", false, false),
        ] {
            assert_eq!(
                (one.takes(content_type), any.takes(content_type)),
                (is_one, is_any),
                "{content_type}"
            );
        }
    }

    #[test]
    fn what_is_not_taken_is_told_what_is() {
        let jpeg = types(&["image/jpeg", "image/png"]);
        assert_eq!(jpeg.check("image/jpeg", b"x"), Ok(()));
        let text =
            "expected `image/jpeg` or `image/png`, got `text/plain`; say it in the header `content-type`";
        assert_eq!(jpeg.check("text/plain", b"x"), Err(RawBodyError::MediaType(text.to_owned())));
        let text = "the body is empty; expected `image/jpeg` or `image/png`";
        assert_eq!(jpeg.check("image/png", b""), Err(RawBodyError::Empty(text.to_owned())));
    }
}
