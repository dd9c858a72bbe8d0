//! Texts as the model's tokens: BERT's rules for texts in lower case, and the longest pieces of words.
//!
//! Place in the flow: a text comes in, its tokens between `[CLS]` and `[SEP]` go out. Words in a text that
//! are written like such a token are words.

use std::collections::HashMap;

use modelhost_guest::{Result, internal};
use unicode_general_category::{GeneralCategory as Category, get_general_category};
use unicode_normalization::UnicodeNormalization as _;

/// A longer word is not looked at.
const LONGEST_WORD: usize = 100;

#[derive(Default)]
pub(crate) struct Tokenizer {
    numbers: HashMap<Box<str>, i64>,
    begin: i64,
    end: i64,
    unknown: i64,
    /// Characters of the longest piece.
    longest: usize,
}

impl Tokenizer {
    /// Of a vocabulary with a token a line.
    pub(crate) fn new(vocabulary: &str) -> Result<Tokenizer> {
        let numbers: HashMap<Box<str>, i64> = vocabulary.lines().map(Box::from).zip(0..).collect();
        let number = |token: &str| {
            numbers.get(token).copied().ok_or_else(|| internal(format!("the vocabulary has no `{token}`")))
        };
        let (begin, end, unknown) = (number("[CLS]")?, number("[SEP]")?, number("[UNK]")?);
        let longest = numbers.keys().map(|token| token.chars().count()).max().unwrap_or_default();
        Ok(Tokenizer { begin, end, unknown, longest, numbers })
    }

    /// Whether there is a token of this number.
    pub(crate) fn has(&self, token: i64) -> bool {
        usize::try_from(token).is_ok_and(|token| token < self.numbers.len())
    }

    /// The tokens of a text.
    pub(crate) fn tokens(&self, text: &str) -> Vec<i64> {
        let mut tokens = vec![self.begin];
        let mut word = String::new();
        for character in normalised(text) {
            let is_alone = is_punctuation(character);
            if is_alone || character.is_whitespace() {
                self.pieces(&word, &mut tokens);
                word.clear();
            }
            if is_alone {
                self.pieces(character.encode_utf8(&mut [0; 4]), &mut tokens);
            } else if !character.is_whitespace() {
                word.push(character);
            }
        }
        self.pieces(&word, &mut tokens);
        tokens.push(self.end);
        tokens
    }

    /// Adds the tokens of a word: the longest piece that it begins with, and so on.
    fn pieces(&self, word: &str, tokens: &mut Vec<i64>) {
        if word.is_empty() {
            return;
        }
        let ends: Vec<usize> = word.char_indices().map(|(at, it)| at + it.len_utf8()).collect();
        let (before, mut begin, mut done) = (tokens.len(), 0, 0);
        while begin < word.len() && ends.len() <= LONGEST_WORD {
            let prefix = if begin == 0 { "" } else { "##" };
            let candidates = ends.iter().enumerate().skip(done).take(self.longest);
            let found = candidates.rev().find_map(|(place, end)| {
                let piece = format!("{prefix}{}", word.get(begin..*end)?);
                Some((place + 1, *end, *self.numbers.get(piece.as_str())?))
            });
            let Some((place, end, number)) = found else { break };
            tokens.push(number);
            (done, begin) = (place, end);
        }
        if begin < word.len() {
            tokens.truncate(before);
            tokens.push(self.unknown);
        }
    }
}

/// A text without accents and control characters, in lower case; characters of Chinese stand by themselves.
fn normalised(text: &str) -> impl Iterator<Item = char> {
    let cleaned = text.chars().filter(|it| !is_control(*it));
    let apart = cleaned.flat_map(|it| if is_chinese(it) { [' ', it, ' '] } else { ['\0', it, '\0'] });
    let apart = apart.filter(|it| *it != '\0');
    let plain = apart.nfd().filter(|it| get_general_category(*it) != Category::NonspacingMark);
    plain.flat_map(char::to_lowercase)
}

fn is_control(character: char) -> bool {
    match character {
        '\t' | '\n' | '\r' => false,
        '\0' | '\u{fffd}' => true,
        _ => matches!(
            get_general_category(character),
            Category::Control | Category::Format | Category::PrivateUse | Category::Unassigned
        ),
    }
}

fn is_punctuation(character: char) -> bool {
    character.is_ascii_punctuation()
        || matches!(
            get_general_category(character),
            Category::ConnectorPunctuation
                | Category::DashPunctuation
                | Category::OpenPunctuation
                | Category::ClosePunctuation
                | Category::InitialPunctuation
                | Category::FinalPunctuation
                | Category::OtherPunctuation
        )
}

/// The blocks of ideographs that BERT's rules name.
fn is_chinese(character: char) -> bool {
    matches!(
        u32::from(character),
        0x4e00..=0x9fff
            | 0x3400..=0x4dbf
            | 0x20000..=0x2a6df
            | 0x2a700..=0x2b73f
            | 0x2b740..=0x2b81f
            | 0x2b920..=0x2ceaf
            | 0xf900..=0xfaff
            | 0x2f800..=0x2fa1f
    )
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const TOKENS: [&str; 15] = [
        "[PAD]", "[UNK]", "[CLS]", "[SEP]", "hello", "un", "##aff", "##able", "cafe", ",", "!", "中", "文",
        "?", "x",
    ];

    pub(crate) fn tokenizer() -> Tokenizer {
        Tokenizer::new(&TOKENS.join("\n")).unwrap()
    }

    #[test]
    fn texts_are_split_as_the_model_was_trained() {
        let tokenizer = tokenizer();
        let shown = |text: &str| {
            let tokens = tokenizer.tokens(text).into_iter();
            tokens.map(|token| TOKENS[token as usize]).collect::<Vec<_>>().join(" ")
        };
        let long = "x".repeat(101);
        for (text, expected) in [
            ("", "[CLS] [SEP]"),
            ("Hello, hello!", "[CLS] hello , hello ! [SEP]"),
            ("unaffable", "[CLS] un ##aff ##able [SEP]"),
            ("unaffables", "[CLS] [UNK] [SEP]"),
            ("CAFÉ\u{7}\u{200b}\tcafe\u{301}", "[CLS] cafe cafe [SEP]"),
            ("中文?", "[CLS] 中 文 ? [SEP]"),
            ("hello\u{a0}x\r\n", "[CLS] hello x [SEP]"),
            ("[CLS]", "[CLS] [UNK] [UNK] [UNK] [SEP]"),
            (&long, "[CLS] [UNK] [SEP]"),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
        assert!(tokenizer.has(14) && !tokenizer.has(15) && !tokenizer.has(-1));
        assert!(Tokenizer::new("a\nb").is_err());
    }
}
