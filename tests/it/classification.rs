//! Triton's classification extension, by its own client, over HTTP and gRPC.

use std::fs;

use e2e::setup::{Endpoint, Setup};
use e2e::{Host, clients, model};
use serde_json::json;

const BATCHING: &str = "batching = { max_batch = 8, wait = 'always' }";

#[test]
fn tritonclient_gets_the_classes_that_it_counts() {
    let folder = tempfile::tempdir().unwrap();
    let labels = folder.path().join("labels.txt");
    // The third class has no name.
    fs::write(&labels, "setosa\r\nversicolor\n").unwrap();
    let named =
        Endpoint::new("named").model_at(&model("iris_dyn"), &format!("labels = {labels:?}")).set(BATCHING);
    let host = Setup::of([
        named,
        Endpoint::new("iris").model("iris_dyn"),
        Endpoint::new("fp32").model("identity_fp32"),
        Endpoint::new("bytes").model("identity_bytes"),
    ])
    .arguments(&["--grpc-listen", "127.0.0.1:0"])
    .serve();
    let address = host.url.trim_start_matches("http://");
    clients::run("triton_classes", &[address, host.grpc.as_ref().unwrap()]);

    let request = |count| {
        json!({
            "inputs": [{ "name": "input", "datatype": "FP32", "shape": [1, 4], "data": [5.2, 3.6, 1.4, 0.3] }],
            "outputs": [{ "name": "probabilities", "parameters": { "classification": count } }],
        })
    };
    let reply = host.post("/v2/models/named/infer", request(json!(1)).to_string());
    let output = json!({
        "name": "probabilities", "datatype": "BYTES", "shape": [1, 1], "data": ["0.981931:0:setosa"],
    });
    assert_eq!(reply.json()["outputs"], json!([output]));
    for wrong in [json!(-1), json!("2"), json!(1.5)] {
        host.post("/v2/models/named/infer", request(wrong).to_string()).error(400, "invalid_input", "admit");
    }
}

#[test]
fn labels_that_cannot_be_read_end_the_start_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let binary = folder.path().join("binary");
    fs::write(&binary, [0xff, 0xfe]).unwrap();
    let long = folder.path().join("long");
    fs::File::create(&long).unwrap().set_len((16 << 20) + 1).unwrap();
    for (file, expected) in [
        (&binary, "not UTF-8"),
        (&long, "it has 16777217 bytes, more than 16777216"),
        (&folder.path().join("none"), "No such file"),
    ] {
        let arguments = ["--model", model("iris_dyn").to_str().unwrap(), "--labels", file.to_str().unwrap()]
            .map(str::to_owned);
        let Err((status, log)) = Host::try_serve(&arguments) else { panic!("`{}` is read", file.display()) };
        assert_eq!(status.code(), Some(1), "{log}");
        assert!(log.contains(expected), "{expected} in {log}");
    }
}
