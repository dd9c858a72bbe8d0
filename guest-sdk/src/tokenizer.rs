//! Texts to the numbers that a model takes, and back, by the library `tokenizer`: a component of its own,
//! which `modelhost build` puts into the handler's (`[build] with = ["tokenizer"]` in modelhost.toml).
//!
//! In a component every function is a call to the library. Natively, in a unit test, there is none: the
//! tokens of a text are what the test says, [`answer_with`].
//!
//! ```no_run
//! use modelhost_guest::tokenizer::{Encode, Tokenizer};
//! use modelhost_guest::{Result, Tensor};
//!
//! fn tokens(words: &Tokenizer, texts: &[String]) -> Result<Vec<Tensor>> {
//!     let encoding = Encode::new().truncation(256).texts(words, texts)?;
//!     Ok(vec![encoding.ids, encoding.mask])
//! }
//! ```

use std::fmt;

use crate::bindings::tokenizer::modelhost::tokenizer::tokenizers;
use crate::{Datatype, Tensor, internal, invalid};

pub use tokenizers::{Padding, Truncation};

/// Why there are no tokens.
#[derive(Debug, Clone, PartialEq)]
pub enum TokenizerError {
    /// The `tokenizer.json` cannot be used.
    File(String),
    /// A value of the options, or a token, cannot be used.
    Options(String),
    /// The texts cannot be encoded.
    Text(String),
}

impl fmt::Display for TokenizerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TokenizerError::File(text) | TokenizerError::Options(text) | TokenizerError::Text(text) => {
                f.write_str(text)
            }
        }
    }
}

impl std::error::Error for TokenizerError {}

/// Texts are the caller's, file and options the handler's.
impl From<TokenizerError> for crate::Error {
    fn from(error: TokenizerError) -> crate::Error {
        match error {
            TokenizerError::Text(text) => invalid(text),
            error => internal(error.to_string()),
        }
    }
}

/// Rows of tokens, a row for each text: INT64 tensors `[texts, length]`, with the names that most models give
/// their inputs.
#[derive(Debug, Clone, PartialEq)]
pub struct Encoding {
    /// `input_ids`.
    pub ids: Tensor,
    /// `attention_mask`: 0 for what only fills a row.
    pub mask: Tensor,
    /// `token_type_ids`: 1 for the second text of a pair.
    pub types: Tensor,
    /// `[texts, length, 2]`: the bytes of its text at which a token begins and ends. Empty if not asked for.
    pub offsets: Tensor,
}

/// A `tokenizer.json`.
#[derive(Debug)]
pub struct Tokenizer(imported::Handle);

impl Tokenizer {
    /// Reads a file.
    ///
    /// # Errors
    /// [`TokenizerError::File`].
    pub fn load(json: &[u8]) -> Result<Tokenizer, TokenizerError> {
        imported::load(json).map(Tokenizer)
    }

    /// The text of tokens, with the special ones or without.
    ///
    /// # Errors
    /// [`TokenizerError::Text`].
    pub fn decode(&self, ids: &[u32], skip_special_tokens: bool) -> Result<String, TokenizerError> {
        imported::decode(&self.0, ids, skip_special_tokens)
    }

    /// The number of a token.
    pub fn id_of(&self, token: &str) -> Option<u32> {
        imported::id_of(&self.0, token)
    }

    /// The token of a number.
    pub fn token_of(&self, id: u32) -> Option<String> {
        imported::token_of(&self.0, id)
    }

    /// Number of tokens.
    pub fn size(&self) -> u32 {
        imported::size(&self.0)
    }
}

/// How texts become rows of tokens: without more with special tokens, as long as the longest row, cut off as
/// the file says.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(not(target_family = "wasm"), allow(dead_code, reason = "natively a test says what tokens are"))]
pub struct Encode {
    special_tokens: bool,
    padding: Padding,
    truncation: Truncation,
    offsets: bool,
}

impl Default for Encode {
    fn default() -> Encode {
        Encode {
            special_tokens: true,
            padding: Padding::Longest,
            truncation: Truncation::AsFile,
            offsets: false,
        }
    }
}

