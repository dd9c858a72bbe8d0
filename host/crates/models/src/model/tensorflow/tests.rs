//! The engine through our own types: every datatype bit for bit, strings of any bytes, real numbers against
//! an independent calculation, many threads, and what must be refused.
//!
//! These tests need TensorFlow where production finds it (`make tensorflow`, or a folder in
//! `MODELHOST_TENSORFLOW_LIB`) and fail without.

use std::path::PathBuf;
use std::{env, fs, thread};

use bytes::Bytes;

use super::*;
use crate::model::ModelError;
use crate::model::testing::{encoded, floats, iris, misaligned};
use crate::tensor::{BytesElements, Datatype, Tensor};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/models/savedmodels").join(name).join("1")
}

type Sessions = Vec<Box<dyn engine::Session>>;

fn load_all(folder: &Path, key: Option<&str>, device: Device, sessions: usize) -> Result<Sessions, String> {
    let config = Config {
        tensorflow: env::var_os("MODELHOST_TENSORFLOW_LIB").map(PathBuf::from),
        ..Config::default()
    };
    let options = Options {
        device,
        device_memory: None,
        sessions,
        gpu_sessions: sessions,
        threads: 1,
        signature_key: key,
    };
    match load(folder, options, &config) {
        Ok(loaded) => {
            assert_eq!((loaded.sessions.len(), loaded.device), (sessions, Device::Cpu));
            Ok(loaded.sessions)
        }
        Err(LoadError::Model(reason)) => Err(reason),
        Err(LoadError::Library(error)) => panic!("{error}"),
    }
}

fn session(name: &str, key: Option<&str>) -> Box<dyn engine::Session> {
    load_all(&folder(name), key, Device::Auto, 1).unwrap().remove(0)
}

fn tensor(name: &str, datatype: Datatype, shape: &[u64], data: impl Into<Bytes>) -> Tensor {
    Tensor::new(name.into(), datatype, shape.to_vec(), data.into()).unwrap()
}

fn fp32(shape: &[u64], values: &[f32]) -> Tensor {
    let data: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    tensor("x", Datatype::Fp32, shape, data)
}

#[test]
fn every_datatype_passes_bit_for_bit() {
    // Extremes, signed zeros, infinities, NaNs with a payload, subnormals; three elements each.
    let cases: [(&str, Datatype, Vec<u8>); 14] = [
        ("bf16", Datatype::Bf16, [0xff80u16, 0x7fc1, 0x0001].map(u16::to_le_bytes).concat()),
        ("bool", Datatype::Bool, vec![1, 0, 1]),
        ("bytes", Datatype::Bytes, encoded(&["", "hé", "a longer one, beyond any small-string buffer"])),
        ("fp16", Datatype::Fp16, [0x7c00u16, 0x7e01, 0x8000].map(u16::to_le_bytes).concat()),
        ("fp32", Datatype::Fp32, [0xff80_0000u32, 0x7fc0_0001, 0x8000_0001].map(u32::to_le_bytes).concat()),
        ("fp64", Datatype::Fp64, [f64::MIN_POSITIVE, -0.0, f64::INFINITY].map(f64::to_le_bytes).concat()),
        ("int16", Datatype::Int16, [i16::MIN, -1, i16::MAX].map(i16::to_le_bytes).concat()),
        ("int32", Datatype::Int32, [i32::MIN, -1, i32::MAX].map(i32::to_le_bytes).concat()),
        ("int64", Datatype::Int64, [i64::MIN, -1, i64::MAX].map(i64::to_le_bytes).concat()),
        ("int8", Datatype::Int8, vec![0x80, 0xff, 0x7f]),
        ("uint16", Datatype::Uint16, [0, 1, u16::MAX].map(u16::to_le_bytes).concat()),
        ("uint32", Datatype::Uint32, [0, 1, u32::MAX].map(u32::to_le_bytes).concat()),
        ("uint64", Datatype::Uint64, [0, 1, u64::MAX].map(u64::to_le_bytes).concat()),
        ("uint8", Datatype::Uint8, vec![0, 1, 255]),
    ];
    let mut session = session("identities_tf1", None);
    for (elements, aligned) in [(3, true), (3, false), (0, true)] {
        let place = |data: &Vec<u8>| match (elements, aligned) {
            (0, _) => Bytes::new(),
            (_, true) => Bytes::from(data.clone()),
            (_, false) => misaligned(data),
        };
        let inputs: Vec<Tensor> = cases
            .iter()
            .map(|(name, datatype, data)| tensor(name, *datatype, &[elements], place(data)))
            .collect();
        let outputs = session.run(&inputs).unwrap();
        assert_eq!(outputs.len(), inputs.len());
        for (input, output) in inputs.iter().zip(&outputs) {
            let parts = |tensor: &Tensor| (tensor.name.clone(), tensor.datatype, tensor.shape.clone());
            assert_eq!(parts(output), parts(input));
            assert_eq!(output.data, input.data, "{}", input.name);
        }
    }
}

