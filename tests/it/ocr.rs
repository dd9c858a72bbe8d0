//! The example examples/ocr-wasm: three models in a row, all between them in the sandbox.

use e2e::{Host, Reply, clients, component};
use serde_json::Value;

/// Corners may be elsewhere by so many pixels, for each side of the image and its scaled copy rounds.
const NEAR: f64 = 3.0;
/// And so much may the mean of a text's scores differ, since an image is scaled in floats here, in integers there.
const ALIKE: f64 = 0.05;

fn serve() -> Host {
    component("ocr-wasm");
    let model = e2e::root().join("target/models/ocr/detector.onnx");
    assert!(model.exists(), "no `{}`; hint: run `scripts/example-models.sh` first", model.display());
    let config = e2e::root().join("examples/ocr-wasm/modelhost.toml");
    Host::serve(&["--config", config.to_str().unwrap()])
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("no number: {value}"))
}

/// A line of the package, `[corners, text, score]`, beside one of the example.
fn assert_same(name: &str, expected: &Value, line: &Value) {
    assert_eq!(line["text"], expected[1], "{name}: {line}");
    assert!(
        (number(&line["score"]) - number(&expected[2])).abs() < ALIKE,
        "{name}: {line}, expected {expected}"
    );
    for (corner, expected_corner) in
        line["box"].as_array().unwrap().iter().zip(expected[0].as_array().unwrap())
    {
        for axis in 0..2 {
            let distance = (number(&corner[axis]) - number(&expected_corner[axis])).abs();
            assert!(distance <= NEAR, "{name}: {line}, expected {expected}");
        }
    }
}

fn texts(reply: &Reply) -> Vec<String> {
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json().as_array().unwrap().iter().map(|line| line["text"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_texts_are_those_of_the_package_whose_models_they_are() {
    let host = serve();
    let folder = tempfile::tempdir().unwrap();
    let expected = clients::run("ocr", &[folder.path().to_str().unwrap()]);
    let readme = std::fs::read_to_string(e2e::root().join("examples/ocr-wasm/README.md")).unwrap();
    let mut lines = 0;
    for image in expected.lines() {
        let image: Value = serde_json::from_str(image).unwrap();
        let name = image[0].as_str().unwrap();
        let file = std::fs::read(folder.path().join(name)).unwrap();
        let reply = host.request("POST", "/ocr", &[("content-type", "image/any")], &file);
        let (found, expected) = (texts(&reply), image[1].as_array().unwrap());
        let expected_texts: Vec<&str> = expected.iter().map(|line| line[1].as_str().unwrap()).collect();
        assert_eq!(found, expected_texts, "{name}");
        for (line, expected) in reply.json().as_array().unwrap().iter().zip(expected) {
            assert_same(name, expected, line);
        }
        lines += found.len();
        if name == "slanted.jpg" {
            assert!(
                found.iter().all(|text| readme.contains(&format!("\"text\":\"{text}\""))),
                "{}",
                reply.text()
            );
        }
    }
    assert!(lines > 20, "{lines} lines");
    // What is no image is the caller's, and the next image is read.
    for (body, says) in
        [(&b"hello"[..], "the image is no PNG, and as a JPEG"), (b"\x89PNG\r\n\x1a\n", "the image: ")]
    {
        let text = host.request("POST", "/ocr", &[], body).error(400, "invalid_input", "pre_inference");
        assert!(text.contains(says), "{text}");
    }
    let file = std::fs::read(folder.path().join("low.png")).unwrap();
    assert_eq!(texts(&host.request("POST", "/ocr", &[], &file)), ["Low:", "42"]);
}
