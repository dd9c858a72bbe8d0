//! Objects in S3: shared by hosts; a server that is lost, and found again.

use std::time::Instant;

use super::*;

/// The longest that a call takes, with a store that is lost or hung.
const PROMPT: Duration = Duration::from_secs(8);

#[test]
fn a_server_that_is_gone_or_hangs_is_an_error_and_no_wait_without_end() {
    let mut s3 = S3::start();
    // By the defaults: a handler has an error before its own time ends.
    let endpoints = [keeper("it", "['a']"), Endpoint::new("neighbour").guest("echo")];
    let host = Setup::of(endpoints).tables(s3.store("", KEY).replace("timeout = \"20s\"\n", "")).serve();
    let up = || host.metric("modelhost_blob_store_up{endpoint=\"it\"}");
    let orders = json!([["open", "a"], ["set", "k", "v"], ["get", "k"]]);
    assert_eq!(host.ask("/it", &orders), json!(["opened", null, "v"]));
    assert_eq!(up(), 1.0);
    let load = Pattern::new(&host.url, "/neighbour").start();
    let fails = || {
        for order in [json!(["get", "k"]), json!(["set", "k", "v"])] {
            let begun = Instant::now();
            let seen = host.ask("/it", &json!([["open", "a"], order]));
            let error = seen[1]["error"].as_str().unwrap_or_default();
            assert!(error.starts_with("the store cannot be used: "), "{seen}");
            assert!(begun.elapsed() < PROMPT, "{:?}", begun.elapsed());
            assert_eq!(up(), 0.0);
        }
    };
    s3.signal("STOP");
    fails();
    s3.signal("CONT");
    wait_until("the store to be used again", || host.ask("/it", &orders)[2] == "v");
    assert_eq!(up(), 1.0);
    s3.kill();
    fails();
    s3.restart();
    wait_until("the store to be used again", || host.ask("/it", &orders)[2] == "v");
    assert_echoed(&load.stop(), Duration::from_secs(5));
    assert!(host.log().contains("the store of objects cannot be used"), "{}", host.log());
}

#[test]
fn hosts_with_one_prefix_share_their_objects() {
    let s3 = S3::start();
    let setup = |prefix: &str| Setup::of([keeper("it", "['a', 'shared/b']")]).tables(s3.store(prefix, KEY));
    let hosts = [setup("fleet").serve(), setup("fleet").serve()];
    let other = setup("other").serve();
    for container in ["a", "shared/b"] {
        hosts[0].ask("/it", &json!([["open", container], ["set", "dir/k", "v"]]));
        let orders = json!([["open", container], ["get", "dir/k"], ["names"]]);
        assert_eq!(hosts[1].ask("/it", &orders), json!(["opened", "v", ["dir/k"]]));
        assert_eq!(other.ask("/it", &orders), json!(["opened", null, []]));
    }
}
