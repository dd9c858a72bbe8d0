//! Protobuf with a bound on what a message may unfold to.
//!
//! Place in the flow: `intake → [codec] → method`.
//! In:   a message of at most so many bytes, hostile. Out: a Rust value.
//! Invariant: two bytes on the wire can be an input without a name, which takes hundreds in memory. So fields
//! are counted before they are made: at most [`MOST_FIELDS`] of a message and its inputs, and [`MOST_TEXTS`]
//! elements of `bytes_contents`. What is left unfolds to eight times its length at most (integers of one byte
//! each). Long messages are read and written off the threads that serve requests.

use std::marker::PhantomData;

use bytes::Buf as _;
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic_prost::prost::Message;
use tonic_prost::{ProstCodec, ProstDecoder, ProstEncoder};

use super::failure;
use crate::blocking;
use crate::error::{RequestError, Stage};

/// Fields of a message and of its inputs, extents of shapes included.
const MOST_FIELDS: usize = 10_000;
/// BYTES that come one by one; as raw contents there may be any number.
const MOST_TEXTS: usize = 1 << 20;

// Numbers of fields, see `host/proto/open_inference.proto`. No other request has fields of these numbers.
const INPUTS: u64 = 5;
const OUTPUTS: u64 = 6;
const SHAPE: u64 = 3;
const CONTENTS: u64 = 5;
const BYTES_CONTENTS: u64 = 8;

/// The codec of every method; `build.rs` names it.
pub(super) struct Bounded<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for Bounded<T, U> {
    fn default() -> Self {
        Bounded(PhantomData)
    }
}

impl<T, U> Codec for Bounded<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = OffWorker<T>;
    type Decoder = BoundedDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        OffWorker(ProstCodec::<T, U>::default().encoder())
    }

    fn decoder(&mut self) -> Self::Decoder {
        BoundedDecoder(ProstCodec::<T, U>::default().decoder())
    }
}

/// Encodes, a long message not as one of the runtime's workers.
pub(super) struct OffWorker<T>(ProstEncoder<T>);

impl<T: Message> Encoder for OffWorker<T> {
    type Item = T;
    type Error = Status;

    fn encode(&mut self, message: T, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        blocking::if_much_copied(message.encoded_len(), || self.0.encode(message, buffer))
    }

    fn buffer_settings(&self) -> BufferSettings {
        self.0.buffer_settings()
    }
}

/// Counts, then decodes.
pub(super) struct BoundedDecoder<U>(ProstDecoder<U>);

impl<U: Message + Default> Decoder for BoundedDecoder<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        // A message lies in one piece.
        blocking::if_large(buffer.remaining(), || {
            check(buffer.chunk())
                .map_err(|text| failure::refused(&RequestError::invalid(Stage::Admit, text)))?;
            self.0.decode(buffer)
        })
    }

    fn buffer_settings(&self) -> BufferSettings {
        self.0.buffer_settings()
    }
}

/// Counts a message's fields. What cannot be walked through to its end is refused: the decoder may see more
/// in it than this.
pub(super) fn check(message: &[u8]) -> Result<(), String> {
    let (mut fields, mut texts) = (0usize, 0usize);
    each(message, |number, value| {
        fields += 1;
        match number {
            INPUTS => each(value, |number, value| {
                // Packed extents have no field of their own.
                fields += if number == SHAPE { value.len().max(1) } else { 1 };
                if number == CONTENTS {
                    each(value, |number, _| {
                        texts += usize::from(number == BYTES_CONTENTS);
                        Ok(())
                    })?;
                }
                within(fields, texts)
            })?,
            OUTPUTS => each(value, |_, _| {
                fields += 1;
                within(fields, texts)
            })?,
            _ => {}
        }
        within(fields, texts)
    })
}

fn within(fields: usize, texts: usize) -> Result<(), String> {
    if fields > MOST_FIELDS {
        return Err(format!(
            "the message has more than {MOST_FIELDS} inputs, outputs, parameters and extents"
        ));
    }
    if texts > MOST_TEXTS {
        let text = "elements of `bytes_contents`; more come in `raw_input_contents`";
        return Err(format!("the message has more than {MOST_TEXTS} {text}"));
    }
    Ok(())
}

/// Shows every field of an encoded message.
fn each(message: &[u8], mut see: impl FnMut(u64, &[u8]) -> Result<(), String>) -> Result<(), String> {
    let mut fields = Fields(message);
    for (number, value) in fields.by_ref() {
        see(number, value)?;
    }
    if fields.0.is_empty() { Ok(()) } else { Err("the message cannot be read".to_owned()) }
}

