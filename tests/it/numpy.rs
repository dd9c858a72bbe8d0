//! numpy, Pillow and others in a handler in Python, built by `modelhost build` with the wheels of `make
//! wasi-wheels`, in the memory that an instance has by default.
//!
//! Figures are computed here in 64 bits, by other means; 1e-6 is what FP32 leaves of them.

use std::process::Command;
use std::sync::LazyLock;

use e2e::clients::finished;
use e2e::project::application;
use e2e::setup::{Endpoint, Setup};
use e2e::{Host, assert_close, root};
use serde_json::{Value, json};

const REQUIREMENTS: &str =
    "./modelhost-guest\ncomponentize-py==0.25.0\nnumpy\nregex\nmsgpack\nPyYAML\nMarkupSafe\nPillow\n";

/// The component, built once for all tests, with the folder that it is in.
static BUILT: LazyLock<(tempfile::TempDir, std::path::PathBuf)> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    let read = |path: &str| std::fs::read_to_string(root().join(path)).unwrap();
    let files = [
        ("app.py", read("tests/languages/python-numpy/app.py")),
        ("pictures.py", read("tests/languages/python-numpy/pictures.py")),
        ("numpy_arrays.py", read("guest-sdk/python/tests/numpy_arrays.py")),
        ("requirements.txt", REQUIREMENTS.to_owned()),
    ];
    let files = files.each_ref().map(|(name, text)| (*name, text.as_str()));
    let component = application(folder.path(), "python", &files);
    (folder, component)
});

fn served() -> Host {
    let endpoint = |name: &str| {
        ["int64", "int32", "fp32", "fp16", "bf16", "bool"]
            .iter()
            .fold(Endpoint::new(name).plugin(&BUILT.1).set("network = 'stub'"), |endpoint, model| {
                endpoint.named_model(model, &format!("identity_{model}"), "")
            })
    };
    Setup::of([endpoint("a"), endpoint("neighbour")]).serve()
}

fn floats(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(values) => values.iter().flat_map(floats).collect(),
        value => vec![value.as_f64().unwrap()],
    }
}

#[test]
fn handlers_have_arrays() {
    let host = served();
    let tests = host.post("/a/tests", "{}").json();
    assert!(tests["ran"].as_u64().unwrap() >= 14 && tests["failed"] == 0, "{}", tests["printed"]);

    let rows: Vec<Vec<f64>> = (0..4)
        .map(|row| (0..50).map(|at| f64::from((row * 37 + at * 71) % 101) / 8.0 - 6.0).collect())
        .collect();
    let answer = host.post("/a/softmax", json!(rows).to_string()).json();
    let shares: Vec<Vec<f64>> = rows
        .iter()
        .map(|row| {
            let total: f64 = row.iter().map(|value| value.exp()).sum();
            row.iter().map(|value| value.exp() / total).collect()
        })
        .collect();
    assert_close(&answer["shares"], &json!(shares));
    let best = |row: &Vec<f64>| {
        let largest = row.iter().copied().fold(f64::MIN, f64::max);
        row.iter().position(|value| *value == largest)
    };
    assert_eq!(answer["best"], json!(rows.iter().map(best).collect::<Vec<_>>()));

    let picture: Vec<u8> = (0..36_u32).map(|at| u8::try_from(at * 37 % 256).unwrap()).collect();
    let planes = floats(&host.post("/a/normalise", &picture).json());
    assert_eq!(planes.len(), picture.len());
    for (plane, mean) in [0.485, 0.456, 0.406].into_iter().enumerate() {
        for pixel in 0..12 {
            let expected = (f64::from(picture[pixel * 3 + plane]) / 255.0 - mean) / 0.25;
            let found = planes[plane * 12 + pixel];
            assert!((found - expected).abs() < 1e-5, "{plane} {pixel}: {found}, not {expected}");
        }
    }

    let parts = host.post("/a/parts", "{}").json();
    let others = json!([["Äb"], { "a": [1, 2.5] }, { "a": [1, "b"] }, "&lt;", "msgpack._cmsgpack"]);
    let expected = json!({
        "saved": [0, 1, 2], "unique": [1, 3], "upper": ["AB"], "svd": true, "fft": true, "random": 5,
        "masked": 1, "copies": [1.5, 2.5], "others": others,
    });
    assert_eq!(parts, expected);
}

#[test]
fn arrays_go_to_models_by_their_types() {
    let host = served();
    for (model, sent, values, back) in [
        ("int64", "int32", json!([1, -2, 3]), "int64"),
        ("int32", "int32", json!([1, -2, 3]), "int32"),
        ("bool", "bool", json!([true, false, false]), "bool"),
    ] {
        let mut backwards = values.as_array().unwrap().clone();
        backwards.reverse();
        let answer = host.post(&format!("/a/through/{model}"), values.to_string()).json();
        assert_eq!(answer, json!({ "sent": sent, "back": back, "values": backwards }), "{model}");
    }
    host.post("/a/through/fp32", "[1.5, 2.5]").error(500, "plugin_error", "pre_inference");
    host.wait_for_log("input `x` of the model takes FP32, and the array is of float64");
    host.wait_for_log("dtype=np.float32");
}

/// The project's own Python, which has Pillow itself, compares.
#[test]
fn pictures_are_as_pillow_has_them() {
    let host = served();
    let project = BUILT.1.parent().unwrap();
    let mut python = Command::new(project.join(".modelhost/python/bin/python"));
    python.arg(project.join("pictures.py")).arg(format!("{}/a/pictures", host.url));
    let said = finished(&mut python, "pictures.py");
    assert!(said.contains("as Pillow"), "{said}");
    let neighbour = host.post("/neighbour/softmax", "[[0, 0]]").json();
    assert_eq!(neighbour["shares"], json!([[0.5, 0.5]]));
}

#[test]
fn hostile_arrays_harm_no_neighbour() {
    let host = served();
    for (what, body, error, text) in [
        ("2-gib", &b""[..], "ValueError", "Maximum allowed dimension exceeded"),
        ("1-gib", b"", "MemoryError", "Unable to allocate 1.00 GiB"),
        ("shape", b"", "ValueError", "array is too big"),
        ("twice-32-mib", b"", "MemoryError", "Unable to allocate 32.0 MiB"),
        ("pickle", b"\x80\x04cos\nsystem\n(S'id'\ntR.", "ValueError", "pickled"),
        ("object", b"", "InvalidInput", "an array of objects"),
        ("masked", b"", "TypeError", "elements of the array are masked"),
    ] {
        let answer = host.post(&format!("/a/hostile/{what}"), body).json();
        let (said, of) = (answer["text"].as_str().unwrap(), answer["error"].as_str().unwrap());
        assert!(of == error && said.contains(text), "{what}: {of}: {said}");
        let neighbour = host.post("/neighbour/softmax", "[[0, 0]]").json();
        assert_eq!(neighbour["shares"], json!([[0.5, 0.5]]), "{what}");
    }
}
