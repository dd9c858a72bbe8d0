//! The library against NumPy: each case of `cases.json`, which `make.py` has written; and tensors that do not
//! fit.

use serde_json::Value;

use super::*;

/// Most that a computed value may differ from NumPy's, which are of 64 bits until they are rounded.
const TOLERANCE: f64 = 1e-6;

fn datatype(name: &str) -> Datatype {
    match name {
        "BOOL" => Datatype::Boolean,
        "UINT8" => Datatype::Uint8,
        "UINT16" => Datatype::Uint16,
        "UINT32" => Datatype::Uint32,
        "UINT64" => Datatype::Uint64,
        "INT8" => Datatype::Int8,
        "INT16" => Datatype::Int16,
        "INT32" => Datatype::Int32,
        "INT64" => Datatype::Int64,
        "FP16" => Datatype::Fp16,
        "FP32" => Datatype::Fp32,
        "FP64" => Datatype::Fp64,
        other => panic!("{other}"),
    }
}

fn tensor(said: &Value) -> Tensor {
    let datatype = datatype(said[0].as_str().unwrap());
    let shape = said[1].as_array().unwrap().iter().map(|extent| extent.as_u64().unwrap()).collect();
    let bytes = |value: &Value| {
        let float = value.as_f64().unwrap_or_default();
        let whole = value.as_i64().unwrap_or_else(|| i64::from(value.as_bool().unwrap_or_default()));
        match datatype {
            Datatype::Fp16 => half::f16::from_f64(float).to_le_bytes().to_vec(),
            Datatype::Fp32 => (float as f32).to_le_bytes().to_vec(),
            Datatype::Fp64 => float.to_le_bytes().to_vec(),
            _ => whole.to_le_bytes()[..shape::size(datatype)].to_vec(),
        }
    };
    Tensor { datatype, shape, data: said[2].as_array().unwrap().iter().flat_map(bytes).collect() }
}

fn done(case: &Value) -> Result<Vec<Tensor>, String> {
    let tensors: Vec<Tensor> = case["tensors"].as_array().unwrap().iter().map(tensor).collect();
    let values: Vec<f64> = case["values"].as_array().unwrap().iter().map(|it| it.as_f64().unwrap()).collect();
    let [first, rest @ ..] = tensors.as_slice() else { panic!("{case}") };
    let first = first.clone();
    let made = match (case["operation"].as_str().unwrap(), values.as_slice(), rest) {
        ("argmax", [axis], []) => Library::argmax(first, *axis as i32)?,
        ("top_k", [count, axis], []) => {
            let (values, places) = Library::top_k(first, *count as u32, *axis as i32)?;
            return Ok(vec![values, places]);
        }
        ("softmax", [axis], []) => Library::softmax(first, *axis as i32)?,
        ("normalise", [axis], []) => Library::normalise(first, *axis as i32)?,
        ("mean_pool", [], [mask]) => Library::mean_pool(first, mask.clone())?,
        ("concat", [axis], _) => Library::concat(tensors, *axis as i32)?,
        ("gather", [axis], [places]) => Library::gather(first, places.clone(), *axis as i32)?,
        ("suppress", [overlap, score, most], [scores, classes @ ..]) => {
            let classes = classes.first().cloned();
            let (overlap, score, most) = (*overlap as f32, *score as f32, *most as u32);
            Library::suppress(first, scores.clone(), classes, overlap, score, most)?
        }
        other => panic!("{other:?}"),
    };
    Ok(vec![made])
}

/// The largest difference of two tensors' values; `None` if something else differs.
fn difference(made: &Tensor, expected: &Tensor) -> Option<f64> {
    if made.datatype != expected.datatype || made.shape != expected.shape {
        return None;
    }
    if made.data == expected.data {
        return Some(0.0);
    }
    let (made, expected) = (values::floats(made, "").ok()?, values::floats(expected, "").ok()?);
    let differences = made.iter().zip(&expected).map(|(one, other)| f64::from((one - other).abs()));
    (made.len() == expected.len()).then(|| differences.fold(0.0, f64::max))
}

