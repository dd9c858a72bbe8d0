//! The operator's address: which requests it answers, and that no client can close it to the others.

use std::io::Write as _;
use std::net::TcpStream;

use e2e::wire::Wire;
use e2e::{Host, Reply, component, request, wait_until};
use serde_json::json;

fn serve(more: &[&str]) -> Host {
    Host::with(Some(&component("tests/echo")), None, &[&["--name", "echo"], more].concat())
}

fn asked(host: &Host, path: &str, headers: &[(&str, &str)]) -> Reply {
    let lines: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let mut wire = Wire::connect(&host.admin).unwrap();
    wire.send(format!("GET {path} HTTP/1.1\r\n{lines}\r\n").as_bytes()).unwrap();
    wire.read().unwrap()
}

#[test]
fn only_who_addresses_this_host_is_answered() {
    let host = serve(&["--admin-host", "models.internal"]);
    let with_port = host.admin.strip_prefix("http://").unwrap();
    for (name, status) in [
        (with_port, 200),
        ("localhost:1", 200),
        ("models.internal", 200),
        ("evil.example", 403),
        ("127.0.0.1.evil.example", 403),
    ] {
        let reply = asked(&host, "/admin/v1/endpoints", &[("host", name)]);
        assert_eq!(reply.status, status, "{name}: {}", reply.text());
        if status == 403 {
            let text = reply.json()["error"].as_str().unwrap().to_owned();
            assert!(text.contains(name) && text.contains("admin_hosts"), "{text}");
        }
        // Probes ask by names that nothing here knows.
        assert_eq!(asked(&host, "/healthz", &[("host", name)]).status, 200);
    }
}

#[test]
fn pages_of_other_sites_read_and_order_nothing() {
    let host = serve(&[]);
    for (site, status) in [("none", 200), ("same-origin", 200), ("same-site", 403), ("cross-site", 403)] {
        let headers = [("host", "localhost"), ("sec-fetch-site", site)];
        assert_eq!(asked(&host, "/admin/v1/endpoints", &headers).status, status, "{site}");
        let reload = format!("{}/admin/v1/endpoints/echo/reload", host.admin);
        assert_eq!(request("POST", &reload, &[("sec-fetch-site", site)], b"").status, status, "{site}");
    }
}

#[test]
fn begun_uploads_close_nothing_and_take_no_memory() {
    let host = serve(&[]);
    let address = host.admin.strip_prefix("http://").unwrap();
    let part = vec![b'x'; 1 << 20];
    let status = |name: &str| {
        let text = std::fs::read_to_string(format!("/proc/{}/status", host.pid())).unwrap();
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    let before = status("VmRSS");
    let uploads: Vec<TcpStream> = (0..200)
        .filter_map(|number| {
            let mut upload = TcpStream::connect(address).ok()?;
            upload.set_nonblocking(true).ok()?;
            let head = "PUT /admin/v1/endpoints/echo/plugin HTTP/1.1\r\nhost: localhost\r\ncontent-length: 209715200\r\n\r\n";
            upload.write_all(head.as_bytes()).ok()?;
            // As much as is taken.
            while number < 24 && upload.write(&part).is_ok() {}
            Some(upload)
        })
        .collect();
    assert_eq!(uploads.len(), 200);
    for path in ["/healthz", "/v2/health/ready", "/metrics", "/admin/v1/endpoints"] {
        assert_eq!(request("GET", &format!("{}{path}", host.admin), &[], b"").status, 200, "{path}");
    }
    let reload = format!("{}/admin/v1/endpoints/echo/reload", host.admin);
    assert_eq!(request("POST", &reload, &[], b"").json()["outcome"], "unchanged");
    assert_eq!(host.post("/echo", "hello").json()["body"], "hello");
    let grown = (status("VmRSS").saturating_sub(before)) >> 10;
    assert!(grown < 300, "{grown} MiB");
    drop(uploads);
    // And an order with its component there is taken again.
    let plugin = format!("{}/admin/v1/endpoints/echo/plugin", host.admin);
    wait_until("the order to be taken", || {
        request("PUT", &plugin, &[], &e2e::version("tests/echo", 1)).json()["outcome"] == json!("published")
    });
}

/// Kubernetes, KServe's and SageMaker's clients each ask by paths of their own.
#[test]
fn health_answers_on_the_paths_that_are_asked() {
    let host = serve(&[]);
    for url in [&host.url, &host.admin] {
        for (path, expected) in [
            ("/healthz", json!({ "ok": true })),
            ("/livez", json!({ "ok": true })),
            ("/v2/health/live", json!({ "ok": true })),
            ("/readyz", json!({ "ready": true })),
            ("/ping", json!({ "ready": true })),
            ("/v2/health/ready", json!({ "ready": true })),
        ] {
            let reply = request("GET", &format!("{url}{path}"), &[], b"");
            assert_eq!((reply.status, reply.json()), (200, expected), "{url}{path}");
        }
    }
    for path in ["/metrics", "/metrics/"] {
        let reply = request("GET", &format!("{}{path}", host.admin), &[], b"");
        assert!(reply.status == 200 && reply.text().contains("modelhost_build_info"), "{path}");
    }
    // KServe's `is_server_live`, and Truss's clients.
    assert_eq!(host.get("/").json()["status"], "alive");
}

/// What RFC 9112 and 9110 want of a head, and what is refused by its own status.
#[test]
fn a_head_that_leaves_open_whom_or_what_it_means_is_refused() {
    let host = serve(&[]);
    let rest = "content-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
    for (head, status) in [
        ("HTTP/1.1\r\nhost: a\r\n", 200),
        ("HTTP/1.0\r\n", 200),
        ("HTTP/1.1\r\n", 400),
        ("HTTP/1.1\r\nhost: a\r\nhost: b\r\n", 400),
        ("HTTP/1.1\r\nhost: a\r\nhost: a\r\n", 400),
        ("HTTP/1.1\r\nhost: a\r\nexpect: 200-ok\r\n", 417),
        ("HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\n", 200),
    ] {
        let mut wire = Wire::connect(&host.url).unwrap();
        wire.send(format!("POST /echo {head}{rest}").as_bytes()).unwrap();
        let mut reply = wire.read().unwrap();
        if reply.status == 100 {
            reply = wire.read().unwrap();
        }
        assert_eq!(reply.status, status, "{head:?}: {}", reply.text());
    }
    for coding in ["gzip, chunked", "identity, chunked", "gzip"] {
        let mut wire = Wire::connect(&host.url).unwrap();
        let head = format!("POST /echo HTTP/1.1\r\nhost: a\r\ntransfer-encoding: {coding}\r\n\r\n0\r\n\r\n");
        wire.send(head.as_bytes()).unwrap();
        let reply = wire.read().unwrap();
        assert!(matches!(reply.status, 400 | 501), "{coding}: {}", reply.status);
        assert!(coding == "gzip" || reply.error(501, "not_implemented", "admit").contains("chunked"));
    }
    assert_eq!(host.post("/echo", "hello").json()["body"], "hello");
}