impl Encode {
    /// The one that the type's text describes.
    pub fn new() -> Encode {
        Encode::default()
    }

    /// Whether the tokens are added that the model expects around texts.
    pub fn special_tokens(self, special_tokens: bool) -> Encode {
        Encode { special_tokens, ..self }
    }

    /// Makes rows as long as each other.
    pub fn padding(self, padding: Padding) -> Encode {
        Encode { padding, ..self }
    }

    /// Most tokens of a row.
    pub fn truncation(self, tokens: u32) -> Encode {
        Encode { truncation: Truncation::To(tokens), ..self }
    }

    /// No limit, even if the file has one.
    pub fn without_truncation(self) -> Encode {
        Encode { truncation: Truncation::Off, ..self }
    }

    /// Asks for the places of tokens.
    pub fn offsets(self) -> Encode {
        Encode { offsets: true, ..self }
    }

    /// The tokens of texts.
    ///
    /// # Errors
    /// [`TokenizerError`].
    pub fn texts(self, tokenizer: &Tokenizer, texts: &[String]) -> Result<Encoding, TokenizerError> {
        imported::encode(&tokenizer.0, texts, &[], self)
    }

    /// The tokens of pairs of texts: the first of `texts` with the first of `seconds`.
    ///
    /// # Errors
    /// [`TokenizerError`].
    pub fn pairs(
        self,
        tokenizer: &Tokenizer,
        texts: &[String],
        seconds: &[String],
    ) -> Result<Encoding, TokenizerError> {
        imported::encode(&tokenizer.0, texts, seconds, self)
    }
}

fn tensor(name: &str, shape: &[u64], data: Vec<u8>) -> Tensor {
    Tensor { name: name.to_owned(), datatype: Datatype::Int64, shape: shape.to_vec(), data }
}

#[cfg(not(target_family = "wasm"))]
pub use imported::answer_with;

#[cfg(target_family = "wasm")]
mod imported {
    use super::*;

    pub(super) type Handle = tokenizers::Tokenizer;

    pub(super) fn load(json: &[u8]) -> Result<Handle, TokenizerError> {
        Handle::load(json).map_err(from_library)
    }

    pub(super) fn encode(
        handle: &Handle,
        texts: &[String],
        seconds: &[String],
        said: Encode,
    ) -> Result<Encoding, TokenizerError> {
        let options = tokenizers::Options {
            special_tokens: said.special_tokens,
            padding: said.padding,
            truncation: said.truncation,
            offsets: said.offsets.then_some(tokenizers::Unit::Bytes),
        };
        let made = handle.encode(texts, seconds, options).map_err(from_library)?;
        let (texts, length) = (u64::from(made.texts), u64::from(made.length));
        let of_offsets: &[u64] = if said.offsets { &[texts, length, 2] } else { &[0] };
        Ok(Encoding {
            ids: tensor("input_ids", &[texts, length], made.ids),
            mask: tensor("attention_mask", &[texts, length], made.mask),
            types: tensor("token_type_ids", &[texts, length], made.types),
            offsets: tensor("offsets", of_offsets, made.offsets),
        })
    }

    pub(super) fn decode(handle: &Handle, ids: &[u32], skip: bool) -> Result<String, TokenizerError> {
        handle.decode(ids, skip).map_err(from_library)
    }

    pub(super) fn id_of(handle: &Handle, token: &str) -> Option<u32> {
        handle.id_of(token)
    }

    pub(super) fn token_of(handle: &Handle, id: u32) -> Option<String> {
        handle.token_of(id)
    }

    pub(super) fn size(handle: &Handle) -> u32 {
        handle.size()
    }

    fn from_library(error: tokenizers::Error) -> TokenizerError {
        match error {
            tokenizers::Error::File(text) => TokenizerError::File(text),
            tokenizers::Error::Options(text) => TokenizerError::Options(text),
            tokenizers::Error::Text(text) => TokenizerError::Text(text),
        }
    }
}

