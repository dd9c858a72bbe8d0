//! A `tokenizer.json`, as the crate `tokenizers` reads it.
//!
//! In:  texts. Out: rows of tokens, or the text of tokens.
//! Invariants: truncation and padding of the file are options of a call, so no call leaves any to the next
//! one; what is cut off is dropped before a pair is joined, since the crate would keep each piece of the one
//! with each of the other.

use std::cell::RefCell;

use tokenizers::{
    Encoding as Tokens, PaddingDirection, PaddingParams, PaddingStrategy, PostProcessor as _,
    PostProcessorWrapper, TruncationDirection, TruncationParams, TruncationStrategy,
};

use crate::bindings::exports::modelhost::tokenizer::tokenizers::{
    GuestTokenizer, Options, Tokenizer as Handle, Truncation, Unit,
};
use crate::lengths::{Strategy, lengths};
use crate::rows::{Filling, Row, encoding};
use crate::{Encoding, Error, Padding, has_memory};

/// Memory that a byte of text takes at most while its tokens are made: text, places of its bytes, tokens.
const BYTES_OF_A_BYTE: usize = 128;
/// Names of the token that fills rows, where the file says of none.
const FILLING: [&str; 2] = ["[PAD]", "<pad>"];

/// A file, taken apart into what each call puts together again.
pub struct Tokenizer {
    /// Without truncation, padding, and what is put around texts.
    tokens: RefCell<tokenizers::Tokenizer>,
    processor: Option<PostProcessorWrapper>,
    truncation: Option<TruncationParams>,
    padding: Option<PaddingParams>,
    filling: Filling,
}

impl GuestTokenizer for Tokenizer {
    fn load(json: Vec<u8>) -> Result<Handle, Error> {
        load(&json).map(Handle::new)
    }

    fn encode(&self, texts: Vec<String>, seconds: Vec<String>, options: Options) -> Result<Encoding, Error> {
        self.encoded(&texts, &seconds, &options)
    }

    fn decode(&self, ids: Vec<u32>, skip_special_tokens: bool) -> Result<String, Error> {
        let decoded = self.tokens.borrow().decode(&ids, skip_special_tokens);
        decoded.map_err(|error| Error::Text(error.to_string()))
    }

    fn id_of(&self, token: String) -> Option<u32> {
        self.tokens.borrow().token_to_id(&token)
    }

    fn token_of(&self, id: u32) -> Option<String> {
        self.tokens.borrow().id_to_token(id)
    }

    fn size(&self) -> u32 {
        u32::try_from(self.tokens.borrow().get_vocab_size(true)).unwrap_or(u32::MAX)
    }
}

fn load(json: &[u8]) -> Result<Tokenizer, Error> {
    let mut tokens = tokenizers::Tokenizer::from_bytes(json)
        .map_err(|error| Error::File(format!("no tokenizer.json that can be used: {error}")))?;
    let (truncation, padding) = (tokens.get_truncation().cloned(), tokens.get_padding().cloned());
    let processor = tokens.get_post_processor().cloned();
    drop(tokens.with_truncation(None));
    tokens.with_padding(None).with_post_processor(None::<PostProcessorWrapper>);
    let filling = match &padding {
        Some(padding) => Filling {
            id: padding.pad_id,
            kind: padding.pad_type_id,
            is_before: matches!(padding.direction, PaddingDirection::Left),
            multiple: padding.pad_to_multiple_of.unwrap_or(0),
        },
        None => Filling {
            id: FILLING.iter().find_map(|token| tokens.token_to_id(token)).unwrap_or(0),
            kind: 0,
            is_before: false,
            multiple: 0,
        },
    };
    Ok(Tokenizer { tokens: RefCell::new(tokens), processor, truncation, padding, filling })
}

/// What is cut off of texts that are too long.
struct Cut {
    /// Most tokens, without those that are put around texts.
    most: usize,
    strategy: Strategy,
    is_before: bool,
}

impl Tokenizer {
    fn encoded(&self, texts: &[String], seconds: &[String], options: &Options) -> Result<Encoding, Error> {
        let is_pair = !seconds.is_empty();
        if is_pair && seconds.len() != texts.len() {
            let text = format!("{} second texts for {} texts", seconds.len(), texts.len());
            return Err(Error::Options(text));
        }
        let params = self.truncation(options.truncation);
        let cut = params.as_ref().map(|params| self.cut(params, is_pair, options)).transpose()?;
        let padding = match options.padding {
            Padding::AsFile => match self.padding.as_ref().map(|padding| &padding.strategy) {
                Some(PaddingStrategy::Fixed(length)) => {
                    Padding::To(u32::try_from(*length).unwrap_or(u32::MAX))
                }
                Some(PaddingStrategy::BatchLongest) | None => Padding::Longest,
            },
            other => other,
        };
        let rows = texts.iter().enumerate().map(|(at, text)| {
            let second = seconds.get(at).map(String::as_str);
            self.row(text, second, options, params.as_ref(), cut.as_ref())
        });
        let rows: Vec<Row> = rows.collect::<Result<_, _>>()?;
        encoding(&rows, padding, self.filling, options.offsets.is_some())
    }

    fn truncation(&self, said: Truncation) -> Option<TruncationParams> {
        let of_file = self.truncation.clone();
        match said {
            Truncation::Off => None,
            Truncation::AsFile => of_file.map(|params| TruncationParams { stride: 0, ..params }),
            Truncation::To(most) => {
                Some(TruncationParams { max_length: most as usize, stride: 0, ..of_file.unwrap_or_default() })
            }
        }
    }

