//! Where a model runs: what cannot be had is said, what is chosen is said, and the answer does not depend on it.
//!
//! The tests that need a GPU are ignored; `make gpu-check` runs them, and without a GPU they fail.

use std::path::{Path, PathBuf};
use std::thread;

use e2e::setup::{Endpoint, Setup};
use e2e::{Host, Reply, component, model, root};
use serde_json::{Value, json};

/// How far an answer of a GPU may be from the CPU's.
const TOLERANCE: f64 = 1e-4;

fn serve(model: &Path, device: &str, more: &[&str]) -> Host {
    Host::with(None, Some(model), &[&["--name", "m", "--device", device], more].concat())
}

/// Starts the host in vain, and gives what it says of the reason.
fn refused(model: &Path, device: &str, more: &[&str]) -> String {
    let arguments = [&["--model", model.to_str().unwrap(), "--device", device], more].concat();
    let Err((status, log)) = Host::try_serve(&arguments) else { panic!("there is a `{device}`") };
    assert_eq!(status.code(), Some(1), "{log}");
    let (_, error) = log.rsplit_once("error: ").unwrap_or_else(|| panic!("no `error: ` in {log}"));
    error.to_owned()
}

/// Where the model of endpoint `m` runs, by what the admin listener says.
fn device(host: &Host) -> Value {
    host.endpoint("m")["models"][0]["device"].clone()
}

#[test]
fn a_device_that_cannot_be_had_is_one_line_and_a_hint() {
    // No machine that runs tests has as many, whatever else it lacks.
    for device in ["cuda:63", "cuda:4294967295"] {
        let error = refused(&model("add"), device, &[]);
        let lines: Vec<&str> = error.trim_end().lines().collect();
        let [reason, hint] = lines.as_slice() else { panic!("expected two lines: {error}") };
        assert!(reason.contains(&format!("add.onnx`: device `{device}`: ")), "{error}");
        assert!(hint.starts_with("  hint: "), "{error}");
    }
}

#[test]
fn auto_says_in_one_line_what_it_took_and_why() {
    let host = serve(&model("add"), "auto", &[]);
    host.wait_for_log("endpoint is ready");
    let log = host.log();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("device `auto`: ")).collect();
    let [line] = lines.as_slice() else { panic!("expected one line: {log}") };
    match device(&host).as_str() {
        Some("cpu") => {
            assert!(line.contains("the CPU") && line.contains("reason=\"device `cuda:0`: "), "{line}")
        }
        Some("cuda:0") => assert!(line.contains("`cuda:0`, a session was created on it"), "{line}"),
        other => panic!("runs on {other:?}"),
    }
    assert_eq!(host.post("/m", r#"{"a": [1, 2], "b": [3, 4]}"#).json(), json!([[4.0, 6.0]]));
}

#[test]
fn the_cpu_is_taken_without_a_word() {
    let host = serve(&model("add"), "cpu", &[]);
    assert!(!host.log().contains("auto"), "{}", host.log());
    assert_eq!(device(&host), "cpu");
}

/// Whether two answers are the same, numbers within [`TOLERANCE`].
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => {
            a == b || (a.as_f64().unwrap() - b.as_f64().unwrap()).abs() <= TOLERANCE
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        (a, b) => a == b,
    }
}

fn assert_same(what: &str, cpu: &Reply, gpu: &Reply) {
    assert_eq!((cpu.status, gpu.status), (200, 200), "{what}: {} {}", cpu.text(), gpu.text());
    let (cpu, gpu) = (cpu.json(), gpu.json());
    assert!(same(&cpu, &gpu), "{what}: the CPU says {cpu:.500}, the GPU {gpu:.500}");
}

/// The same model on the CPU and on the first GPU.
fn both(model: &Path, more: &[&str]) -> [Host; 2] {
    let hosts = ["cpu", "cuda"].map(|device| serve(model, device, more));
    assert_eq!((device(&hosts[0]), device(&hosts[1])), (json!("cpu"), json!("cuda:0")));
    hosts
}