#[cfg(not(target_family = "wasm"))]
mod imported {
    use std::cell::RefCell;

    use super::*;

    pub(super) type Handle = ();
    type Answer = Box<dyn FnMut(&str, Option<&str>) -> Vec<i64>>;

    thread_local! {
        static ANSWER: RefCell<Option<Answer>> = const { RefCell::new(None) };
    }

    /// From here on, the tokens of a text, or of a pair, are what `answer` gives in this thread.
    pub fn answer_with(answer: impl FnMut(&str, Option<&str>) -> Vec<i64> + 'static) {
        ANSWER.set(Some(Box::new(answer)));
    }

    pub(super) fn load(_: &[u8]) -> Result<Handle, TokenizerError> {
        Ok(())
    }

    pub(super) fn encode(
        _: &Handle,
        texts: &[String],
        seconds: &[String],
        said: Encode,
    ) -> Result<Encoding, TokenizerError> {
        let rows: Option<Vec<Vec<i64>>> = ANSWER.with_borrow_mut(|answer| {
            let answer = answer.as_mut()?;
            let pairs = texts.iter().zip(seconds.iter().map(Some).chain(std::iter::repeat(None)));
            Some(pairs.map(|(text, second)| answer(text, second.map(String::as_str))).collect())
        });
        let mut rows = rows.ok_or_else(unsaid)?;
        if let Truncation::To(most) = said.truncation {
            rows.iter_mut().for_each(|row| row.truncate(most as usize));
        }
        let length = match said.padding {
            Padding::To(length) => length as usize,
            _ => rows.iter().map(Vec::len).max().unwrap_or(0),
        };
        let shape = [rows.len() as u64, length as u64];
        let filled = |name: &str, value: fn(i64) -> i64| {
            let rows = rows
                .iter()
                .flat_map(|row| row.iter().map(|id| value(*id)).chain(std::iter::repeat(0)).take(length));
            tensor(name, &shape, rows.flat_map(i64::to_le_bytes).collect())
        };
        Ok(Encoding {
            ids: filled("input_ids", |id| id),
            mask: filled("attention_mask", |_| 1),
            types: filled("token_type_ids", |_| 0),
            offsets: tensor("offsets", &[0], Vec::new()),
        })
    }

    pub(super) fn decode(_: &Handle, _: &[u32], _: bool) -> Result<String, TokenizerError> {
        Err(TokenizerError::Text("a test decodes no tokens".to_owned()))
    }

    pub(super) fn id_of(_: &Handle, _: &str) -> Option<u32> {
        None
    }

    pub(super) fn token_of(_: &Handle, _: u32) -> Option<String> {
        None
    }

    pub(super) fn size(_: &Handle) -> u32 {
        0
    }

    fn unsaid() -> TokenizerError {
        let text = "the test does not say what the tokens of a text are: `tokenizer::answer_with`";
        TokenizerError::Options(text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_what_the_test_says_and_errors_blame_the_right_side() {
        let words = Tokenizer::load(b"").unwrap();
        let texts = ["one".to_owned(), "three".to_owned()];
        assert!(matches!(Encode::new().texts(&words, &texts), Err(TokenizerError::Options(_))));
        answer_with(|text, second| [text].into_iter().chain(second).map(|text| text.len() as i64).collect());
        let seconds = ["2".to_owned(), "4".to_owned()];
        let made = Encode::new().padding(Padding::To(3)).pairs(&words, &texts, &seconds).unwrap();
        assert_eq!(made.ids, Tensor::new("input_ids", [2, 3], &[3i64, 1, 0, 5, 1, 0]));
        assert_eq!(made.mask, Tensor::new("attention_mask", [2, 3], &[1i64, 1, 0, 1, 1, 0]));
        let made = Encode::new().truncation(1).texts(&words, &texts).unwrap();
        assert_eq!(made.ids.shape, [2, 1]);
        assert_eq!(crate::Error::from(TokenizerError::Text("x".into())), invalid("x"));
        assert_eq!(crate::Error::from(TokenizerError::File("x".into())), internal("x"));
    }
}
