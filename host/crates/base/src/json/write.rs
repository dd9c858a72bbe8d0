//! Tensors as JSON: the model's outputs as the response where the handler has no `post-inference`, and every
//! protocol's values.
//!
//! Flow: `infer → verify → [write] → respond`.
//! In:   verified tensors.
//! Out:  a JSON list with one nested list per output, an object, or a value within a larger document.
//!
//! Numbers are written with as few digits as give the same value back at their own width; FP16 and BF16 count
//! as FP32. NaN and infinities, which JSON does not have, become `null`. BYTES become strings, or
//! `{"b64": "…"}` where they are not UTF-8, as in TensorFlow Serving's JSON: nothing is lost.
//!
//! A tensor without elements is `[]` for every shape: `[1099511627776, 0]` would be a terabyte of brackets.
//!
//! Invariant: the result is valid JSON, of a length in proportion to the tensors' data. It is written
//! straight from their bytes into one buffer.

use std::io;

use half::{bf16, f16};
use serde::ser::{Error, Serialize, SerializeMap, Serializer};

use super::base64::Base64;
use crate::tensor::{BytesElements, Datatype, Tensor};

/// Writes `outputs` as JSON.
pub fn outputs(outputs: &[Tensor]) -> Vec<u8> {
    // Cannot fail: a `Vec` takes everything, and verified BYTES can be read.
    serde_json::to_vec(&Outputs(outputs)).unwrap_or_default()
}

/// Writes `tensors` as an object, a key each; one of shape `[1]` as its bare element, as Inferless hands it
/// to a handler.
pub fn object(tensors: &[Tensor]) -> Vec<u8> {
    // Cannot fail, as above.
    serde_json::to_vec(&Object(tensors)).unwrap_or_default()
}

/// [`object`], if it is no longer than `limit`. A byte of BOOL takes six in JSON.
pub fn object_within(tensors: &[Tensor], limit: usize) -> Option<Vec<u8>> {
    let mut limited = Limited { json: Vec::new(), left: limit };
    serde_json::to_writer(&mut limited, &Object(tensors)).ok()?;
    Some(limited.json)
}

/// Most bytes of tensors as JSON, about: what is longer is so by its names and shapes.
pub fn most(tensors: &[Tensor]) -> usize {
    let most = |tensor: &Tensor| {
        // `false,`, `-128,`, `-0.00006103515625,`, a text of escapes: by the bytes of an element.
        let factor = match tensor.datatype {
            Datatype::Bool | Datatype::Uint8 | Datatype::Int8 => 6,
            Datatype::Bytes | Datatype::Fp16 | Datatype::Bf16 => 8,
            _ => 4,
        };
        tensor.data.len().saturating_mul(factor)
    };
    tensors.iter().map(most).fold(0, usize::saturating_add)
}

/// Takes so many bytes and no more.
struct Limited {
    json: Vec<u8>,
    left: usize,
}

impl io::Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.left = self.left.checked_sub(bytes.len()).ok_or(io::ErrorKind::FileTooLarge)?;
        self.json.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Object<'a>(&'a [Tensor]);

impl Serialize for Object<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|tensor| {
            let shape: &[u64] = if tensor.shape == [1] { &[] } else { &tensor.shape };
            (&*tensor.name, Shaped { tensor, shape })
        }))
    }
}

struct Outputs<'a>(&'a [Tensor]);

impl Serialize for Outputs<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(Nested))
    }
}

/// A tensor's elements as lists nested by its shape.
pub struct Nested<'a>(pub &'a Tensor);

impl Serialize for Nested<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Shaped { tensor: self.0, shape: &self.0.shape }.serialize(serializer)
    }
}

/// A tensor's elements as one list, row-major.
pub struct Flat<'a>(pub &'a Tensor);

impl Serialize for Flat<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Shaped { tensor: self.0, shape: &[self.0.elements() as u64] }.serialize(serializer)
    }
}

/// A tensor's elements as lists nested by a shape of as many elements.
struct Shaped<'a> {
    tensor: &'a Tensor,
    shape: &'a [u64],
}