#[test]
#[ignore = "needs a GPU: make gpu-check"]
fn gpu_every_datatype_is_the_cpus() {
    for (datatype, body) in [
        ("bool", "[true, false, true]"),
        ("uint8", "[0, 1, 255]"),
        ("uint16", "[0, 65535]"),
        ("uint32", "[0, 4294967295]"),
        ("uint64", "[0, 18446744073709551615]"),
        ("int8", "[-128, 127]"),
        ("int16", "[-32768, 32767]"),
        ("int32", "[-2147483648, 2147483647]"),
        ("int64", "[-9223372036854775808, 9223372036854775807]"),
        ("fp16", "[0.5, -65504]"),
        ("bf16", "[0.5, -256]"),
        ("fp32", "[0.1, -3.4e38]"),
        ("fp64", "[0.1, -1.7e308]"),
        ("bytes", r#"["", "hé"]"#),
    ] {
        let [cpu, gpu] = both(&model(&format!("identity_{datatype}")), &[]);
        for body in [body, "[]", body] {
            assert_same(datatype, &cpu.post("/m", body), &gpu.post("/m", body));
        }
    }
}

#[test]
#[ignore = "needs a GPU: make gpu-check"]
fn gpu_small_models_are_the_cpus() {
    let flowers = "[[5.2, 3.6, 1.4, 0.3], [5.9, 3.0, 4.2, 1.5], [6.7, 3.0, 5.2, 2.3]]";
    for (name, body) in [
        ("add", r#"{"a": [1.5, -2], "b": [3, 4]}"#),
        ("iris_static", "[[5.2, 3.6, 1.4, 0.3]]"),
        ("iris_dyn", flowers),
        ("scalar", "1.5"),
        ("gather", "[2, 0, 1]"),
        ("sum", "[1, 2, 3.5]"),
        ("rows", r#"{"x": [[1, 2], [3, 4]], "index": [2, 0], "text": ["a", "é"]}"#),
        ("passes_through", "[1, 2, 3]"),
        ("constant", "[1]"),
    ] {
        let [cpu, gpu] = both(&model(name), &[]);
        assert_same(name, &cpu.post("/m", body), &gpu.post("/m", body));
    }
}

/// What `make bench` makes.
fn made(path: &str) -> PathBuf {
    let path = root().join("target/bench").join(path);
    assert!(path.exists(), "`{}` is missing; hint: run `scripts/bench-models.sh` first", path.display());
    path
}

#[test]
#[ignore = "needs a GPU: make gpu-check"]
fn gpu_encoder_and_image_are_the_cpus() {
    for (name, content_type) in [("encoder", "application/json"), ("image", "application/octet-stream")] {
        let [cpu, gpu] = ["cpu", "cuda"].map(|device| {
            let plugin = component(&format!("tests/{name}"));
            let model = made(&format!("{name}.onnx"));
            Host::with(Some(&plugin), Some(&model), &["--name", "m", "--device", device])
        });
        let body = std::fs::read(made(&format!("{name}.body"))).unwrap();
        let [cpu, gpu] =
            [cpu, gpu].map(|host| host.request("POST", "/m", &[("content-type", content_type)], &body));
        assert_same(name, &cpu, &gpu);
    }
}

#[test]
#[ignore = "needs a GPU: make gpu-check"]
fn gpu_answers_are_each_callers_own() {
    // Rows of different sizes, joined or not, in one session or two: memory is taken and given back in every order.
    for more in [&[][..], &["--max-batch", "8"], &["--instances", "2"]] {
        let host = serve(&model("iris_dyn"), "cuda", more);
        let alone = serve(&model("iris_dyn"), "cpu", &[]);
        thread::scope(|scope| {
            for client in 0..8_u32 {
                let (host, alone) = (&host, &alone);
                scope.spawn(move || {
                    for turn in 0..40_u32 {
                        let rows = 1 + (client + turn) % 5;
                        let row = |row: u32| {
                            let x = f64::from(client * 1000 + turn * 10 + row) / 1000.0;
                            vec![x, x / 2.0, 8.0 - x, x / 4.0]
                        };
                        let body = json!((0..rows).map(row).collect::<Vec<_>>()).to_string();
                        assert_same(&body, &alone.post("/m", &body), &host.post("/m", &body));
                    }
                });
            }
        });
    }
}

/// Runs of convolutions keep their number of rows and are padded, see `host/crates/models/src/model/shape.rs`.
#[test]
#[ignore = "needs a GPU: make gpu-check"]
fn gpu_answers_of_padded_batches_are_each_callers_own() {
    let [cpu, gpu] = ["cpu", "cuda"].map(|device| {
        let more = ["--name", "m", "--max-batch", "8", "--device", device];
        Host::with(Some(&component("tests/image")), Some(&made("image.onnx")), &more)
    });
    let pixels = std::fs::read(made("image.body")).unwrap().len() / 4;
    // One caller, then several, then one: few rows after many.
    for callers in [1, 5, 8, 3, 1] {
        thread::scope(|scope| {
            for caller in 0..callers {
                let (cpu, gpu) = (&cpu, &gpu);
                scope.spawn(move || {
                    for turn in 0..12 {
                        let value = (caller * 12 + turn) as f32 / 100.0 - 0.5;
                        let body = value.to_le_bytes().repeat(pixels);
                        let ask = |host: &Host| {
                            host.request("POST", "/m", &[("content-type", "application/octet-stream")], &body)
                        };
                        assert_same(&format!("{callers} callers, {value}"), &ask(cpu), &ask(gpu));
                    }
                });
            }
        });
    }
}

#[test]
#[ignore = "needs a GPU: make gpu-check"]
fn gpu_what_handlers_ask_of_models_is_the_cpus() {
    let endpoint = |name: &str, device: &str| {
        let device = format!("device = '{device}'");
        Endpoint::new(name)
            .guest("models")
            .named_model("add", "add", &device)
            .named_model("slow", "slow", &device)
    };
    let host = Setup::of([endpoint("cpu", "cpu"), endpoint("gpu", "cuda")]).serve();
    for order in [
        json!({"do": "infer"}),
        json!({"do": "chain", "times": 1000}),
        json!({"do": "rows"}),
        json!({"do": "together", "model": "slow", "times": 8}),
        json!({"do": "wrong"}),
    ] {
        let (gpu, cpu) = (host.ask("/gpu", &order), host.ask("/cpu", &order));
        assert!(same(&cpu, &gpu), "{order}: the CPU says {cpu}, the GPU {gpu}");
    }
    let sums = ["cpu", "cuda"].map(|device| {
        let device = format!("device = '{device}'");
        let steps = r#"
inputs = ["x", "y"]
outputs = ["z"]
steps = [
  { model = "first", input_map = { a = "x", b = "y" }, output_map = { sum = "both" } },
  { model = "second", input_map = { a = "both", b = "y" }, output_map = { sum = "z" } },
]"#;
        let endpoint = Endpoint::new("sums").table("ensemble", steps);
        Setup::of([endpoint.named_model("first", "add", &device).named_model("second", "add", &device)])
            .serve()
    });
    let [cpu, gpu] = sums.map(|host| host.post("/sums", r#"{"x": [1.5, 2], "y": [10, 20]}"#));
    assert_same("an ensemble", &cpu, &gpu);
}

#[test]
#[ignore = "needs a GPU: make gpu-check"]
fn gpu_memory_is_limited_model_by_model() {
    let encoder = made("encoder.onnx");
    let error = refused(&encoder, "cuda", &["--device-memory", "16MiB"]);
    assert!(error.contains("device `cuda:0`: its memory does not suffice\n  hint: raise"), "{error}");

    let endpoint = |name: &str, model: &Path, memory: &str| {
        Endpoint::new(name).model_at(model, &format!("device = 'cuda', device_memory = '{memory}'"))
    };
    let host =
        Setup::of([endpoint("m", &model("add"), "64MiB"), endpoint("encoder", &encoder, "2GiB")]).serve();
    assert_eq!(host.endpoint("encoder")["models"][0]["device"], "cuda:0");
    assert_eq!(device(&host), "cuda:0");
    assert_eq!(host.post("/m", r#"{"a": [1, 2], "b": [3, 4]}"#).json(), json!([[4.0, 6.0]]));
}

#[test]
#[ignore = "needs a GPU: make gpu-check"]
fn gpu_is_what_auto_takes_and_the_number_has_to_be_right() {
    let host = serve(&model("add"), "auto", &[]);
    assert_eq!(device(&host), "cuda:0");
    host.wait_for_log("device `auto`: `cuda:0`");
    let error = refused(&model("add"), "cuda:63", &[]);
    assert!(error.contains("device `cuda:63`: there is no such device"), "{error}");
}
