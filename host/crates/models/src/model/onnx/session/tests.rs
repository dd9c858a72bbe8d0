//! The engine through our own types: every datatype bit for bit, real numbers against an independent
//! calculation, and what must be refused.
//!
//! These tests need ONNX Runtime where production finds it (`make setup`, or `ORT_DYLIB_PATH`) and fail
//! without.

use std::path::PathBuf;

use bytes::Bytes;
use ort::memory::{AllocationDevice, AllocatorType, MemoryInfo, MemoryType};

use super::*;
use crate::model::engine::Session as _;
use crate::model::onnx::library;
use crate::model::testing::{encoded, floats, iris, misaligned};
use crate::tensor::Datatype;

fn model(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../tests/models").join(format!("{name}.onnx"))
}

fn load(name: &str) -> Result<Session, String> {
    let environment = library::load(None).unwrap_or_else(|error| panic!("{error}"));
    Session::load(&environment, &model(name), Device::Cpu, None, 1)
}

/// The session as it would be on a GPU, its values bound; but in the CPU's memory.
fn load_bound(name: &str) -> Session {
    let environment = library::load(None).unwrap_or_else(|error| panic!("{error}"));
    let engine = OrtSession::builder(&environment).unwrap().commit_from_file(model(name)).unwrap();
    let session = Session::new(&engine).unwrap();
    assert!(pinned::serves(session.signature()));
    let location =
        MemoryInfo::new(AllocationDevice::CPU, 0, AllocatorType::Device, MemoryType::CPUOutput).unwrap();
    let pinned = Pinned::new(&engine, location).unwrap();
    Session { pinned: Some((engine, pinned)), ..session }
}

fn tensor(name: &str, datatype: Datatype, shape: &[u64], data: impl Into<Bytes>) -> Tensor {
    Tensor::new(name.into(), datatype, shape.to_vec(), data.into()).unwrap()
}

