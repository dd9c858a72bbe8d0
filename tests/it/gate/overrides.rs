//! What one order lets differ for the gate: the endpoint's terms are as they were for the next.

use std::fs;

use e2e::{host, request};
use serde_json::json;

use super::{Gate, gated};

/// The other version of the file in `mode`, so that no handler is what is served already.
fn another(mode: &str) -> Vec<u8> {
    [&gated(mode)[..], b"\0\x03\x01v2"].concat()
}

#[test]
fn an_order_says_what_may_differ() {
    let gate = Gate::start(&["--gate-samples", "10"]);
    gate.send(&["1", "{}", "[2]"]);
    let url = format!("{}/admin/v1/endpoints/gated/plugin?", gate.host.admin);
    let order = |query: &str, handler: &[u8]| request("PUT", &format!("{url}{query}"), &[], handler);
    for (query, mode, reason) in [
        ("ignore=/other", "took", "/took: 3 is new"),
        ("tolerance=0.0001", "far", "/score: "),
        ("mismatches=0.9", "status", "3 of 3 samples differ (a share of 0.9 may)"),
        ("accept_differences=false", "label", "3 of 3 samples differ, "),
    ] {
        let reply = order(query, &gated(mode));
        assert_eq!(reply.status, 409, "{query}: {}", reply.text());
        let error = reply.json()["error"].as_str().unwrap().to_owned();
        assert!(error.contains(reason) && error.contains("`--accept-differences`"), "{query}: {error}");
    }
    for (query, mode) in [
        ("ignore=/took", "took"),
        ("ignore=/took&ignore=/score", "far"),
        ("tolerance=0.01", "good"),
        ("mismatches=1", "status"),
        ("accept_differences=true", "label"),
    ] {
        let reply = order(query, &another(mode));
        assert_eq!((reply.status, &reply.json()["outcome"]), (200, &json!("published")), "{query}");
        // It was for that order only.
        gate.refused(&gated("trap"), "gate");
    }
    for (query, expected) in [
        ("tolerance=-1", "`tolerance=-1`: expected "),
        ("mismatches=2", "`mismatches=2`: expected "),
        ("accept_differences=perhaps", "`accept_differences=perhaps`: expected `true` or `false`"),
        ("ignore=*", "`*` is neither a path nor a header's name"),
    ] {
        let reply = order(query, &gated("good"));
        assert_eq!(reply.status, 400, "{query}: {}", reply.text());
        assert!(reply.text().contains(expected), "{query}: {}", reply.text());
    }
    let url = format!("{}/admin/v1/endpoints/gated/rollback?tolerance=1", gate.host.admin);
    assert_eq!(request("POST", &url, &[], b"").status, 400);
}

#[test]
fn the_command_says_what_may_differ() {
    let gate = Gate::start(&["--gate-samples", "10"]);
    gate.send(&["1", "{}"]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("new.wasm");
    let swap = |mode: &str, flags: &[&str]| {
        fs::write(&file, another(mode)).unwrap();
        let order = ["swap", "gated", "--admin", &gate.host.admin, "--plugin", file.to_str().unwrap()];
        host(&[&order[..], flags].concat())
    };
    for (mode, flags) in [
        ("took", &["--ignore", "/took"][..]),
        ("far", &["--tolerance", "0.01", "--ignore", "/took"]),
        ("status", &["--mismatches", "1"]),
        ("label", &["--accept-differences"]),
    ] {
        let refused = swap(mode, &[]);
        let error = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(
            !refused.status.success() && error.contains("the gate refuses the handler"),
            "{mode}: {error}"
        );
        let taken = swap(mode, flags);
        assert!(taken.status.success(), "{mode}: {}", String::from_utf8_lossy(&taken.stderr));
    }
    let both = swap("good", &["--accept-differences", "--canary", "0.1"]);
    assert_eq!(both.status.code(), Some(2));
}