#[test]
fn results_are_those_of_numpy() {
    let cases: Value = serde_json::from_str(include_str!("../cases.json")).unwrap();
    let mut wrong = Vec::new();
    for case in cases.as_array().unwrap() {
        let made = done(case).unwrap_or_else(|error| panic!("{error}: {case}"));
        let expected: Vec<Tensor> = case["expected"].as_array().unwrap().iter().map(tensor).collect();
        assert_eq!(made.len(), expected.len());
        for (made, expected) in made.iter().zip(&expected) {
            if difference(made, expected).is_none_or(|difference| difference > TOLERANCE) {
                wrong.push(format!("{case}: {made:?}, expected {expected:?}"));
            }
        }
    }
    assert!(cases.as_array().unwrap().len() > 100 && wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_does_not_fit_is_refused() {
    for (case, said) in [
        (r#"["argmax", [["FP32", [2, 2], [1, 2, 3]]], [0]]"#, "12 bytes are no FP32[2, 2]"),
        (r#"["argmax", [["FP32", [4294967296, 4294967296], []]], [0]]"#, "0 bytes are no FP32"),
        (r#"["softmax", [["FP32", [4294967295, 4294967295], []]], [0]]"#, "0 bytes are no FP32"),
        (r#"["argmax", [["FP32", [2], [1, 2]]], [1]]"#, "axis 1 of a tensor that has 1"),
        (r#"["argmax", [["FP32", [2], [1, 2]]], [-2]]"#, "axis -2 of a tensor that has 1"),
        (r#"["argmax", [["FP32", [0], []]], [0]]"#, "the largest of no values"),
        (r#"["argmax", [["FP32", [], [1]]], [0]]"#, "axis 0 of a tensor that has 0"),
        (r#"["top_k", [["FP32", [2], [1, 2]]], [3, 0]]"#, "the 3 largest of 2 values"),
        (r#"["softmax", [["INT64", [1], [1]]], [0]]"#, "values of INT64, expected"),
        (r#"["mean_pool", [["FP32", [1, 1], [1]], ["INT64", [1, 1], [1]]], []]"#, "a tensor of [1, 1]"),
        (r#"["mean_pool", [["FP32", [1, 1, 1], [1]], ["INT64", [1], [1]]], []]"#, "a mask of [1]"),
        (r#"["concat", [["FP32", [1], [1]], ["FP64", [1], [1]]], [0]]"#, "they differ beside axis 0"),
        (
            r#"["concat", [["FP32", [1, 2], [1, 2]], ["FP32", [1, 1], [1]]], [0]]"#,
            "they differ beside axis 0",
        ),
        (r#"["gather", [["FP32", [2], [1, 2]], ["INT64", [1], [2]]], [0]]"#, "place 2 of an axis with 2"),
        (r#"["gather", [["FP32", [2], [1, 2]], ["INT64", [1], [-3]]], [0]]"#, "place -3 of an axis with 2"),
        (r#"["gather", [["FP32", [2], [1, 2]], ["FP32", [1], [1]]], [0]]"#, "places of FP32"),
        (r#"["suppress", [["FP32", [1, 3], [1, 2, 3]], ["FP32", [1], [1]]], [0, 0, 0]]"#, "boxes of [1, 3]"),
        (
            r#"["suppress", [["FP32", [1, 4], [1, 2, 3, 4]], ["FP32", [2], [1, 2]]], [0, 0, 0]]"#,
            "1 boxes with 2",
        ),
    ] {
        let case: Value = serde_json::from_str(case).unwrap();
        let case = serde_json::json!({ "operation": case[0], "tensors": case[1], "values": case[2] });
        let error = done(&case).unwrap_err();
        assert!(error.contains(said), "{case}: {error}");
    }
}

/// Extents beside one of 0 are not multiplied, and nothing takes the time of as many places.
#[test]
fn an_empty_tensor_may_have_any_extents() {
    for most in [u64::from(u32::MAX), 1 << 32, 1 << 62] {
        for shape in [[0, most, most], [most, 0, most], [most, most, 0]] {
            let empty = Tensor { datatype: Datatype::Fp32, shape: shape.to_vec(), data: Vec::new() };
            for axis in 0..3 {
                let is_along = shape[axis] == 0;
                let (along, places) = (axis as i32, Tensor { datatype: Datatype::Int64, ..vector(1) });
                for made in [
                    Library::softmax(empty.clone(), along),
                    Library::normalise(empty.clone(), along),
                    Library::top_k(empty.clone(), 0, along).map(|(values, _)| values),
                    Library::concat(vec![empty.clone(), empty.clone()], along),
                ] {
                    let made = made.unwrap();
                    assert!(made.data.is_empty() && made.shape.len() == 3, "{shape:?}, {axis}: {made:?}");
                }
                let (largest, gathered) =
                    (Library::argmax(empty.clone(), along), Library::gather(empty.clone(), places, along));
                assert_eq!((largest.is_err(), gathered.is_err()), (is_along, is_along), "{shape:?}, {axis}");
            }
            let mask = Tensor { datatype: Datatype::Fp32, shape: shape[..2].to_vec(), data: Vec::new() };
            // A mask of as many values is not empty.
            let pooled = Library::mean_pool(empty, mask);
            assert_eq!(pooled.is_ok(), shape[0] == 0, "{shape:?}: {pooled:?}");
        }
    }
    let none = Tensor { shape: vec![0, 1], ..vector(0) };
    let one = Tensor { shape: vec![1, 1], ..vector(1) };
    let both = Library::concat(vec![none, one.clone()], 0).unwrap();
    assert_eq!((both.shape, both.data), (vec![1, 1], one.data));
}

/// Zeros of 64 bits.
fn vector(count: u64) -> Tensor {
    Tensor { datatype: Datatype::Int64, shape: vec![count], data: vec![0; 8 * count as usize] }
}

/// Axes without entries, and tensors without axes.
#[test]
fn empty_tensors_are_tensors() {
    let empty = |shape: &[u64]| Tensor { datatype: Datatype::Fp32, shape: shape.to_vec(), data: Vec::new() };
    assert_eq!(Library::softmax(empty(&[0, 3]), 0).unwrap().shape, [0, 3]);
    assert_eq!(Library::softmax(empty(&[3, 0]), 1).unwrap().shape, [3, 0]);
    assert_eq!(Library::softmax(empty(&[3, 0]), 0).unwrap().shape, [3, 0]);
    assert_eq!(Library::argmax(empty(&[3, 0]), 0).unwrap().shape, [0]);
    assert_eq!(Library::concat(vec![empty(&[0, 3]), empty(&[0, 3])], 0).unwrap().shape, [0, 3]);
    assert_eq!(Library::concat(vec![empty(&[0, 3]), empty(&[0, 2])], 1).unwrap().shape, [0, 5]);
    assert_eq!(Library::mean_pool(empty(&[0, 3, 2]), empty(&[0, 3])).unwrap().shape, [0, 2]);
    let (values, places) = Library::top_k(empty(&[2, 0]), 0, 1).unwrap();
    assert_eq!((values.shape, places.shape), (vec![2, 0], vec![2, 0]));
    let none = Library::suppress(empty(&[0, 4]), empty(&[0]), None, 0.5, 0.0, 0).unwrap();
    assert_eq!((none.shape, none.data.len()), (vec![0], 0));
}
