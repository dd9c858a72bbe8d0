//! Triton's system shared memory extension, by its own clients, over HTTP and gRPC.

use std::fs;
use std::net::UdpSocket;
use std::process::{self, Command};

use e2e::setup::{Endpoint, Setup};
use e2e::{Host, clients};
use serde_json::json;

use crate::oip_clients::{number, perf_analyzer};

fn endpoints() -> Setup {
    Setup::of([
        Endpoint::new("iris").model("iris_dyn").limits("body = '64KiB'"),
        Endpoint::new("fp32").model("identity_fp32"),
        Endpoint::new("bytes").model("identity_bytes"),
        Endpoint::new("orders").guest("orders"),
    ])
}

fn address(host: &Host) -> &str {
    host.url.trim_start_matches("http://")
}

#[test]
fn tritonclient_sends_and_takes_tensors_in_shared_memory() {
    let host = endpoints().arguments(&["--shared-memory", "4", "--grpc-listen", "127.0.0.1:0"]).serve();
    let prefix = format!("modelhost-test-{}", process::id());
    clients::run("triton_shared_memory", &[address(&host), host.grpc.as_ref().unwrap(), &prefix]);
    // All that was refused was the caller's.
    assert!(!host.log().contains("ERROR"), "{}", host.log());
}

#[test]
fn perf_analyzer_measures_with_shared_memory() {
    let host = endpoints().arguments(&["--shared-memory", "100", "--grpc-listen", "127.0.0.1:0"]).serve();
    let shared = ["--shared-memory", "system", "--output-shared-memory-size", "1024"];
    for (address, more) in
        [(address(&host), &["-i", "http"]), (host.grpc.as_deref().unwrap(), &["-i", "grpc"])]
    {
        let more: Vec<&str> = shared
            .iter()
            .chain(more)
            .chain(&["--concurrency-range", "2", "--shape", "input:2,4"])
            .copied()
            .collect();
        let said = perf_analyzer(address, "iris", &more);
        assert!(number(&said, "Successful request count:") > 0.0, "{said}");
    }
}

#[test]
fn callers_that_are_not_on_a_loopback_address_register_nothing() {
    // Sends nothing: the system says from which address it would. A machine without any is one of its own.
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    let own = socket.connect("192.0.2.1:9").and_then(|()| socket.local_addr());
    let Some(own) = own.ok().filter(|own| !own.ip().is_loopback()) else { return };
    let listen = format!("{}:0", own.ip());
    let config = tempfile::NamedTempFile::new().unwrap();
    fs::write(config.path(), endpoints().text()).unwrap();
    let mut command = Command::new(e2e::host_binary());
    command.args(["serve", "--admin-listen", "127.0.0.1:0", "--shared-memory", "4", "--config"]);
    command.arg(config.path()).args(["--listen", &listen, "--grpc-listen", &listen]);
    let host = Host::try_start(command).unwrap();
    clients::run("triton_own_address", &[address(&host), host.grpc.as_ref().unwrap()]);
}

#[test]
fn without_the_setting_no_region_is_taken() {
    let host = endpoints().serve();
    assert!(!host.get("/v2").text().contains("system_shared_memory"));
    let body = json!({ "key": "/anything", "offset": 0, "byte_size": 1 }).to_string();
    let refused = host.post("/v2/systemsharedmemory/region/r/register", body);
    let text = refused.error(400, "invalid_input", "admit");
    assert!(text.contains("system shared memory is off"), "{text}");
    assert_eq!(host.get("/v2/systemsharedmemory/status").json(), json!([]));
    let input = json!({
        "name": "x", "datatype": "FP32", "shape": [1],
        "parameters": { "shared_memory_region": "r", "shared_memory_byte_size": 4 },
    });
    let body = json!({ "inputs": [input] }).to_string();
    host.post("/v2/models/fp32/infer", body).error(400, "invalid_input", "admit");
}

#[test]
fn regions_need_a_key_where_all_endpoints_do_and_no_page_registers_one() {
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys");
    fs::write(&keys, "a-key-that-opens-it\n").unwrap();
    let host = Setup::of([Endpoint::new("fp32")
        .model("identity_fp32")
        .set(format!("keys = ['@{}']", keys.display()))])
    .arguments(&["--shared-memory", "1"])
    .serve();
    let register = "/v2/systemsharedmemory/region/r/register";
    let body = || json!({ "key": "/nothing-here", "byte_size": 1 }).to_string();
    host.post(register, body()).error(401, "unauthorized", "admit");
    host.post("/v2/systemsharedmemory/unregister", "").error(401, "unauthorized", "admit");
    host.get("/v2/systemsharedmemory/status").error(401, "unauthorized", "admit");
    let key = ("authorization", "Bearer a-key-that-opens-it");
    host.request("POST", register, &[key], body().as_bytes()).error(400, "invalid_input", "admit");
    let page = ("origin", "https://elsewhere.example");
    assert_eq!(host.request("POST", register, &[key, page], body().as_bytes()).status, 403);
}
