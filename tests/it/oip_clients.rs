//! Clients that others wrote for the Open Inference Protocol over HTTP: Triton's Python client and its perf_analyzer.

use std::process::Command;

use e2e::setup::{Endpoint, Setup};
use e2e::{Host, clients, component, model};

/// An endpoint for a model, under its name.
fn of(model: &str) -> Endpoint {
    Endpoint::new(model).model(model)
}

fn address(host: &Host) -> &str {
    host.url.trim_start_matches("http://")
}

#[test]
fn tritonclient() {
    let models = [
        "identity_bool",
        "identity_uint8",
        "identity_uint16",
        "identity_uint32",
        "identity_uint64",
        "identity_int8",
        "identity_int16",
        "identity_int32",
        "identity_int64",
        "identity_fp16",
        "identity_bf16",
        "identity_fp32",
        "identity_fp64",
        "identity_bytes",
        "iris_dyn",
        "rows",
    ];
    let host = Setup::of(models.map(of)).tables("[server]\nmodel_control = true").serve();
    let said = clients::run("triton_http", &[address(&host)]);
    for part in ["datatype BF16", "datatype BYTES", "iris", "several", "models", "repository", "errors"] {
        assert!(said.lines().any(|line| line == part), "{part} is missing in\n{said}");
    }
}

#[test]
fn every_method_of_tritonclient_has_an_answer() {
    let host = Setup::of([Endpoint::new("iris").model("iris_dyn"), Endpoint::new("other").model("rows")])
        .arguments(&["--model-control", "--grpc-listen", "127.0.0.1:0"])
        .serve();
    let said = clients::run("triton_methods", &[address(&host), host.grpc.as_ref().unwrap()]);
    // What is refused on purpose.
    for kind in ["http", "grpc"] {
        for (method, words) in [
            ("update_trace_settings", "tracing is not changed by clients"),
            ("update_log_settings", "logging is not changed by clients"),
            ("register_system_shared_memory", "system shared memory is off"),
            ("register_cuda_shared_memory", "CUDA shared memory is not supported"),
        ] {
            let line = format!("{kind} {method}: ");
            assert!(
                said.lines().any(|said| said.starts_with(&line) && said.contains(words)),
                "{line}\n{said}"
            );
        }
    }
    assert_eq!(said.lines().count(), 8, "{said}");
}

/// The number after `label` in what perf_analyzer says.
pub(crate) fn number(said: &str, label: &str) -> f64 {
    let after = said.split(label).nth(1).unwrap_or_else(|| panic!("no `{label}` in\n{said}"));
    let digits: String = after.trim_start().chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    digits.parse().unwrap()
}

/// Runs perf_analyzer for a moment and gives what it says.
pub(crate) fn perf_analyzer(address: &str, model: &str, more: &[&str]) -> String {
    let mut command = Command::new(clients::program("perf/perf_analyzer"));
    command.env("LD_LIBRARY_PATH", clients::program("perf"));
    command.args(["-u", address, "-m", model]);
    // Three short windows in a row, however much they differ: this is no measurement. One may pass without an answer.
    command.args(["--measurement-interval", "300", "--stability-percentage", "999", "--max-trials", "20"]);
    clients::finished(command.args(more), "perf_analyzer")
}

#[test]
fn perf_analyzer_measures_models() {
    let batching = of("iris_dyn").set("batching = { max_batch = 8, wait = 'always' }");
    let host = Setup::of([of("iris_static"), batching, of("strid")]).serve();
    for (model, more) in [
        ("iris_static", &["--concurrency-range", "4"][..]),
        ("iris_static", &["--async"]),
        ("iris_static", &["--input-tensor-format", "json", "--output-tensor-format", "json"]),
        // A model that takes batches.
        ("iris_dyn", &["-b", "2"]),
        ("strid", &[]),
    ] {
        let said = perf_analyzer(address(&host), model, more);
        assert!(number(&said, "Throughput:") > 0.0, "{said}");
        // What it has from the statistics.
        let answered = number(&said, "Successful request count:");
        assert!(answered > 0.0 && number(&said, "Inference count:") >= answered, "{said}");
        let runs = number(&said, "Execution count:");
        assert!(runs > 0.0 && runs <= answered + 8.0, "{said}");
        assert!(number(&said, "compute infer") > 0.0, "{said}");
    }
}

#[test]
fn perf_analyzer_measures_a_handler() {
    let bare = ["--name", "iris", "--bare-tensors"];
    let host = Host::with(Some(&component("iris-wasm")), Some(&model("iris_static")), &bare);
    let said = perf_analyzer(address(&host), "iris", &["--request-rate-range", "100"]);
    assert!(number(&said, "Successful request count:") > 0.0, "{said}");
}
