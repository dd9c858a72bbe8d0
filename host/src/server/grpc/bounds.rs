//! What a message may unfold to, counted before it is made.
//!
//! Place in the flow: inside [`codec`](super::codec), before a message is decoded.
//! In: encoded bytes, hostile, and the table of the fields of their message that unfold. Out: whether they
//! may be decoded.
//! Invariant: two bytes on the wire can be an input without a name, which takes hundreds in memory. So what
//! unfolds is counted: at most so many fields of a message, and [`MOST_TEXTS`] texts. What is left unfolds to
//! eight times its length at most (integers of one byte each).

/// Fields of a message of tensors, extents of shapes included.
pub(super) const MOST_FIELDS: usize = 10_000;
/// How many times its length a message may unfold to.
pub(super) const UNFOLDED: usize = 8;
/// Texts that come one by one, in fields of their own.
const MOST_TEXTS: usize = 1 << 20;

/// The bounds of one kind of message.
pub(super) struct Bounds {
    /// Most fields of it.
    pub fields: usize,
    /// The name of its fields in a refusal.
    pub fields_are: &'static str,
    /// The name of its texts in a refusal.
    pub texts_are: &'static str,
    /// The fields of it that unfold, by their numbers.
    pub unfolding: Table,
}

/// Fields by number. One that is not listed has no parts.
pub(super) type Table = &'static [(u64, Parts)];

/// The parts of a field that has a length.
pub(super) enum Parts {
    /// A message: each field of it counts.
    Fields(Table),
    /// A message of values: of its fields only those that are listed count.
    Values(Table),
    /// Integers without a field each.
    Packed,
    /// A text.
    Text,
}

/// Fields and texts so far.
#[derive(Default)]
struct Count {
    fields: usize,
    texts: usize,
}

impl Bounds {
    /// Counts a message's fields. What cannot be walked through to its end is refused: the decoder may see
    /// more in it than this.
    pub(super) fn check(&self, message: &[u8]) -> Result<(), String> {
        self.walk(message, self.unfolding, true, &mut Count::default())
    }

    fn walk(&self, message: &[u8], table: Table, all: bool, count: &mut Count) -> Result<(), String> {
        let mut fields = Fields(message);
        for (number, value) in fields.by_ref() {
            let parts = table.iter().find(|(listed, _)| *listed == number).map(|(_, parts)| parts);
            match parts {
                None => count.fields += usize::from(all),
                Some(Parts::Packed) => count.fields += value.len().max(1),
                Some(Parts::Text) => count.texts += 1,
                Some(Parts::Fields(_) | Parts::Values(_)) => count.fields += 1,
            }
            self.within(count)?;
            match parts {
                Some(Parts::Fields(table)) => self.walk(value, table, true, count)?,
                Some(Parts::Values(table)) => self.walk(value, table, false, count)?,
                None | Some(Parts::Packed | Parts::Text) => {}
            }
        }
        if fields.0.is_empty() { Ok(()) } else { Err("the message cannot be read".to_owned()) }
    }

    fn within(&self, count: &Count) -> Result<(), String> {
        let Bounds { fields, fields_are, texts_are, .. } = self;
        if count.fields > *fields {
            return Err(format!("the message has more than {fields} {fields_are}"));
        }
        if count.texts > MOST_TEXTS {
            return Err(format!("the message has more than {MOST_TEXTS} {texts_are}"));
        }
        Ok(())
    }
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

    use tonic_prost::prost::Message as _;

    use super::super::codec::RequestMessage as _;
    use super::super::pb::model_infer_request::{InferInputTensor, InferRequestedOutputTensor};
    use super::super::pb::{InferParameter, InferTensorContents, ModelInferRequest};
    use super::*;

    fn check(message: &[u8]) -> Result<(), String> {
        ModelInferRequest::BOUNDS.check(message)
    }

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
        assert_eq!(refusal, "the message has more than 1048576 elements of `bytes_contents`");
    }

    #[test]
    fn messages_of_tensorflow_serving_are_counted_by_their_own_tables() {
        use super::super::tensorflow::pb::serving::input::Kind;
        use super::super::tensorflow::pb::serving::{
            ClassificationRequest, ExampleList, Input, PredictRequest,
        };
        use super::super::tensorflow::pb::tensor_shape_proto::Dim;
        use super::super::tensorflow::pb::{Example, TensorProto, TensorShapeProto};

        let tensor = |extents: usize, texts: usize| {
            let shape = TensorShapeProto { dim: vec![Dim::default(); extents], unknown_rank: false };
            let tensor = TensorProto {
                tensor_shape: Some(shape),
                string_val: vec![bytes::Bytes::new(); texts],
                float_val: vec![1.0; 100_000],
                ..TensorProto::default()
            };
            let inputs = BTreeMap::from([("x".to_owned(), tensor)]);
            let message = PredictRequest { inputs, ..PredictRequest::default() };
            PredictRequest::BOUNDS.check(&message.encode_to_vec())
        };
        // The entry, its key and value, the shape.
        assert_eq!(tensor(MOST_FIELDS - 4, MOST_TEXTS), Ok(()));
        let fields = "the message has more than 10000 inputs, outputs and extents";
        assert_eq!(tensor(MOST_FIELDS - 3, 0).unwrap_err(), fields);
        let texts = "the message has more than 1048576 elements of `string_val`";
        assert_eq!(tensor(1, MOST_TEXTS + 1).unwrap_err(), texts);

        let examples = |count: usize| {
            let list = ExampleList { examples: vec![Example::default(); count] };
            let input = Some(Input { kind: Some(Kind::ExampleList(list)) });
            let message = ClassificationRequest { input, ..ClassificationRequest::default() };
            ClassificationRequest::BOUNDS.check(&message.encode_to_vec())
        };
        // The input and the list.
        assert_eq!(examples((1 << 18) - 2), Ok(()));
        let fields = "the message has more than 262144 examples, features and parts of them";
        assert_eq!(examples((1 << 18) - 1).unwrap_err(), fields);
    }
}
