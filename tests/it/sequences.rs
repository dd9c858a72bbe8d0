//! Triton's sequence extension: state that is kept for a model, by Triton's own clients.

use std::{fs, thread, time::Duration};

use e2e::setup::{Endpoint, Setup};
use e2e::{Host, clients, model};
use serde_json::{Value, json};

/// `accumulator`, which adds half of its state to what comes.
fn accumulator(name: &str) -> Endpoint {
    Endpoint::new(name)
        .model_at(&model("accumulator"), "state = { state_out = 'state_in', count_out = 'count_in' }")
}

/// The body of a request in a sequence.
fn body(id: &Value, start: bool) -> String {
    let input = json!({ "name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1, 2] });
    let parameters = json!({ "sequence_id": id, "sequence_start": start });
    json!({ "inputs": [input], "parameters": parameters }).to_string()
}

/// How many requests of its sequence the model has seen.
fn count(host: &Host, name: &str, id: &Value, start: bool) -> i64 {
    let reply = host.post(&format!("/v2/models/{name}/infer"), body(id, start));
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()["outputs"][1]["data"][0].as_i64().unwrap()
}

#[test]
fn tritonclient_has_its_sequences() {
    let host = Setup::of([
        accumulator("sums").limits("sequences = 2"),
        accumulator("neighbour"),
        Endpoint::new("orders").guest("orders"),
    ])
    .arguments(&["--grpc-listen", "127.0.0.1:0"])
    .serve();
    let address = host.url.trim_start_matches("http://");
    clients::run("triton_sequences", &[address, host.grpc.as_ref().unwrap()]);
    // A field of `generate` is a parameter as well.
    for (start, expected) in [(true, 1), (false, 2)] {
        let body = json!({ "x": [1, 2], "sequence_id": "g", "sequence_start": start }).to_string();
        assert_eq!(host.post("/v2/models/sums/generate", body).json()["n"], json!(expected));
    }
}

#[test]
fn a_sequence_ends_with_its_model_and_not_with_that_of_another() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("model.onnx");
    fs::copy(model("accumulator"), &file).unwrap();
    let state = "state = { state_out = 'state_in', count_out = 'count_in' }";
    let host = Setup::of([Endpoint::new("sums").model_at(&file, state), accumulator("neighbour")])
        .tables("[server]\nmodel_control = true")
        .serve();
    let id = json!(1);
    for name in ["sums", "neighbour"] {
        assert_eq!(count(&host, name, &id, true), 1);
        assert_eq!(count(&host, name, &id, false), 2);
    }
    // The same file: nothing is swapped, and the sequence goes on.
    assert_eq!(host.post("/v2/repository/models/sums/load", "{}").status, 200);
    assert_eq!(count(&host, "sums", &id, false), 3);
    let mut other = fs::read(&file).unwrap();
    // A name of the graph, which means nothing.
    let at = other.windows(11).position(|bytes| bytes == b"accumulator").unwrap();
    other[at] = b'A';
    e2e::replace(&file, &other);
    assert_eq!(host.post("/v2/repository/models/sums/load", "{}").status, 200);
    let reply = host.post("/v2/models/sums/infer", body(&id, false));
    let text = reply.error(400, "invalid_input", "infer");
    assert!(text.contains("must specify the START flag") && text.contains("had another model"), "{text}");
    assert_eq!(count(&host, "sums", &id, true), 1);
    assert_eq!(count(&host, "neighbour", &id, false), 3);
}

#[test]
fn idle_sequences_and_too_many_bytes_end_and_others_go_on() {
    // 16 bytes a sequence.
    let host = Setup::of([
        accumulator("short").limits("sequence_idle = '300ms'"),
        accumulator("small").limits("sequence_memory = 40"),
        accumulator("both").limits("sequence_memory = 40, sequence_idle = '300ms'"),
        accumulator("neighbour"),
    ])
    .serve();
    let [one, two, three] = [json!("one"), json!("two"), json!("three")];
    for name in ["short", "neighbour", "both"] {
        assert_eq!(count(&host, name, &one, true), 1);
    }
    assert_eq!(count(&host, "both", &two, true), 1);
    thread::sleep(Duration::from_millis(400));
    let reply = host.post("/v2/models/short/infer", body(&one, false));
    assert!(reply.error(400, "invalid_input", "infer").contains("START flag"));
    assert_eq!(count(&host, "neighbour", &one, false), 2);

    // The room of those that were idle is had back.
    for id in [&three, &two] {
        assert_eq!(count(&host, "both", id, true), 1);
    }

    for id in [&one, &two] {
        assert_eq!(count(&host, "small", id, true), 1);
    }
    let reply = host.post("/v2/models/small/infer", body(&three, true));
    let text = reply.error(503, "overloaded", "infer");
    assert_eq!(text, "the state of all sequences may take 40 bytes; this one has ended");
    assert_eq!(count(&host, "small", &one, false), 2);
    assert_eq!(count(&host, "neighbour", &three, true), 1);
    for (endpoint, sequences, bytes) in [("short", 0.0, 0.0), ("small", 2.0, 32.0), ("neighbour", 2.0, 32.0)]
    {
        let figure = |name: &str| host.metric(&format!("modelhost_{name}{{endpoint=\"{endpoint}\"}}"));
        assert_eq!((figure("sequences"), figure("sequence_bytes")), (sequences, bytes), "{endpoint}");
    }
}

#[test]
fn answers_that_depend_on_state_are_not_kept() {
    let host = Setup::of([accumulator("sums").set("response_cache = { size = '1MiB' }")]).serve();
    let id = json!(1);
    assert_eq!(count(&host, "sums", &id, true), 1);
    for expected in [2, 3, 4] {
        assert_eq!(count(&host, "sums", &id, false), expected);
    }
}

#[test]
fn state_that_the_model_has_not_is_told_at_the_start() {
    for (state, expected) in [
        ("x = 'state_in'", "state: the model has no output `x` that could be state"),
        ("y = 'z'", "state: the model has no input `z` that could be state"),
        ("y = 'count_in'", "state: output FP32 [N, 2] does not fit input INT64 [1]"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("modelhost.toml");
        let path = model("accumulator");
        let text =
            format!("[[endpoint]]\nname = 'sums'\nmodel = {{ path = {path:?}, state = {{ {state} }} }}\n");
        fs::write(&config, text).unwrap();
        let arguments = ["--config", config.to_str().unwrap()].map(str::to_owned);
        let Err((status, log)) = Host::try_serve(&arguments) else { panic!("`{state}` is served") };
        assert!(status.code() == Some(1) && log.contains(expected), "{log}");
    }
}
