//! TLS: who is let speak it, what it speaks, and certificates that change.

use std::fs;
use std::io::ErrorKind;
use std::process::Command;
use std::time::{Duration, Instant};

use e2e::frames::Http2;
use e2e::tls::{Pair, issue};
use e2e::wire::{self, Wire};
use e2e::{Host, component, wait_until};

fn serve(pair: &Pair, more: &[&str]) -> Host {
    Host::with(Some(&component("tests/echo")), None, &[&["--name", "echo"], &pair.flags()[..], more].concat())
}

/// Posts over a new connection of TLS, and gives the body that came back.
fn posted(pair: &Pair, url: &str) -> String {
    let mut wire = pair.connect(url).unwrap();
    // Twice on one connection.
    for _ in 0..2 {
        wire.send(&wire::post("/echo", &[], "hello")).unwrap();
        assert_eq!(wire.read().unwrap().json()["body"], "hello");
    }
    wire.send(&wire::get("/healthz")).unwrap();
    wire.read().unwrap().text()
}

/// `HTTP-VERSION STATUS BODY` of a request that curl makes.
fn curl(pair: &Pair, url: &str, arguments: &[&str]) -> String {
    let url = url.replace("127.0.0.1", "localhost");
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--max-time", "30", "--cacert"])
        .arg(&pair.certificate)
        .args(["--write-out", "%{http_version} %{http_code} ", "--output", "-"])
        .args(arguments)
        .arg(format!("{url}/echo"))
        .output()
        .expect("curl is installed; hint: apt-get install curl");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn requests_come_over_tls_in_every_version_of_it_and_of_http() {
    let folder = tempfile::tempdir().unwrap();
    let pair = Pair::in_folder(folder.path());
    let host = serve(&pair, &[]);
    assert!(host.url.starts_with("https://127.0.0.1:"), "{}", host.url);
    assert!(host.admin.starts_with("http://"), "the admin address is as it was");
    assert_eq!(posted(&pair, &host.url), r#"{"ok":true}"#);
    for (arguments, version) in [
        (&["--http2", "--tlsv1.3"][..], "2"),
        (&["--http2", "--tls-max", "1.2"], "2"),
        (&["--http1.1", "--tlsv1.3"], "1.1"),
        (&["--http1.1", "--tls-max", "1.2"], "1.1"),
    ] {
        let answer = curl(&pair, &host.url, &[arguments, &["--data", "x"]].concat());
        assert!(answer.ends_with(&format!("{version} 200 ")) && answer.contains(r#""body":"x""#), "{answer}");
    }
    // What is long is the same: encrypted in records, sent in frames.
    let long = folder.path().join("long");
    fs::write(&long, "y".repeat(3 << 20)).unwrap();
    let data = format!("@{}", long.display());
    for version in ["--http2", "--http1.1"] {
        let answer = curl(&pair, &host.url, &[version, "--data-binary", &data, "--header", "expect:"]);
        assert!(answer.contains(&"y".repeat(3 << 20)), "{version}: {:.200}", answer);
    }
}

#[test]
fn who_speaks_no_tls_is_cut_off_and_nobody_else() {
    let folder = tempfile::tempdir().unwrap();
    let pair = Pair::in_folder(folder.path());
    let host = serve(&pair, &["--header-timeout", "500ms"]);
    let neighbour = pair.connect(&host.url).unwrap();
    for nonsense in [&wire::get("/healthz")[..], b"\x16\x03\x01", b""] {
        let started = Instant::now();
        let mut wire = Wire::connect(&host.url).unwrap();
        wire.send(nonsense).unwrap();
        let answer = wire.until_closed();
        assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
        assert!(started.elapsed() < Duration::from_secs(20), "took {:?}", started.elapsed());
    }
    drop(neighbour);
    // A client that trusts somebody else goes away by itself.
    let other = tempfile::tempdir().unwrap();
    let stranger = Pair::in_folder(other.path());
    assert_eq!(stranger.connect(&host.url).err().unwrap().kind(), ErrorKind::InvalidData);
    posted(&pair, &host.url);
    // HTTP/2 without the agreement to speak it (ALPN): its preface is enough.
    let mut frames = Http2::begin(pair.connect(&host.url).unwrap()).unwrap();
    frames.receive_kind(e2e::frames::SETTINGS).unwrap();
}

#[test]
fn a_renewed_certificate_is_served_and_a_bad_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let pair = Pair::in_folder(folder.path());
    let host = serve(&pair, &["--tls-admin"]);
    assert!(host.admin.starts_with("https://"), "{}", host.admin);
    let mut kept = pair.connect(&host.url).unwrap();
    let mut admin = pair.connect(&host.admin).unwrap();
    admin.send(&wire::get("/admin/v1/endpoints")).unwrap();
    assert_eq!(admin.read().unwrap().json()["endpoints"][0]["name"], "echo");

    pair.renew();
    wait_until("the new certificate", || pair.connect(&host.url).is_ok());
    wait_until("the same on the admin address", || pair.connect(&host.admin).is_ok());
    kept.send(&wire::get("/healthz")).unwrap();
    assert_eq!(kept.read().unwrap().status, 200, "a connection from before");

    // Half a pair, and nonsense: the log says so, and what was served goes on.
    let good = fs::read(&pair.certificate).unwrap();
    let refusals = || host.log().matches("new certificate or key refused").count();
    for (file, text) in [(&pair.key, issue().1), (&pair.certificate, "nonsense".to_owned())] {
        let before = refusals();
        fs::write(file, &text).unwrap();
        wait_until("the log to refuse it", || refusals() > before);
        if file == &pair.certificate {
            fs::write(file, &good).unwrap();
        }
        assert!(pair.connect(&host.url).is_ok());
    }
    host.wait_for_log("is not that of the first certificate");
    let log = host.log();
    for line in fs::read_to_string(&pair.key).unwrap().lines() {
        assert!(!log.contains(line), "a line of the key in {log}");
    }
}

#[test]
fn a_pair_that_cannot_be_served_is_refused_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let pair = Pair::in_folder(folder.path());
    let good = fs::read_to_string(&pair.certificate).unwrap();
    let other = issue();
    let secret = "-----BEGIN PRIVATE KEY-----\nc2VjcmV0c2VjcmV0\n-----END PRIVATE KEY-----\n";
    for (certificate, key, expected) in [
        (good.as_str(), other.1.as_str(), "is not that of the first certificate"),
        (good.as_str(), "nothing", "holds no private key"),
        (good.as_str(), secret, "cannot serve"),
        (other.1.as_str(), other.1.as_str(), "holds no certificate"),
    ] {
        fs::write(&pair.certificate, certificate).unwrap();
        fs::write(&pair.key, key).unwrap();
        let plugin = component("tests/echo");
        let arguments = [&["--plugin", plugin.to_str().unwrap()], &pair.flags()[..]].concat();
        let (status, log) = Host::try_serve(&arguments).err().expect("it does not start");
        assert_eq!(status.code(), Some(1), "{log}");
        assert!(log.contains(expected) && log.contains("hint: "), "{expected}: {log}");
        assert!(!log.contains("c2VjcmV0"), "{log}");
    }
    let alone = pair.flags();
    let (status, log) = Host::try_serve(&["--plugin", "x.wasm", alone[0], alone[1]]).err().unwrap();
    assert!(status.code() == Some(2) && log.contains("--tls-cert: is one half of a pair"), "{log}");
}