fn numbers(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

#[test]
fn every_datatype_passes_bit_for_bit() {
    // Extremes, signed zeros, infinities, NaNs with a payload, subnormals.
    let cases: &[(&str, Datatype, u64, Vec<u8>)] = &[
        ("bool", Datatype::Bool, 3, vec![1, 0, 1]),
        ("uint8", Datatype::Uint8, 3, vec![0, 1, 255]),
        ("uint16", Datatype::Uint16, 2, vec![0, 1, 255, 255]),
        ("uint32", Datatype::Uint32, 2, vec![0, 0, 0, 1, 255, 255, 255, 255]),
        ("uint64", Datatype::Uint64, 2, [u64::MAX, 1].map(u64::to_le_bytes).concat()),
        ("int8", Datatype::Int8, 3, vec![0x80, 0xff, 0x7f]),
        ("int16", Datatype::Int16, 2, [i16::MIN, i16::MAX].map(i16::to_le_bytes).concat()),
        ("int32", Datatype::Int32, 2, [i32::MIN, i32::MAX].map(i32::to_le_bytes).concat()),
        ("int64", Datatype::Int64, 2, [i64::MIN, i64::MAX].map(i64::to_le_bytes).concat()),
        ("fp16", Datatype::Fp16, 4, [0x7c00u16, 0x7e01, 0x8000, 0x0001].map(u16::to_le_bytes).concat()),
        ("bf16", Datatype::Bf16, 4, [0xff80u16, 0x7fc1, 0x8000, 0x0001].map(u16::to_le_bytes).concat()),
        (
            "fp32",
            Datatype::Fp32,
            4,
            [0xff80_0000u32, 0x7fc0_0001, 0x8000_0000, 1].map(u32::to_le_bytes).concat(),
        ),
        ("fp64", Datatype::Fp64, 3, [f64::MIN_POSITIVE, -0.0, f64::INFINITY].map(f64::to_le_bytes).concat()),
        ("bytes", Datatype::Bytes, 3, encoded(&["", "h\0é", "a longer one, beyond any small-string buffer"])),
    ];
    for (name, datatype, elements, data) in cases {
        let model = format!("identity_{name}");
        let mut sessions = vec![load(&model).unwrap()];
        match pinned::serves(sessions[0].signature()) {
            true => sessions.push(load_bound(&model)),
            false => assert_eq!(*datatype, Datatype::Bytes),
        }
        for session in &mut sessions {
            let signature = Arc::clone(session.signature());
            assert_eq!(signature.inputs[0].to_string(), format!("{datatype} [N]"));
            let mut earlier = Vec::new();
            for data in [Bytes::from(data.clone()), misaligned(data), Bytes::new()] {
                let shape = [if data.is_empty() { 0 } else { *elements }];
                let outputs = session.run(&[tensor("x", *datatype, &shape, data.clone())]).unwrap();
                let [output] = outputs.as_slice() else { panic!("{outputs:?}") };
                let found = (&*output.name, output.datatype, output.shape.as_slice());
                assert_eq!(found, ("y", *datatype, &shape[..]));
                earlier.push((output.data.clone(), data));
            }
            // All of them at the end: a later run must not write where an earlier output lies.
            for (output, data) in earlier {
                assert_eq!(output, data, "{name}");
            }
        }
    }
}

#[test]
fn lists_are_two_tensors_each() {
    let flowers = || tensor("float_input", Datatype::Fp32, &[2, 4], numbers(&[1.0; 8]));
    let outputs = load("zipmap_text").unwrap().run(&[flowers()]).unwrap();
    let found: Vec<_> = outputs.iter().map(|output| (&*output.name, &*output.shape)).collect();
    let expected =
        [("output_label", &[2][..]), ("output_probability", &[2, 3]), ("output_probability.labels", &[2, 3])];
    assert_eq!(found, expected);
    let labels = ["setosa", "versicolor", "virginica"];
    assert_eq!(*outputs[2].data, *encoded(&[labels, labels].concat()));
    // No rows, no maps.
    let none = tensor("float_input", Datatype::Fp32, &[0, 4], vec![]);
    let outputs = load("zipmap").unwrap().run(&[none]).unwrap();
    assert_eq!((&*outputs[1].shape, &*outputs[2].shape), (&[0, 0][..], &[0, 0][..]));
    let x = tensor("x", Datatype::Fp32, &[2], numbers(&[1.0, 2.0]));
    let outputs = load("sequence").unwrap().run(&[x]).unwrap();
    assert_eq!(*outputs[0].data, *numbers(&[1.0, 2.0, 1.0]));
    assert_eq!(*outputs[1].data, *[2i64, 1].map(i64::to_le_bytes).concat());
}

#[test]
fn sessions_of_one_copy_run_at_the_same_time() {
    let first = load("iris_dyn").unwrap();
    let sessions = [first.sharing(), first.sharing(), first.sharing(), first];
    std::thread::scope(|scope| {
        for session in sessions {
            scope.spawn(move || iris_agrees(session));
        }
    });
}

#[test]
fn what_has_a_default_may_be_left_out() {
    let session = load("defaults").unwrap();
    let names: Vec<_> =
        session.signature().inputs.iter().map(|input| (&*input.name, input.is_optional())).collect();
    assert_eq!(names, [("x", false), ("scale", true), ("offset", true)]);
    let x = || tensor("x", Datatype::Fp32, &[1, 2], numbers(&[1.0, 2.0]));
    let scale = || tensor("scale", Datatype::Fp32, &[1], numbers(&[3.0]));
    let offset = || tensor("offset", Datatype::Fp32, &[2], numbers(&[1.0, 1.0]));
    for mut session in [session, load_bound("defaults")] {
        for (inputs, expected) in [
            (vec![x()], [2.0, 14.0]),
            (vec![x(), offset()], [3.0, 5.0]),
            (vec![x(), scale(), offset()], [4.0, 7.0]),
            // What an earlier run was given is not kept.
            (vec![x()], [2.0, 14.0]),
        ] {
            let outputs = session.run(&inputs).unwrap();
            assert_eq!(*outputs[0].data, *numbers(&expected), "{inputs:?}");
        }
        assert!(session.run(&[]).is_err());
    }
}

#[test]
fn iris_agrees_with_an_independent_calculation() {
    for session in [load("iris_dyn").unwrap(), load_bound("iris_dyn")] {
        iris_agrees(session);
    }
}

fn iris_agrees(mut session: Session) {
    let flowers: [[f64; 4]; 4] =
        [[5.2, 3.6, 1.4, 0.3], [5.9, 3.0, 4.2, 1.5], [6.0, 2.7, 5.1, 1.6], [6.7, 3.0, 5.2, 2.3]];
    let data: Vec<u8> = flowers.as_flattened().iter().flat_map(|x| (*x as f32).to_le_bytes()).collect();
    let outputs = session.run(&[tensor("input", Datatype::Fp32, &[4, 4], data)]).unwrap();
    let [label, probabilities] = outputs.as_slice() else { panic!("{outputs:?}") };
    assert_eq!(label.data, [0i64, 1, 2, 2].map(i64::to_le_bytes).concat());
    assert_eq!((&*probabilities.name, probabilities.shape.as_slice()), ("probabilities", &[4, 3][..]));
    for (row, flower) in floats(probabilities).chunks(3).zip(flowers) {
        for (actual, expected) in row.iter().zip(iris(flower)) {
            assert!((f64::from(*actual) - expected).abs() < 1e-6, "{actual} for {expected}");
        }
    }
}

#[test]
fn signatures_show_names_fixed_free_and_unknown_extents() {
    let shown = |name: &str| {
        let session = load(name).unwrap();
        let specs = session.signature().inputs.iter().chain(&session.signature().outputs);
        specs.map(|spec| format!("{}: {spec}", spec.name)).collect::<Vec<_>>().join("; ")
    };
    assert_eq!(shown("iris_dyn"), "input: FP32 [N, 4]; label: INT64 [N]; probabilities: FP32 [N, 3]");
    assert_eq!(shown("iris_static"), "input: FP32 [1, 4]; probabilities: FP32 [1, 3]");
    assert_eq!(shown("add"), "a: FP32 [2]; b: FP32 [2]; sum: FP32 [2]");
    // The engine does not tell a scalar from an unknown rank.
    assert_eq!(shown("scalar"), "x: FP32 []; y: FP32 []");
    assert_eq!(shown("unknown_rank"), "x: FP32 []; y: FP32 []");
}

#[test]
fn outputs_outlive_their_session() {
    for mut session in [load("add").unwrap(), load_bound("add")] {
        let pair = |a: f32, b: f32| [a, b].map(f32::to_le_bytes).concat();
        let inputs = [
            tensor("a", Datatype::Fp32, &[2], pair(1.0, 2.0)),
            tensor("b", Datatype::Fp32, &[2], pair(3.0, 4.0)),
        ];
        let outputs = session.run(&inputs).unwrap();
        drop((session, inputs));
        assert_eq!(floats(&outputs[0]), [4.0, 6.0]);
    }
}

#[test]
fn an_output_that_is_an_input_is_answered_with_that_input() {
    let mut session = load("passes_through").unwrap();
    assert!(!pinned::serves(session.signature()), "there is nothing to bind");
    let data: Vec<u8> = (0..10_000u16).flat_map(|x| f32::from(x).to_le_bytes()).collect();
    // One that is not aligned as well: the engine gets a copy of it, which is gone after the run.
    for data in [Bytes::from(data.clone()), misaligned(&data)] {
        let outputs = session.run(&[tensor("x", Datatype::Fp32, &[10_000], data.clone())]).unwrap();
        let [x, negative] = outputs.as_slice() else { panic!("{outputs:?}") };
        assert_eq!((&*x.name, &*negative.name), ("x", "y"));
        assert!(x.data == data && floats(negative).iter().zip(floats(x)).all(|(y, x)| *y == -x));
    }
}

#[test]
fn an_output_that_is_a_constant_outlives_its_session() {
    for mut session in [load("constant").unwrap(), load_bound("constant")] {
        let input = tensor("x", Datatype::Fp32, &[1], 2.0f32.to_le_bytes().to_vec());
        let outputs = session.run(&[input]).unwrap();
        drop(session);
        assert_eq!(floats(&outputs[0]), (0..1000u16).map(f32::from).collect::<Vec<_>>());
    }
}

#[test]
fn a_failed_run_leaves_the_session_usable() {
    for mut session in [load("gather").unwrap(), load_bound("gather")] {
        let mut index =
            |index: i64| session.run(&[tensor("index", Datatype::Int64, &[1], index.to_le_bytes().to_vec())]);
        assert!(matches!(index(3), Err(ModelError::Run(_))));
        assert_eq!(floats(&index(2).unwrap()[0]), [3.0]);
    }
}

#[test]
fn values_without_a_form_in_the_engine_are_refused() {
    let mut session = load("identity_bytes").unwrap();
    let mut refused = |shape: &[u64], data: Vec<u8>| {
        session.run(&[tensor("x", Datatype::Bytes, shape, data)]).unwrap_err().to_string()
    };
    assert_eq!(
        refused(&[1], vec![1, 0, 0, 0, 0xff]),
        "input `x`: element 0 is not UTF-8, which the model's strings must be"
    );
    assert_eq!(
        refused(&[1 << 40, 1 << 40, 0], Vec::new()),
        "input `x`: shape [1099511627776, 1099511627776, 0] is too large"
    );
    assert_eq!(session.run(&[]).unwrap_err().to_string(), "expected 1 inputs, got 0");
}

#[test]
fn models_that_cannot_be_served_say_why() {
    let error = load("takes_a_list").unwrap_err();
    assert!(error.starts_with("input `list` is a `Sequence<"), "{error}");
    assert!(load("no such model").is_err());
    let environment = library::load(None).unwrap();
    let error = Session::load(&environment, &model("add"), Device::Cuda(0), None, 1).unwrap_err();
    assert!(error.starts_with("device `cuda:0`: "), "{error}");
}

/// As ONNX Runtime 1.2x says it of a `StringNormalizer`, the first step of most TF-IDF models.
#[test]
fn a_locale_that_is_not_there_is_named() {
    let reason = "Exception during initialization: string_normalizer.cc:95 Locale(const std::string&) Failed to \
                  construct locale with name:en_US.UTF-8:locale::facet::_S_create_c_locale name not \
                  valid:Please, install necessary language-pack-en and configure locales";
    let told = explained(reason.to_owned());
    assert!(
        told.contains("the locale `en_US.UTF-8`") && told.contains("-i en_US -f UTF-8 en_US.UTF-8"),
        "{told}"
    );
    assert_eq!(explained("another reason".to_owned()), "another reason");
}
