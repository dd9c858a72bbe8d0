//! What is asked for: texts as numbers, and the form of the vectors.
//!
//! Place in the flow: the body as JSON comes in, [`Asked`] goes out, within the model's limits.

use std::collections::BTreeMap;

use modelhost_guest::{Result, invalid};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::batch::{LONGEST, SIZE};
use crate::tokens::Tokenizer;

/// Most texts of a request, as OpenAI has it.
const MOST_TEXTS: usize = 2048;

/// The body.
#[derive(Debug, Deserialize)]
pub(crate) struct Body {
    model: String,
    input: Input,
    #[serde(default)]
    encoding_format: Format,
    dimensions: Option<usize>,
    /// Whose request it is.
    #[serde(default, rename = "user")]
    _user: Option<String>,
    /// Members that are not served.
    #[serde(flatten)]
    others: BTreeMap<String, IgnoredAny>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "`input` is none of a text, texts, tokens and lists of tokens")]
enum Input {
    Text(String),
    Texts(Vec<String>),
    Tokens(Vec<i64>),
    ListsOfTokens(Vec<Vec<i64>>),
}

/// How a vector is written.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Format {
    #[default]
    Float,
    Base64,
}

/// What is asked for.
pub(crate) struct Asked {
    /// The tokens of each text; none is empty.
    pub(crate) texts: Vec<Vec<i64>>,
    pub(crate) model: String,
    pub(crate) dimensions: usize,
    pub(crate) format: Format,
}

impl Body {
    /// Every error begins with the name of its member, which the host gives the client as `param`.
    pub(crate) fn read(self, tokenizer: &Tokenizer) -> Result<Asked> {
        if let Some(name) = self.others.keys().next() {
            let name: String = name.chars().take(40).collect();
            return Err(invalid(format!("`{name}` is not served")));
        }
        let dimensions = self.dimensions.unwrap_or(SIZE);
        if !(1..=SIZE).contains(&dimensions) {
            return Err(invalid(format!("`dimensions` is {dimensions}, expected 1 to {SIZE}")));
        }
        let texts: Vec<Vec<i64>> = match self.input {
            Input::Text(text) => vec![tokenizer.tokens(&text)],
            Input::Texts(texts) => texts.iter().map(|text| tokenizer.tokens(text)).collect(),
            // What cannot be told apart from a list of no texts.
            Input::Tokens(tokens) if tokens.is_empty() => Vec::new(),
            Input::Tokens(tokens) => vec![tokens],
            Input::ListsOfTokens(lists) => lists,
        };
        match texts.len() {
            0 => return Err(invalid("`input` is empty")),
            1..=MOST_TEXTS => {}
            many => return Err(invalid(format!("`input` has {many} texts, of at most {MOST_TEXTS}"))),
        }
        for (index, tokens) in texts.iter().enumerate() {
            if tokens.is_empty() {
                return Err(invalid(format!("`input[{index}]` is empty")));
            }
            if tokens.len() > LONGEST {
                let count = tokens.len();
                return Err(invalid(format!("`input[{index}]` has {count} tokens, of at most {LONGEST}")));
            }
            if let Some(token) = tokens.iter().find(|token| !tokenizer.has(**token)) {
                return Err(invalid(format!("`input[{index}]` has token {token}, which the model has not")));
            }
        }
        Ok(Asked { texts, model: self.model, dimensions, format: self.encoding_format })
    }
}
