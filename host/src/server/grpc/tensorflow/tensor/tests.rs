//! Tests of tensors both ways; what a client's own library sends is in `tests/it/tf_serving.rs`.

use super::*;
use crate::error::Code;

const LIMIT: usize = 1 << 20;

fn proto(data_type: DataType, extents: &[i64]) -> TensorProto {
    TensorProto {
        dtype: data_type.into(),
        tensor_shape: shape_of(extents.iter().copied()),
        ..TensorProto::default()
    }
}

fn read(proto: TensorProto) -> Result<Tensor, RequestError> {
    let mut tensors = inputs(BTreeMap::from([("x".to_owned(), proto)]), LIMIT)?;
    Ok(tensors.remove(0))
}

#[test]
fn every_datatype_is_written_as_it_is_read() {
    for datatype in Datatype::ALL {
        let data = match datatype.size() {
            Some(size) => vec![1; 2 * size],
            None => texts(&[Bytes::from_static(b"a"), Bytes::new()]).unwrap(),
        };
        let tensor = Tensor::new("x".into(), datatype, vec![1, 2], data.into()).unwrap();
        let written = written(&tensor);
        assert!(written.tensor_content.is_empty());
        assert_eq!(lengths(&written).iter().map(|(_, length)| length).sum::<usize>(), 2, "{datatype}");
        assert_eq!(read(written).unwrap(), tensor, "{datatype}");
    }
}

#[test]
fn content_of_numbers_is_not_copied() {
    let content = Bytes::from(vec![0; 8]);
    let given = TensorProto { tensor_content: content.clone(), ..proto(DataType::DtFloat, &[2]) };
    assert_eq!(read(given).unwrap().data.as_ptr(), content.as_ptr());
}

#[test]
fn a_tensor_without_a_shape_is_a_scalar() {
    let given = TensorProto { tensor_shape: None, ..proto(DataType::DtInt64, &[]) };
    let scalar = read(TensorProto { int64_val: vec![7], ..given }).unwrap();
    assert_eq!((scalar.shape.as_slice(), &*scalar.data), (&[][..], &7_i64.to_le_bytes()[..]));
}

#[test]
fn what_a_few_values_stand_for_is_bounded_before_it_is_made() {
    for (given, is_within) in [
        (proto(DataType::DtFloat, &[1 << 18]), true),
        (proto(DataType::DtFloat, &[(1 << 18) + 1]), false),
        (proto(DataType::DtString, &[1 << 18]), true),
        (proto(DataType::DtString, &[(1 << 18) + 1]), false),
        (proto(DataType::DtString, &[i64::MAX]), false),
    ] {
        match read(given) {
            Ok(_) => assert!(is_within),
            Err(error) => assert_eq!((error.code, is_within), (Code::BodyTooLarge, false)),
        }
    }
}

#[test]
fn lengths_of_strings_have_at_most_32_bits() {
    let varint_of = |bytes: &'static [u8]| varint(&mut Bytes::from_static(bytes));
    assert_eq!(varint_of(&[0xff, 0xff, 0xff, 0xff, 0x0f]), Some(u32::MAX as usize));
    for broken in [&[][..], &[0x80], &[0xff, 0xff, 0xff, 0xff, 0x10], &[0xff; 6]] {
        assert_eq!(varint_of(broken), None, "{broken:x?}");
    }
}