impl Serialize for Shaped<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let tensor = self.tensor;
        match tensor.datatype {
            Datatype::Bool => numbers(self, |[byte]| byte != 0, to),
            Datatype::Uint8 => numbers(self, u8::from_le_bytes, to),
            Datatype::Uint16 => numbers(self, u16::from_le_bytes, to),
            Datatype::Uint32 => numbers(self, u32::from_le_bytes, to),
            Datatype::Uint64 => numbers(self, u64::from_le_bytes, to),
            Datatype::Int8 => numbers(self, i8::from_le_bytes, to),
            Datatype::Int16 => numbers(self, i16::from_le_bytes, to),
            Datatype::Int32 => numbers(self, i32::from_le_bytes, to),
            Datatype::Int64 => numbers(self, i64::from_le_bytes, to),
            Datatype::Fp16 => numbers(self, |bytes| f16::from_le_bytes(bytes).to_f32(), to),
            Datatype::Bf16 => numbers(self, |bytes| bf16::from_le_bytes(bytes).to_f32(), to),
            Datatype::Fp32 => numbers(self, f32::from_le_bytes, to),
            Datatype::Fp64 => numbers(self, f64::from_le_bytes, to),
            Datatype::Bytes => {
                let elements = BytesElements::new(&tensor.data).collect::<Result<Vec<_>, _>>();
                let elements = elements.map_err(S::Error::custom)?;
                Lists { shape: self.shape, elements: &elements, decode: |bytes| Text(bytes) }.serialize(to)
            }
        }
    }
}

/// Elements of `N` bytes each.
fn numbers<const N: usize, T: Serialize, S: Serializer>(
    of: &Shaped<'_>,
    decode: impl Fn([u8; N]) -> T + Copy,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let (elements, _) = of.tensor.data.as_chunks::<N>();
    Lists { shape: of.shape, elements, decode }.serialize(serializer)
}

/// `elements` as lists nested by `shape`: the bare element if that is empty.
struct Lists<'a, E, F> {
    shape: &'a [u64],
    elements: &'a [E],
    decode: F,
}

impl<E: Copy, T: Serialize, F: Fn(E) -> T + Copy> Serialize for Lists<'_, E, F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match (self.elements, self.shape) {
            ([], _) => serializer.collect_seq([(); 0]),
            ([element, ..], []) => (self.decode)(*element).serialize(serializer),
            (elements, [_]) => serializer.collect_seq(elements.iter().map(|element| (self.decode)(*element))),
            (elements, [rows, shape @ ..]) => {
                let rows = usize::try_from(*rows).map_err(S::Error::custom)?;
                let width = elements.len().checked_div(rows).unwrap_or(0).max(1);
                let nested = |elements| Lists { shape, elements, decode: self.decode };
                serializer.collect_seq(elements.chunks(width).map(nested))
            }
        }
    }
}

/// One element of BYTES.
pub(super) struct Text<'a>(pub(super) &'a [u8]);