    fn cut(&self, params: &TruncationParams, is_pair: bool, options: &Options) -> Result<Cut, Error> {
        let around = match &self.processor {
            Some(processor) if options.special_tokens => processor.added_tokens(is_pair),
            _ => 0,
        };
        let length = params.max_length;
        let most = length.checked_sub(around).filter(|_| length > 0).ok_or_else(|| {
            Error::Options(format!("truncation to {length} tokens, {around} of which are special ones"))
        })?;
        Ok(Cut {
            most,
            strategy: match params.strategy {
                TruncationStrategy::LongestFirst => Strategy::LongestFirst,
                TruncationStrategy::OnlyFirst => Strategy::OnlyFirst,
                TruncationStrategy::OnlySecond => Strategy::OnlySecond,
            },
            is_before: matches!(params.direction, TruncationDirection::Left),
        })
    }

    /// The tokens of a text or of a pair.
    fn row(
        &self,
        text: &str,
        second: Option<&str>,
        options: &Options,
        params: Option<&TruncationParams>,
        cut: Option<&Cut>,
    ) -> Result<Row, Error> {
        // Of a pair it takes the whole of both to tell the longer one.
        let alone = params.filter(|_| second.is_none());
        let (mut first, length) = self.tokens_of(text, alone, options.offsets)?;
        let of_pair = |second| self.tokens_of(second, None, options.offsets);
        let mut second = second.map(of_pair).transpose()?;
        if let Some(cut) = cut {
            let of_second = second.as_ref().map(|(_, length)| *length);
            let (stays, stays_of_second) = lengths(length, of_second, cut.most, cut.strategy)?;
            shorten(&mut first, stays, cut.is_before);
            if let Some((tokens, _)) = &mut second {
                shorten(tokens, stays_of_second, cut.is_before);
            }
        }
        let joined = self.joined(first, second.map(|(tokens, _)| tokens), options.special_tokens)?;
        Ok(Row {
            ids: joined.get_ids().to_vec(),
            types: joined.get_type_ids().to_vec(),
            offsets: if options.offsets.is_some() { joined.get_offsets().to_vec() } else { Vec::new() },
        })
    }

    /// A text's tokens, no more than truncation leaves, and how many were found: at least one more if there
    /// are more.
    fn tokens_of(
        &self,
        text: &str,
        truncation: Option<&TruncationParams>,
        offsets: Option<Unit>,
    ) -> Result<(Tokens, usize), Error> {
        if !text.len().checked_mul(BYTES_OF_A_BYTE).is_some_and(has_memory) {
            return Err(Error::Text(format!("no memory for a text of {} bytes", text.len())));
        }
        let failed = |error: tokenizers::Error| Error::Text(error.to_string());
        // What is said of pairs would be an error.
        let truncation = truncation
            .map(|params| TruncationParams { strategy: TruncationStrategy::LongestFirst, ..params.clone() });
        let mut tokenizer = self.tokens.borrow_mut();
        tokenizer.with_truncation(truncation).map_err(failed)?;
        let tokens = match offsets {
            None => tokenizer.encode_fast(text, false),
            // The crate's own conversion to characters hashes the place of each byte.
            Some(_) => tokenizer.encode(text, false),
        };
        let mut tokens = tokens.map_err(failed)?;
        let beyond: usize = tokens.take_overflowing().iter().map(Tokens::len).sum();
        if let Some(unit) = offsets.filter(|unit| *unit != Unit::Bytes && !text.is_ascii()) {
            count_in(unit, text, tokens.get_offsets_mut());
        }
        let length = tokens.len() + beyond;
        Ok((tokens, length))
    }

    /// With what the model expects around texts.
    fn joined(&self, first: Tokens, second: Option<Tokens>, special_tokens: bool) -> Result<Tokens, Error> {
        let joined = match &self.processor {
            Some(processor) => processor.process(first, second, special_tokens),
            None => Ok(match second {
                None => first,
                Some(mut second) => {
                    second.set_type_ids(vec![1; second.len()]);
                    let mut both = first;
                    both.merge_with(second, false);
                    both
                }
            }),
        };
        joined.map_err(|error| Error::Text(error.to_string()))
    }
}

/// Leaves the last tokens or the first ones.
fn shorten(tokens: &mut Tokens, length: usize, is_before: bool) {
    let Some(excess) = tokens.len().checked_sub(length).filter(|excess| *excess > 0) else { return };
    let range = if is_before { excess..tokens.len() } else { 0..length };
    *tokens = Tokens::new(
        part(tokens.get_ids(), &range),
        part(tokens.get_type_ids(), &range),
        part(tokens.get_tokens(), &range),
        part(tokens.get_word_ids(), &range),
        part(tokens.get_offsets(), &range),
        part(tokens.get_special_tokens_mask(), &range),
        part(tokens.get_attention_mask(), &range),
        Vec::new(),
        Default::default(),
    );
}

fn part<T: Clone>(values: &[T], range: &std::ops::Range<usize>) -> Vec<T> {
    values.get(range.clone()).unwrap_or_default().to_vec()
}

/// Places in a text, counted in bytes, in another unit; within a character it is the place of its start.
fn count_in(unit: Unit, text: &str, offsets: &mut [(usize, usize)]) {
    let mut places: Vec<usize> = Vec::with_capacity(text.len());
    let mut place = 0;
    for character in text.chars() {
        places.extend(std::iter::repeat_n(place, character.len_utf8()));
        place += if unit == Unit::Utf16 { character.len_utf16() } else { 1 };
    }
    let counted = |byte: usize| places.get(byte).copied().unwrap_or(place);
    for (begin, end) in offsets {
        (*begin, *end) = (counted(*begin), counted(*end));
    }
}
