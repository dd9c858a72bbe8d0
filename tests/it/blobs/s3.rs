//! Objects in S3: shared by hosts; a server that is lost, and found again.

use std::process::Command;
use std::time::Instant;

use e2e::serve_command;
use e2e::tls::Pair;

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
    host.wait_for_log("the store of objects cannot be used");
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

/// Runs what follows where the machine's name for the bucket is known, which no other process sees.
const WITH_A_NAME: &str = r#"
    cp /etc/hosts "$0"
    echo "127.0.0.1 objects.localhost" >> "$0"
    mount --bind "$0" /etc/hosts
    exec "$@""#;

#[test]
fn a_bucket_is_reached_over_tls_and_by_a_name_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let pair = Pair::in_folder(folder.path());
    let s3 = S3::over_tls(&pair);
    let config = folder.path().join("modelhost.toml");
    let start = |server: &str, addressing: &str, trusted: Option<&Pair>| {
        let store = s3.store("fleet", KEY).replace("127.0.0.1", server);
        let tables = format!("{store}\naddressing = '{addressing}'");
        std::fs::write(&config, Setup::of([keeper("it", "['a']")]).tables(tables).text()).unwrap();
        let serve = serve_command(&["--config", config.to_str().unwrap()]);
        let is_root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
        let mut command = Command::new("/usr/bin/unshare");
        command.arg("--mount").args((!is_root).then_some("--map-root-user"));
        command.args(["/bin/sh", "-ec", WITH_A_NAME]).arg(folder.path().join("hosts"));
        command.arg(serve.get_program()).args(serve.get_args());
        command.envs(trusted.map(|pair| ("SSL_CERT_FILE", &pair.certificate)));
        Host::try_start(command)
    };
    // Of more than one part, so that each kind of request is made.
    let size = 9 << 20;
    let orders =
        json!([["open", "a"], ["set", "ä b/=", "v"], ["fill", "big", size], ["verify", "big"], ["names"]]);
    for (server, addressing) in [("127.0.0.1", "path"), ("localhost", "path"), ("localhost", "host")] {
        let host = start(server, addressing, Some(&pair)).unwrap_or_else(|(_, log)| panic!("{log}"));
        let seen = host.ask("/it", &orders);
        assert_eq!(
            seen,
            json!(["opened", null, null, [size, true], ["big", "ä b/="]]),
            "{server} {addressing}"
        );
    }
    // Whom the system does not trust is no server of objects.
    let (status, log) = start("localhost", "host", None).err().unwrap();
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.contains("certificate"), "{log}");
}