impl Serialize for Text<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match str::from_utf8(self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => {
                let mut object = serializer.serialize_map(Some(1))?;
                object.serialize_entry("b64", &format_args!("{}", Base64(self.0)))?;
                object.end()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::read;
    use crate::tensor::push_bytes_element;

    fn check(datatype: Datatype, shape: &[u64], data: Vec<u8>, expected: &str) {
        let tensor = Tensor::new("y".into(), datatype, shape.to_vec(), data.into()).unwrap();
        let json = String::from_utf8(outputs(&[tensor])).unwrap();
        assert_eq!(json, format!("[{expected}]"));
        serde_json::from_str::<serde::de::IgnoredAny>(&json).unwrap();
    }

    fn floats(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    fn texts(values: &[&[u8]]) -> Vec<u8> {
        let mut data = Vec::new();
        assert!(values.iter().all(|value| push_bytes_element(&mut data, value)));
        data
    }

    #[test]
    fn neither_json_nor_tensors_are_longer_than_is_taken_for_them() {
        for (json, datatype) in [
            ("[1,2,3,4]", Datatype::Int64),
            ("[[1,2],[3,4]]", Datatype::Fp64),
            ("[\"\",\"\",\"\"]", Datatype::Bytes),
            ("[1,2,3]", Datatype::Bytes),
            ("\"a longer text, with a comma\"", Datatype::Bytes),
            ("7", Datatype::Fp64),
            ("[]", Datatype::Fp32),
        ] {
            let made = read::tensor(json, &"x".into(), datatype).unwrap();
            assert!(made.data.len() <= read::most(json.as_bytes()), "{json}: {}", made.data.len());
        }
        let longest: [(Datatype, &[u8]); 8] = [
            (Datatype::Bool, &[0]),
            (Datatype::Int8, &[128]),
            (Datatype::Int16, &[0, 128]),
            (Datatype::Fp16, &[1, 128]),
            (Datatype::Bf16, &[1, 128]),
            (Datatype::Fp32, &[1, 0, 128, 128]),
            (Datatype::Fp64, &[1, 0, 0, 0, 0, 0, 16, 128]),
            (Datatype::Bytes, &[2, 0, 0, 0, 1, 1]),
        ];
        for (datatype, element) in longest {
            let data = element.repeat(1000);
            let tensor = Tensor { name: "x".into(), datatype, shape: vec![1000], data: data.into() };
            let (most, json) = (most(std::slice::from_ref(&tensor)), outputs(&[tensor]));
            // Two brackets on each side.
            assert!(json.len() <= most + 4, "{datatype}: {} of {most}", json.len());
        }
    }

    #[test]
    fn outputs_come_in_model_order() {
        let label = Tensor::new("label".into(), Datatype::Int64, vec![1], vec![0; 8].into()).unwrap();
        let data = floats(&[0.9819308, 0.0180693, 1.737e-8]).into();
        let probabilities = Tensor::new("p".into(), Datatype::Fp32, vec![1, 3], data).unwrap();
        let json = outputs(&[label, probabilities]);
        assert_eq!(str::from_utf8(&json).unwrap(), "[[0],[[0.9819308,0.0180693,1.737e-8]]]");
        assert_eq!(outputs(&[]), b"[]");
    }

    #[test]
    fn objects_have_scalars_and_flat_lists_no_shape() {
        let tensor = |name: &str, shape: &[u64], data: Vec<u8>| {
            Tensor::new(name.into(), Datatype::Uint8, shape.to_vec(), data.into()).unwrap()
        };
        let tensors = [tensor("n", &[1], vec![3]), tensor("m", &[2, 1], vec![1, 2])];
        assert_eq!(str::from_utf8(&object(&tensors)).unwrap(), r#"{"n":3,"m":[[1],[2]]}"#);
        assert_eq!(object_within(&tensors, 21).as_deref(), Some(&object(&tensors)[..]));
        assert_eq!(object_within(&tensors, 20), None);
        let flat = |tensor: &Tensor| serde_json::to_string(&Flat(tensor)).unwrap();
        assert_eq!(flat(&tensors[1]), "[1,2]");
        assert_eq!(flat(&tensor("s", &[], vec![3])), "[3]");
        assert_eq!(flat(&tensor("e", &[0, 4], vec![])), "[]");
    }

    #[test]
    fn every_datatype_at_its_extremes() {
        check(Datatype::Bool, &[2], vec![0, 1], "[false,true]");
        check(Datatype::Uint8, &[2], vec![0, 255], "[0,255]");
        check(Datatype::Uint16, &[1], vec![255, 255], "[65535]");
        check(Datatype::Uint32, &[1], vec![255; 4], "[4294967295]");
        check(Datatype::Uint64, &[1], vec![255; 8], "[18446744073709551615]");
        check(Datatype::Int8, &[1], vec![128], "[-128]");
        check(Datatype::Int16, &[1], i16::MIN.to_le_bytes().into(), "[-32768]");
        check(Datatype::Int32, &[1], i32::MIN.to_le_bytes().into(), "[-2147483648]");
        check(Datatype::Int64, &[1], i64::MIN.to_le_bytes().into(), "[-9223372036854775808]");
        check(Datatype::Fp16, &[2], vec![0x66, 0x2e, 0x00, 0x7c], "[0.099975586,null]");
        check(Datatype::Bf16, &[2], vec![0xcd, 0x3d, 0xc0, 0x7f], "[0.100097656,null]");
        let values = [0.1, 4.0, -0.0, f32::MAX, f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
        check(Datatype::Fp32, &[7], floats(&values), "[0.1,4.0,-0.0,3.4028235e+38,null,null,null]");
        check(Datatype::Fp64, &[1], 0.1f64.to_le_bytes().into(), "[0.1]");
    }

    #[test]
    fn shapes_nest() {
        check(Datatype::Uint8, &[], vec![7], "7");
        check(Datatype::Uint8, &[1, 1], vec![7], "[[7]]");
        check(Datatype::Uint8, &[2, 3], vec![1, 2, 3, 4, 5, 6], "[[1,2,3],[4,5,6]]");
        check(Datatype::Uint8, &[2, 1, 2], vec![1, 2, 3, 4], "[[[1,2]],[[3,4]]]");
        check(Datatype::Uint8, &[0], vec![], "[]");
        check(Datatype::Uint8, &[2, 0], vec![], "[]");
        check(Datatype::Uint8, &[1 << 40, 0], vec![], "[]");
        check(Datatype::Bytes, &[2, 1], texts(&[b"a", b"b"]), r#"[["a"],["b"]]"#);
    }

    #[test]
    fn bytes_are_text_or_base64() {
        check(Datatype::Bytes, &[2], texts(&["hé\"\n".as_bytes(), b""]), r#"["hé\"\n",""]"#);
        for (bytes, expected) in [
            (&b"\xff"[..], "/w=="),
            (b"\xff\xfe", "//4="),
            (b"\xff\xfe\xfd", "//79"),
            (b"\xff\xfe\xfd\x00", "//79AA=="),
        ] {
            check(Datatype::Bytes, &[], texts(&[bytes]), &format!(r#"{{"b64":"{expected}"}}"#));
        }
    }
}