/// The fields of an encoded message: number and, if it has a length, value. Ends before its bytes do where
/// the encoding is broken, or has a group, which no client has sent for a decade and which decoders skip.
struct Fields<'a>(&'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = (u64, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let tag = self.varint()?;
        let length = match tag & 7 {
            0 => {
                self.varint()?;
                0
            }
            1 => {
                self.take(8)?;
                0
            }
            2 => usize::try_from(self.varint()?).ok()?,
            5 => {
                self.take(4)?;
                0
            }
            _ => return None,
        };
        Some((tag >> 3, self.take(length)?))
    }
}

impl<'a> Fields<'a> {
    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (first, rest) = self.0.split_first()?;
            self.0 = rest;
            value |= u64::from(first & 0x7f) << shift;
            if first & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::pb::model_infer_request::{InferInputTensor, InferRequestedOutputTensor};
    use super::super::pb::{InferParameter, InferTensorContents, ModelInferRequest};
    use super::*;

    fn verdict(inputs: Vec<InferInputTensor>) -> Result<(), String> {
        let message = ModelInferRequest {
            model_name: "m".to_owned(),
            parameters: BTreeMap::from([("p".to_owned(), InferParameter::default())]),
            inputs,
            raw_input_contents: vec![vec![0; 100_000].into()],
            ..ModelInferRequest::default()
        };
        check(&message.encode_to_vec())
    }

    #[test]
    fn what_unfolds_to_little_is_let_through() {
        let contents = InferTensorContents {
            fp32_contents: vec![1.0; 100_000],
            int64_contents: vec![-1; 100_000],
            bytes_contents: vec![vec![1].into(); MOST_TEXTS],
            ..InferTensorContents::default()
        };
        let input = InferInputTensor {
            name: "x".to_owned(),
            shape: vec![1; 32],
            contents: Some(contents),
            ..InferInputTensor::default()
        };
        assert_eq!(verdict(vec![input]), Ok(()));
        assert_eq!(verdict(vec![InferInputTensor::default(); MOST_FIELDS - 3]), Ok(()));
        assert_eq!(check(&[]), Ok(()));
    }

    #[test]
    fn what_cannot_be_walked_through_is_refused() {
        // The last three hold groups, behind which a decoder goes on: in a message, an input, its contents.
        for broken in [
            &[0xff; 20][..],
            &[0x2a, 0x7f, 0x00],
            &[0x07, 0x00],
            &[0x7b, 0x7c, 0x2a, 0x00],
            &[0x2a, 0x04, 0x7b, 0x7c, 0x0a, 0x00],
            &[0x2a, 0x06, 0x2a, 0x04, 0x7b, 0x7c, 0x42, 0x00],
        ] {
            assert_eq!(check(broken).unwrap_err(), "the message cannot be read", "{broken:x?}");
        }
    }

    #[test]
    fn what_unfolds_to_much_is_refused() {
        let input = InferInputTensor::default;
        let fields = "the message has more than 10000 inputs, outputs, parameters and extents";
        assert_eq!(verdict(vec![input(); MOST_FIELDS]).unwrap_err(), fields);
        let parameters: BTreeMap<_, _> =
            (0..MOST_FIELDS).map(|n| (n.to_string(), InferParameter::default())).collect();
        assert_eq!(verdict(vec![InferInputTensor { parameters, ..input() }]).unwrap_err(), fields);
        let outputs = vec![InferRequestedOutputTensor {
            parameters: (0..MOST_FIELDS).map(|n| (n.to_string(), InferParameter::default())).collect(),
            ..InferRequestedOutputTensor::default()
        }];
        let message = ModelInferRequest { outputs, ..ModelInferRequest::default() };
        assert_eq!(check(&message.encode_to_vec()).unwrap_err(), fields);
        let shape = vec![1; MOST_FIELDS];
        assert_eq!(verdict(vec![InferInputTensor { shape, ..input() }]).unwrap_err(), fields);
        let contents = Some(InferTensorContents {
            bytes_contents: vec![bytes::Bytes::new(); MOST_TEXTS + 1],
            ..InferTensorContents::default()
        });
        let refusal = verdict(vec![InferInputTensor { contents, ..input() }]).unwrap_err();
        assert_eq!(
            refusal,
            "the message has more than 1048576 elements of `bytes_contents`; more come in `raw_input_contents`"
        );
    }
}