#[test]
fn strings_are_any_bytes() {
    let mut session = session("string_tf1", None);
    let large = "x".repeat(100_000);
    let elements: [&[u8]; 5] = [b"", b"a\0b", b"\xff\xfe", "hé".as_bytes(), large.as_bytes()];
    let outputs = session.run(&[tensor("x", Datatype::Bytes, &[5], encoded(&elements))]).unwrap();
    assert_eq!(outputs[0].data, [0i32, 3, 2, 3, 100_000].map(i32::to_le_bytes).concat());
    let text = tensor("x", Datatype::Bytes, &[3], encoded(&["", "hello", &large]));
    let outputs = session.run(&[text]).unwrap();
    assert_eq!(outputs[1].data, encoded(&["", "HELLO", &large.to_uppercase()]));

    let mut vocabulary = self::session("vocabulary_tf2", None);
    let words = encoded(&[&b"virginica"[..], b"setosa", b"", b"set\0osa", b"\xff"]);
    let outputs = vocabulary.run(&[tensor("word", Datatype::Bytes, &[5], words)]).unwrap();
    assert_eq!(outputs[0].data, [2i64, 0, -1, -1, -1].map(i64::to_le_bytes).concat());
}

const FLOWERS: [[f64; 4]; 4] =
    [[5.2, 3.6, 1.4, 0.3], [5.9, 3.0, 4.2, 1.5], [6.0, 2.7, 5.1, 1.6], [6.7, 3.0, 5.2, 2.3]];

/// Runs the iris model on `rows` flowers, beginning with the one at `first`, and checks every number.
fn check_iris(session: &mut dyn engine::Session, first: usize, rows: usize) {
    let flowers: Vec<[f64; 4]> = FLOWERS.iter().cycle().skip(first).take(rows).copied().collect();
    let values: Vec<f32> = flowers.as_flattened().iter().map(|x| *x as f32).collect();
    let outputs = session.run(&[fp32(&[rows as u64, 4], &values)]).unwrap();
    let [label, probabilities] = outputs.as_slice() else { panic!("{outputs:?}") };
    assert_eq!(
        (label.shape.as_slice(), probabilities.shape.as_slice()),
        (&[rows as u64][..], &[rows as u64, 3][..])
    );
    for (row, flower) in floats(probabilities).chunks(3).zip(flowers) {
        for (actual, expected) in row.iter().zip(iris(flower)) {
            assert!((f64::from(*actual) - expected).abs() < 1e-6, "{actual} for {expected}");
        }
    }
    let labels: Vec<u8> =
        [0i64, 1, 2, 2].iter().cycle().skip(first).take(rows).flat_map(|l| l.to_le_bytes()).collect();
    assert_eq!(label.data, labels);
}

#[test]
fn iris_agrees_with_an_independent_calculation() {
    let mut session = session("iris_tf2", None);
    check_iris(&mut *session, 0, 4);
    check_iris(&mut *session, 0, 0);
    check_iris(&mut *session, 1, 1000);
}

#[test]
fn many_threads_run_one_model() {
    let sessions = load_all(&folder("iris_tf2"), None, Device::Cpu, 16).unwrap();
    thread::scope(|scope| {
        for (number, mut session) in sessions.into_iter().enumerate() {
            scope.spawn(move || {
                for turn in 0..200 {
                    check_iris(&mut *session, number % 4, 1 + (number * 7 + turn) % 32);
                }
            });
        }
    });
}

#[test]
fn a_signature_is_served_by_its_key() {
    let run =
        |key| floats(&session("multi_signature_tf2", key).run(&[fp32(&[3], &[1.0, 2.0, 3.0])]).unwrap()[0]);
    assert_eq!(run(None), [3.0, 4.0, 5.0]);
    assert_eq!(run(Some("predict")), [3.0, 4.0, 5.0]);
    assert_eq!(run(Some("a")), [2.0, 4.0, 6.0]);
    let error = load_all(&folder("multi_signature_tf2"), Some("b"), Device::Cpu, 1).unwrap_err();
    assert_eq!(error, "it has no signature `b`; there are `a`, `predict`");
    let error = load_all(&folder("shapes_tf1"), None, Device::Cpu, 1).unwrap_err();
    assert!(error.ends_with("set `signature_key` to one of `any`, `gather`, `scalar`"), "{error}");
}

#[test]
fn any_shape_where_the_rank_is_open_and_one_element_where_it_is_zero() {
    let mut any = session("shapes_tf1", Some("any"));
    for shape in [&[][..], &[1], &[2, 3], &[1, 0, 5], &[1; 8]] {
        let count = shape.iter().product::<u64>() as usize;
        let outputs = any.run(&[fp32(shape, &vec![1.5; count])]).unwrap();
        assert_eq!((outputs[0].shape.as_slice(), floats(&outputs[0])), (shape, vec![1.5; count]));
    }
    let mut scalar = session("shapes_tf1", Some("scalar"));
    for shape in [&[][..], &[1], &[1, 1]] {
        let outputs = scalar.run(&[fp32(shape, &[1.5])]).unwrap();
        assert_eq!((outputs[0].shape.as_slice(), floats(&outputs[0])), (&[][..], vec![3.0]));
    }
    let error = scalar.run(&[fp32(&[2], &[1.0, 2.0])]).unwrap_err();
    assert_eq!(error.to_string(), "input `x`: expected FP32 [], got FP32 [2]");
}

#[test]
fn hostile_inputs_are_errors_and_the_session_stays_usable() {
    let mut session = session("iris_tf2", None);
    let mut refused = |inputs: &[Tensor]| match session.run(inputs).unwrap_err() {
        ModelError::Input(text) => text,
        error => panic!("{error:?}"),
    };
    assert_eq!(refused(&[]), "expected 1 inputs, got 0");
    // More than the library can multiply, although there are no elements.
    let shape = [1 << 40, 1 << 40, 0];
    assert_eq!(refused(&[fp32(&shape, &[])]), format!("input `x`: shape {shape:?} is too large"));
    let empty = tensor("x", Datatype::Bytes, &[u64::MAX, 0], Bytes::new());
    assert_eq!(refused(&[empty]), format!("input `x`: shape {:?} is too large", [u64::MAX, 0]));
    // What `Tensor::new` would not make.
    let lying = Tensor { shape: vec![1 << 50, 4], ..fp32(&[1, 4], &[0.0; 4]) };
    assert_eq!(refused(&[lying]), "input `x`: shape [1125899906842624, 4] does not take 16 bytes");
    let damaged =
        Tensor { data: vec![9, 0, 0, 0].into(), ..tensor("x", Datatype::Bytes, &[0], Bytes::new()) };
    assert_eq!(refused(&[damaged]), "input `x`: BYTES data is cut short or has bytes left over");

    // What only the model can refuse: rank, extent, datatype.
    for input in
        [fp32(&[4], &[0.0; 4]), fp32(&[1, 5], &[0.0; 5]), tensor("x", Datatype::Int8, &[1, 4], vec![0; 4])]
    {
        let error = session.run(&[input]).unwrap_err();
        assert!(matches!(error, ModelError::Run(_)), "{error:?}");
    }
    check_iris(&mut *session, 0, 4);
}

#[test]
fn a_failed_run_leaves_the_session_usable() {
    let mut session = session("shapes_tf1", Some("gather"));
    let mut index =
        |index: i64| session.run(&[tensor("index", Datatype::Int64, &[1], index.to_le_bytes().to_vec())]);
    let error = index(3).unwrap_err();
    assert!(matches!(&error, ModelError::Run(text) if text.contains("is not in [0, 3)")), "{error:?}");
    assert_eq!(floats(&index(2).unwrap()[0]), [3.0]);
}

#[test]
fn outputs_outlive_their_session() {
    let mut doubling = session("multi_signature_tf2", Some("a"));
    let mut upper = session("string_tf1", None);
    let numbers = doubling.run(&[fp32(&[2], &[1.0, 2.0])]).unwrap();
    let text = upper.run(&[tensor("x", Datatype::Bytes, &[1], encoded(&["abc"]))]).unwrap();
    drop((doubling, upper));
    assert_eq!(floats(&numbers[0]), [2.0, 4.0]);
    assert_eq!(BytesElements::new(&text[1].data).next(), Some(Ok(&b"ABC"[..])));
    // On another thread, too.
    thread::spawn(move || drop(numbers)).join().unwrap();
}

#[test]
fn models_that_cannot_be_served_say_why() {
    let error = load_all(&folder("iris_tf2"), None, Device::Cuda(1), 1).unwrap_err();
    assert_eq!(error, "device `cuda:1`: this build runs SavedModels on the CPU only");
    let damage = |change: &dyn Fn(&Path)| {
        let copy = tempfile::tempdir().unwrap();
        for file in ["saved_model.pb", "variables/variables.index", "variables/variables.data-00000-of-00001"]
        {
            fs::create_dir_all(copy.path().join(file).parent().unwrap()).unwrap();
            fs::copy(folder("iris_tf2").join(file), copy.path().join(file)).unwrap();
        }
        change(copy.path());
        load_all(copy.path(), None, Device::Cpu, 1).unwrap_err()
    };
    let error = damage(&|copy| fs::remove_dir_all(copy.join("variables")).unwrap());
    assert_eq!(error, "it has variables, but their file `variables/variables.index` is missing");
    let error = damage(&|copy| {
        let file = copy.join("variables/variables.data-00000-of-00001");
        let bytes = fs::read(&file).unwrap();
        fs::write(&file, &bytes[..bytes.len() / 4]).unwrap();
    });
    assert!(error.contains("RestoreV2"), "{error}");
    let error = damage(&|copy| {
        let file = copy.join("saved_model.pb");
        let bytes = fs::read(&file).unwrap();
        fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
    });
    assert!(error.starts_with("`saved_model.pb` is damaged: "), "{error}");
}
